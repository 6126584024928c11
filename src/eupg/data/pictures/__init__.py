"""Pictures as data: files, the picture attribute and CIFAR-10."""
