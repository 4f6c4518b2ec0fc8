# attempt: it ends itself at its import
# kind: malformed
# caught: compile_error
# said: SystemExit
import sys
sys.exit(0)
