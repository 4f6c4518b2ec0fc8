"""What compiled_reference.py asks of Triton."""
__version__ = "0-fake"
