"""Errors, checks of arguments, ragged ranges, and PyTorch's internals."""
