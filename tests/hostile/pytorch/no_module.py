# attempt: no module
# kind: malformed
# caught: compile_error
# said: SyntaxError
class ModelNew(:
