#!/usr/bin/env bash
# Every test and benchmark that needs a GPU, on a host that has one: hardware and date first, the last
# lines of each step, then a table of all steps. The last line is "N passed, N failed".
#
#   tools/gpu_check.sh              set up, build, test, measure: about 25 minutes on an H200 with 16 cores
#   tools/gpu_check.sh --quick      the same steps with fewer trials: about 8 minutes
#   tools/gpu_check.sh --build DIR  with the programs in DIR/bin, built before
#   tools/gpu_check.sh --only WORD  steps whose name contains WORD
#   tools/gpu_check.sh --logs DIR   where the whole output of each step goes (default: DIR of --build, gpu_check)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build='' quick=no only='' logs=''
while [ $# -gt 0 ]; do
  case "$1" in
    --build) build=${2:?"gpu_check: --build needs a folder"}; shift ;;
    --only) only=${2:?"gpu_check: --only needs a word"}; shift ;;
    --logs) logs=${2:?"gpu_check: --logs needs a folder"}; shift ;;
    --quick) quick=yes ;;
    -h|--help) sed -n '2,9p' "$0" | sed 's/^# \{0,1\}//'; exit 0 ;;
    *) echo "gpu_check: unknown argument '$1'; known: --quick, --build DIR, --only WORD, --logs DIR, --help" >&2
       exit 2 ;;
  esac
  shift
done
if [ -z "$build" ]; then
  tools/setup.sh
  cmake --preset dev -DQUERN_CUDA=ON
  cmake --build build/dev -j "$(nproc)"
  build=build/dev
fi
logs=${logs:-$build/gpu_check}
mkdir -p "$logs"

date -u '+%Y-%m-%d %H:%M UTC'
nvidia-smi --query-gpu=index,name,driver_version,memory.total --format=csv,noheader || true
echo "$(nproc) cores, $(awk '/MemTotal/ {printf "%.0f GiB", $2 / 1048576}' /proc/meminfo), $(uname -sr)"
if commit=$(git log -1 --format='%h of %cs' 2>/dev/null); then echo "commit $commit"; fi

# Here a missing GPU is a failure, not a reason to skip.
export QUERN_REQUIRE_GPU=1
threads=$(nproc)
passed=0 failed=0 table=()
# step NAME LINES SECONDS COMMAND...: its last LINES lines here, all of them in the log; SECONDS at most.
step() {
  local name=$1 lines=$2 limit=$3
  shift 3
  case "$name" in *"$only"*) ;; *) return 0 ;; esac
  printf '\n== %s: %s\n' "$name" "$*"
  local begun=$SECONDS rc=0 log="$logs/${name//[^a-zA-Z0-9_-]/_}.log"
  timeout --kill-after=20 "$limit" "$@" >"$log" 2>&1 || rc=$?
  # Whatever a step says is not right, then how it ended.
  { grep -E '^\*\*' "$log" || true; } | head -40
  { grep -vE '^\*\*' "$log" || true; } | tail -n "$lines"
  local took=$((SECONDS - begun)) said=ok
  if [ $rc = 0 ]; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1)) said="FAILED ($rc)"
    if [ $rc = 124 ]; then said="FAILED (more than $limit s)"; fi
    echo "gpu_check: $said: $name; all of it in $log"
  fi
  table+=("$(printf '%-44s %5d s  %s' "$name" "$took" "$said")")
}
# pick QUICK FULL
pick() { if [ $quick = yes ]; then echo "$1"; else echo "$2"; fi; }

doctor() { "$build/bin/quern" doctor | tee /dev/stderr | grep '^ok   GPU 0 .*a kernel ran' >/dev/null; }
export -f doctor
export build
step doctor 12 120 bash -c doctor
found=no
for test in "$build"/bin/gpu_*_test; do
  [ -x "$test" ] || continue
  found=yes
  step "$(basename "$test")" 4 "$(pick 120 600)" "$test"
done
[ $found = yes ] || { echo "gpu_check: no gpu_*_test in $build/bin: build first" >&2; exit 2; }

# How docs/performance.md and docs/integrity.md come by their figures of lane cuda.
bench="$build/bin/bench_gpu"
if [ -x "$bench" ]; then
  step "honest" 2 300 "$bench" honest --threads "$threads"
  step "hostile" 3 400 "$bench" hostile --threads "$threads"
  if [ $quick = yes ]; then
    some=cache_,safe_if,narrow,rarely,write_,stream,slack,replies,patches_,interposes,litters,keeps_,forges
    step "hostile without the screen" 3 120 "$bench" hostile --no-screen --threads "$threads" --only $some
  else
    step "hostile without the screen" 3 500 "$bench" hostile --no-screen --threads "$threads"
    step "hostile plans as host code" 3 500 "$bench" hostile --no-screen --host-entry --threads "$threads"
  fi
  step "false-accept rate" 6 300 "$bench" hostile --no-screen --threads "$threads" --repeat "$(pick 20 100)" \
    --only safe_if_a_sample,narrow_counters,rarely_wrong
  step "mixed" 24 500 "$bench" mixed --no-screen --threads "$threads" --count "$(pick 60 500)"
  step "a kernel against itself" 14 300 "$bench" self --threads "$threads" --trials "$(pick 4 20)"
  step "a kernel against itself, whole" 8 200 "$bench" self --whole --threads "$threads" --trials "$(pick 2 20)"
  step "agreement" 6 300 "$bench" agreement --threads "$threads" --kernels "$(pick 6 20)" --long-s "$(pick 2 5)"
  step "rate of plans" 14 200 "$bench" rate --form device_only --threads "$threads" --rounds "$(pick 2 4)"
  step "rate of host code" 14 200 "$bench" rate --form host_entry --threads "$threads" --rounds "$(pick 2 4)"
fi
for suite in cuda_quick cuda; do
  if [ $quick = yes ] && [ $suite = cuda ]; then continue; fi
  step "tasks of $suite" 4 500 "$build/bin/quern" tasks check "env/suites/$suite"
done

echo
printf '%s\n' "${table[@]}"
echo "logs in $logs; agreement with windows of 30 s takes ten minutes: bench_gpu agreement --long-s 30 --out FILE"
echo "$SECONDS s, $passed passed, $failed failed"
[ "$failed" = 0 ]
