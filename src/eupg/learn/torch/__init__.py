"""PyTorch networks: training loops for tables and pictures, DP-SGD and noisy steps."""
