#!/usr/bin/env bash
# What tools/gpu_check.sh makes of programs that pass, skip and fail; they are made up, no GPU is needed.
#
#   gpu_check_test.sh BIN   BIN: the real programs; the cases that it asks them for must be there
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/bin"

fail() { echo "gpu_check: $*" >&2; cat "$folder/said" >&2; exit 1; }

# program NAME CODE LINES...: writes what tests/support/main.cpp writes, and ends.
program() {
  local name=$1 code=$2; shift 2
  { echo '#!/usr/bin/env bash'; printf 'printf "%%b" %q >"$QUERN_TEST_CASES"\n' "$(printf '%s\\n' "$@")"; echo "exit $code"; } \
    >"$folder/bin/$name"
  chmod +x "$folder/bin/$name"
}
# The kinds gpu and no_gpu both expect this one.
expected='skipped\twithout a driver the probe says so\tno reason'
program gpu_passes_test 0 'program\ta' 'passed\tb' end
program gpu_skips_test 0 'program\tgpu_probe_test' 'passed\tb' "$expected" end
program gpu_dies_test 0 'program\ta' 'passed\tb'
program gpu_unexpected_test 0 'program\ta' 'skipped\tb\tno reason' end
program gpu_fails_test 1 'program\ta' 'failed\tb\ta check' end

# check ONLY CODE LAST_LINE [PART]
check() {
  local code=0
  "$root/tools/gpu_check.sh" --build "$folder" --logs "$folder/logs" --only "$1" ${4:+--part "$4"} >"$folder/said" 2>&1 || code=$?
  [ $code = "$2" ] || fail "$1: exit code $code, not $2"
  tail -1 "$folder/said" | grep -qxF "$3" || fail "$1: not '$3'"
}
check gpu_passes 0 '1 passed, 0 failed, 0 skipped'
check gpu_passes,gpu_skips 0 '1 passed, 0 failed, 1 skipped'
check gpu_dies 1 '0 passed, 1 failed, 0 skipped'
check gpu_unexpected 1 '0 passed, 1 failed, 0 skipped'
check gpu_passes,gpu_skips,gpu_fails 1 '1 passed, 1 failed, 1 skipped'

# refused WORDS ARGUMENTS...: at once, with 2 and these words; nothing is built or run.
refused() {
  local words=$1 code=0; shift
  timeout 30 "$root/tools/gpu_check.sh" --logs "$folder/logs" "$@" >"$folder/said" 2>&1 || code=$?
  [ $code = 2 ] || fail "$*: exit code $code, not 2"
  grep -qF -- "$words" "$folder/said" || fail "$*: not '$words'"
  ! grep -q ' passed, ' "$folder/said" || fail "$*: was carried out"
}
refused "gpu_check: --build: no programs in '/nowhere/bin'; name a build folder" --build /nowhere
refused "gpu_check: --only: no step's name contains 'zzz'" --build "$folder" --only zzz
grep -qxF '  gpu_passes_test' "$folder/said" || fail "names of steps are not told"
refused "gpu_check: --only: no step's name contains 'zzz'" --build "$folder" --only gpu_passes,zzz
refused "gpu_check: --gpus: GPU 0 stands there twice" --build "$folder" --gpus 0,1,0
refused "gpu_check: --gpus: '00' is no number of a GPU" --build "$folder" --gpus 0,00
mkdir "$folder/empty"
refused "gpu_check: --modules: no candidate.py below '$folder/empty'; name a folder" --build "$folder" --modules "$folder/empty"
refused "gpu_check: --kernelbench: no tasks in '/nowhere/KernelBench'; name a clone" --build "$folder" --kernelbench /nowhere

# Without --build it would build first.
refused "gpu_parts: --part: '3/2' is not K/N" --part 3/2

# Two steps in two parts: only both together pass, and only of one build.
check gpu_passes,gpu_skips 1 '1 passed, 0 failed, 0 skipped' 1/2
grep -qF 'part 2 of 2 has not run' "$folder/said" || fail "a missing part is not told"
check gpu_passes,gpu_skips 0 '1 passed, 0 failed, 1 skipped' 2/2
echo '# another build' >>"$folder/bin/gpu_passes_test"
check gpu_passes,gpu_skips 1 '1 passed, 0 failed, 0 skipped' 1/2
grep -qF 'not counted: part 2' "$folder/said" || fail "a part of another build is not told"
check gpu_passes 2 'gpu_parts: --part: '"'3/2' is not K/N with K from 1 to N: say 1/3, 2/3 and 3/3" 3/2

# What needs other people's files is a step where they are given, with these files.
mkdir -p "$folder/pairs/a" "$folder/theirs/KernelBench"
touch "$folder/pairs/a/candidate.py"
printf '#!/usr/bin/env bash\necho "$@" >>%q\n' "$folder/asked" >"$folder/bin/bench_pytorch"
chmod +x "$folder/bin/bench_pytorch"
refused "no step's name contains 'beside ours'" --build "$folder" --only 'beside ours' --kernelbench "$folder/theirs"
"$root/tools/gpu_check.sh" --build "$folder" --logs "$folder/logs" --quick --only 'beside ours,slim and full' --modules "$folder/pairs" \
  --kernelbench "$folder/theirs" >"$folder/said" 2>&1 || fail "steps with other people's files do not pass"
grep -qE "^rate $folder/pairs --gpu 0 .*--kernelbench $folder/theirs --kernelbench-beside 8" "$folder/asked" || fail "$(cat "$folder/asked")"
grep -qE "^agreement --honest --gpu 0 .* $folder/pairs$" "$folder/asked" || fail "$(cat "$folder/asked")"
rm "$folder/bin/bench_pytorch"

# The longest first, and each is told which GPU is its own. What uses two GPUs has nothing beside it on these, and others go on.
slow() {  # slow NAME SECONDS
  program $1 0 'program\ta' 'passed\tb' end
  sed -i "1a echo \"$1 of \${QUERN_TEST_GPU:-all}\" >>$folder/order; sleep $2; echo \"$1 ends\" >>$folder/order" "$folder/bin/$1"
}
in_order() {  # in_order GPUS ONLY
  rm -f "$folder/order"
  "$root/tools/gpu_check.sh" --build "$folder" --logs "$folder/logs" --gpus "$1" --only "$2" >"$folder/said" 2>&1 ||
    fail "$2 on GPUs $1 does not pass"
}
slow gpu_commands_test 0.1
slow gpu_controls_test 0.1
in_order 0 gpu_commands,gpu_controls
[ "$(head -1 "$folder/order")" = 'gpu_controls_test of 0' ] || fail "$(cat "$folder/order"): not the longest first"
if [ "$(nproc)" -gt 1 ]; then
  slow test_ranks_e2e 0.5
  slow gpu_controls_test 2
  slow gpu_commands_test 2
  in_order 0,1 'kills of ranks,gpu_controls,gpu_commands'
  [ "$(head -2 "$folder/order")" = $'test_ranks_e2e of all\ntest_ranks_e2e ends' ] || fail "$(cat "$folder/order"): not alone"
  [ "$(grep -o ' of [01]$' "$folder/order" | sort)" = $' of 0\n of 1' ] || fail "$(cat "$folder/order"): not one a GPU"
fi
if [ "$(nproc)" -gt 2 ]; then
  slow test_ranks_e2e 3
  in_order 0,1,2 'kills of ranks,gpu_controls'
  [ "$(tail -1 "$folder/order")" = 'test_ranks_e2e ends' ] || fail "$(cat "$folder/order"): the third GPU waits for the first two"
fi

# A case that is asked for by a name which no case has (any more) is not run.
asked=0
while read -r name words; do
  asked=$((asked + 1))
  [ -x "$1/$name" ] || continue
  IFS=, read -ra each <<<"$words"
  for word in "${each[@]}"; do
    "$1/$name" --test-case="$word" --count >"$folder/said"
    grep -qE 'unskipped .*: [1-9]' "$folder/said" || fail "$name has no case '$word'"
  done
done < <(sed -e ':a' -e '/\\$/{N;s/\\\n//;ba' -e '}' "$root/tools/gpu_check.sh" |
  sed -nE 's|.*"\$build/bin/([a-z0-9_]+)" +--test-case="([^"]*)".*|\1 \2|p')
[ $asked -gt 0 ] || fail "no step asks for a case"
echo "gpu_check: ok"
