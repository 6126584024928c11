"""Stages 2 and 3, pretrain and finetune: examples, and perhaps a model to start from, become a model."""
