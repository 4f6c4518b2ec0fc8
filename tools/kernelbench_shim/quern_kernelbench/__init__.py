"""KernelBench's package with Quern behind its evaluator (README.md of the folder above)."""
