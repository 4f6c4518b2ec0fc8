#!/usr/bin/env bash
# Every test that needs a GPU, on a host that has one. The last line is "N passed, N failed".
#
#   tools/gpu_check.sh              set up, build, test
#   tools/gpu_check.sh --build DIR  with the programs in DIR/bin, built before
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build=
case "${1:-}" in
  '') ;;
  --build) build=${2:?"gpu_check: --build needs a folder"} ;;
  -h|--help) sed -n '2,5p' "$0" | sed 's/^# \{0,1\}//'; exit 0 ;;
  *) echo "gpu_check: unknown argument '$1'; known: --build DIR, --help" >&2; exit 2 ;;
esac
if [ -z "$build" ]; then
  tools/setup.sh
  cmake --preset dev -DQUERN_CUDA=ON
  cmake --build build/dev -j "$(nproc)"
  build=build/dev
fi

# Here a missing GPU is a failure, not a reason to skip.
export QUERN_REQUIRE_GPU=1
passed=0 failed=0
check() {
  printf '\n== %s\n' "$*"
  if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "gpu_check: FAILED: $*"; fi
}
found=no
for test in "$build"/bin/gpu_*_test; do
  [ -x "$test" ] || continue
  found=yes
  check "$test"
done
[ $found = yes ] || { echo "gpu_check: no gpu_*_test in $build/bin: build first" >&2; exit 2; }
# Every honest candidate is ok, no hostile one gets through, with the static screen and without; the
# other two print figures, which docs/performance.md has with hardware and date.
bench() { "$build/bin/bench_gpu" "$@" | tee "$logs/bench_gpu_$(IFS=_; echo "$*").log" | grep -E '^(\*\*|[0-9]+ )'; [ "${PIPESTATUS[0]}" = 0 ]; }
logs=$(mktemp -d)
if [ -x "$build/bin/bench_gpu" ]; then
  check bench honest
  check bench hostile
  check bench hostile --no-screen
  check "$build/bin/bench_gpu" rate --form device_only --rounds 4
  check "$build/bin/bench_gpu" rate --form host_entry --rounds 4
  check "$build/bin/bench_gpu" self --trials 20
fi
echo "logs in $logs"
doctor() { "$build/bin/quern" doctor | tee /dev/stderr | grep '^ok   GPU 0 .*a kernel ran' >/dev/null; }
check doctor
echo
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
