# Sourced: first_python ROOT NEEDS SCRIPT ARGS... runs the script by $QUERN_PYTHON, else by the first Python that can
# import what it needs: .venv-python, .venv, python3. A script says so by exit code 77. Returns its exit code, 77 with
# a reason where none can.
first_python() {
  local root=$1 needs=$2 rc python pythons
  shift 2
  pythons=("$root/.venv-python/bin/python" "$root/.venv/bin/python" python3)
  if [ -n "${QUERN_PYTHON:-}" ]; then pythons=("$QUERN_PYTHON"); fi
  for python in "${pythons[@]}"; do
    command -v "$python" >/dev/null || continue
    rc=0
    "$python" -B "$@" || rc=$?
    [ $rc = 77 ] || return $rc
  done
  echo "$(basename "$0"): no Python with $needs: run tools/setup.sh --python, or name one in QUERN_PYTHON" >&2
  return 77
}
