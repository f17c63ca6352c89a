"""Native kernels: the library, its C structures, and PyTorch operators."""
