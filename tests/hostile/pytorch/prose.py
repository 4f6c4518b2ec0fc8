# attempt: prose
# kind: malformed
# caught: compile_error
# said: SyntaxError
Here is the kernel:
