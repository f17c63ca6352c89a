"""The native kernels from Python: the library, its structures, and the operators made of them."""
