# attempt: nothing
# kind: malformed
# caught: compile_error
# said: no class ModelNew
