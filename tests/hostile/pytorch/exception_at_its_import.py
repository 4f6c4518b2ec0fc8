# attempt: an exception at its import
# kind: malformed
# caught: compile_error
# said: early
raise RuntimeError('early')
