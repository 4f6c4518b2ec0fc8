# attempt: no class
# kind: malformed
# caught: compile_error
# said: no class ModelNew
import torch
