"""A package with the names of KernelBench's that the shim replaces, for tests. Written by us: it evaluates nothing."""
