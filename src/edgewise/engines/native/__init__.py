"""C++ kernels: loading of the library, its C structures, and PyTorch operators that call it."""
