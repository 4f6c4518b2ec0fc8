#!/usr/bin/env bash
# Every test and benchmark that needs a GPU, on a host that has one: hardware and date first, the last
# lines of each step as it ends, then a table of all steps. The last line is "N passed, N failed, N skipped":
# a step of which a test case was skipped did not pass; one that tests/expected_skips.txt does not expect of this
# host makes it fail.
#
#   tools/gpu_check.sh               set up, build, test, measure; more than half an hour on an H200 with 16 cores
#   tools/gpu_check.sh --quick       the same steps with fewer trials
#   tools/gpu_check.sh --quick --full A,B  but for steps whose name contains A or B
#   tools/gpu_check.sh --gpus 0,1,2  steps side by side, one a GPU, those that take longest first; cores are shared
#                                    out among them (default: 0). What needs the host alone comes before
#   tools/gpu_check.sh --policy DIR  also kills the processes of a run in lane cuda; DIR: what
#                                    quern export runs/cuda_demo/1-sft DIR wrote
#   tools/gpu_check.sh --modules DIR  also judges the modules of DIR by both builds, and in the rate; DIR: folders
#                                    with a reference and a candidate each, as bench_pytorch rate takes them
#   tools/gpu_check.sh --kernelbench TREE  also runs KernelBench's hostile kernels over the shim; with --modules its
#                                    evaluator beside ours, too. TREE: a clone, at 423217d
#   tools/gpu_check.sh --build DIR   with the programs in DIR/bin, built before
#   tools/gpu_check.sh --only A,B    steps whose name contains A or B
#   tools/gpu_check.sh --part K/N    part K of N, each at most 9 minutes; the parts that --logs has of this build are
#                                    added up, and only all of them together pass
#   tools/gpu_check.sh --logs DIR    where the whole output of each step goes (default: DIR of --build, gpu_check)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build='' quick=no full='' only='' logs='' policy='' module_pairs='' kernelbench='' part='' gpus=(0)
while [ $# -gt 0 ]; do
  case "$1" in
    --build) build=${2:?"gpu_check: --build needs a folder"}; shift ;;
    --only) only=${2:?"gpu_check: --only needs words"}; shift ;;
    --logs) logs=${2:?"gpu_check: --logs needs a folder"}; shift ;;
    --policy) policy=${2:?"gpu_check: --policy needs a folder"}; shift ;;
    --modules) module_pairs=${2:?"gpu_check: --modules needs a folder"}; shift ;;
    --kernelbench) kernelbench=${2:?"gpu_check: --kernelbench needs a folder"}; shift ;;
    --gpus) IFS=, read -ra gpus <<<"${2:?"gpu_check: --gpus needs numbers: 0,1"}"; shift ;;
    --part) part=${2:?"gpu_check: --part needs K/N, as 1/3"}; shift ;;
    --quick) quick=yes ;;
    --full) full=${2:?"gpu_check: --full needs a word"}; shift ;;
    -h|--help) sed -n '2,22p' "$0" | sed 's/^# \{0,1\}//'; exit 0 ;;
    *) echo "gpu_check: unknown argument '$1'; known: --quick, --full A,B, --gpus LIST, --policy DIR, --modules DIR, --kernelbench TREE, --build DIR, --only A,B, --part K/N, --logs DIR," \
            "--help" >&2
       exit 2 ;;
  esac
  shift
done
for gpu in "${gpus[@]}"; do
  [[ "$gpu" =~ ^(0|[1-9][0-9]*)$ ]] || { echo "gpu_check: --gpus: '$gpu' is no number of a GPU; say 0,1,2" >&2; exit 2; }
done
twice=$(printf '%s\n' "${gpus[@]}" | sort | uniq -d | head -1)
if [ -n "$twice" ]; then
  echo "gpu_check: --gpus: GPU $twice stands there twice, and steps side by side need one each; name each GPU once" >&2
  exit 2
fi
if [ -n "$part" ]; then tools/gpu_parts share "$part" <<<"1	a step" >/dev/null; fi  # refuses what is no K/N
if [ -n "$build" ] && [ ! -d "$build/bin" ]; then
  echo "gpu_check: --build: no programs in '$build/bin'; name a build folder such as build/dev, or leave --build out to build here" >&2
  exit 2
fi
if [ -n "$policy" ] && [ ! -f "$policy/config.json" ]; then
  echo "gpu_check: --policy: no config.json in '$policy'; name a folder that quern export wrote" >&2
  exit 2
fi
if [ -n "$module_pairs" ] && [ -z "$(find "$module_pairs" -name candidate.py -print -quit 2>/dev/null)" ]; then
  echo "gpu_check: --modules: no candidate.py below '$module_pairs'; name a folder of folders with reference.py and candidate.py" >&2
  exit 2
fi
if [ -n "$kernelbench" ] && [ ! -d "$kernelbench/KernelBench" ]; then
  echo "gpu_check: --kernelbench: no tasks in '$kernelbench/KernelBench'; name a clone of https://github.com/ScalingIntelligence/KernelBench" >&2
  exit 2
fi
if [ -z "$build" ]; then
  # PyTorch and transformers are what some steps compare with.
  tools/setup.sh --python
  cmake --preset dev -DQUERN_CUDA=ON
  cmake --build build/dev -j "$(nproc)"
  build=build/dev
fi
logs=${logs:-$build/gpu_check}
mkdir -p "$logs"
# Not among temporary files: a step looks at those.
work=$(mktemp -d "$logs/work.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'kill $(jobs -p) 2>/dev/null; exit 130' INT TERM

date -u '+%Y-%m-%d %H:%M UTC'
nvidia-smi --query-gpu=index,name,driver_version,memory.total --format=csv,noheader || true
echo "$(nproc) cores, $(awk '/MemTotal/ {printf "%.0f GiB", $2 / 1048576}' /proc/meminfo), $(uname -sr)"
commit=$(git log -1 --format=%h 2>/dev/null) || commit=unknown
if [ -n "$(git status --porcelain --untracked-files=no 2>/dev/null)" ]; then commit+=', changed'; fi
# A copy of a checkout may have no history: its programs say as much.
programs=$(cd "$build/bin" && find . -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum | cut -c1-12)
identity="commit $commit, programs $programs"
echo "$identity"

# Here a missing GPU is a failure, not a reason to skip.
export QUERN_REQUIRE_GPU=1
# The processors that this script may use, shared out among the GPUs.
allowed=()
IFS=, read -ra ranges <<<"$(awk '/^Cpus_allowed_list/ {print $2}' /proc/self/status)"
for range in "${ranges[@]}"; do
  mapfile -t -O "${#allowed[@]}" allowed < <(seq "${range%-*}" "${range#*-}")
done
cores=$((${#allowed[@]} / ${#gpus[@]}))
if [ $cores = 0 ]; then
  echo "gpu_check: ${#allowed[@]} processors for ${#gpus[@]} GPUs; each needs one of its own: fewer --gpus" >&2
  exit 2
fi
# What is built beside a measurement leaves it two of them.
threads=$((cores > 3 ? cores - 2 : 1))

# names_one_of NAME WORDS: whether it contains one of A,B,...; no words: it does.
names_one_of() {
  local word words
  [ -n "$2" ] || return 0
  IFS=, read -ra words <<<"$2"
  for word in "${words[@]}"; do [[ "$1" != *"$word"* ]] || return 0; done
  return 1
}

# step NAME LINES EXPECTED LIMIT COMMAND...: queued for whichever GPU is free, which stands for @GPU@ in the command;
# its last LINES lines here, all of them in the log; EXPECTED seconds on an H100 with 16 cores, by which parts are
# made and the queue is sorted; LIMIT seconds at most.
# alone: on the first GPU, before all others. on_two: on the first two, which do nothing else meanwhile. on_first: on
# the first, before others that could run anywhere.
known=() names=() lines=() expected=() limits=() commands=() firsts=() before=() pairs=() others=()
queue() {
  local name=$1 index=${#names[@]}
  known+=("$name")
  names_one_of "$name" "$only" || return 1
  names+=("$name") lines+=("$2") expected+=("$3") limits+=("$4")
  shift 4
  commands+=("$(printf '%q ' "$@")")
  queued=$index
}
step() { if queue "$@"; then others+=("$queued"); fi; }
on_first() { if queue "$@"; then firsts+=("$queued"); fi; }
alone() { if queue "$@"; then before+=("$queued"); fi; }
on_two() { if queue "$@"; then pairs+=("$queued"); fi; }

# run_step INDEX GPU CORES
run_step() {
  local index=$1 name=${names[$1]} begun=$SECONDS rc=0 said=ok limit=${limits[$1]}
  local log="$logs/${name//[^a-zA-Z0-9_-]/_}.log" command=${commands[$1]//@GPU@/$2}
  local cases="$work/cases.$index"
  if [ $part_ends -gt 0 ] && [ "$limit" -gt $((part_ends - SECONDS)) ]; then limit=$((part_ends - SECONDS)); fi
  if [ "$limit" -le 0 ]; then
    printf 'FAILED (its part was over)\t0\t%s\n' "$name" >"$work/row.$index"
    return
  fi
  # A test program writes there what became of its cases; other steps write nothing.
  QUERN_TEST_CASES=$cases timeout --kill-after=20 "$limit" taskset -c "$3" bash -c "$command" >"$log" 2>&1 || rc=$?
  if [ $rc = 0 ] && [ -s "$cases" ]; then
    tools/count_cases --file "$cases" >"$cases.counts" || rc=$?
    cat "$cases.counts" >>"$log"
    # A part that is not carried out is not passed.
    if [[ $(tail -1 "$cases.counts") =~ ([1-9][0-9]*)\ skipped$ ]]; then said="skipped (${BASH_REMATCH[1]} cases)"; fi
  fi
  if [ $rc != 0 ]; then said="FAILED ($rc)"; fi
  if [ $rc = 124 ]; then said="FAILED (more than $limit s)"; fi
  printf '%s\t%d\t%s\n' "$said" $((SECONDS - begun)) "$name" >"$work/row.$index"
  (
    flock 9
    printf '\n== %s: %s\n' "$name" "$command"
    # Whatever a step says is not right, then how it ended.
    { grep -E '^\*\*' "$log" || true; } | head -40
    { grep -vE '^\*\*' "$log" || true; } | tail -n "${lines[$index]}"
    if [ $rc != 0 ]; then echo "gpu_check: $said: $name; all of it in $log"; fi
  ) 9>"$work/print"
}

# share_of NUMBER: the processors of a worker.
share_of() { (IFS=, && echo "${allowed[*]:$(($1 * cores)):cores}"); }

# worker NUMBER: the next of those that wait, until none does.
worker() {
  local share index at
  share=$(share_of "$1")
  if [ "$1" = 0 ]; then
    # However it ends, the second one goes on.
    trap ': >"$work/second_is_free"' EXIT
    for index in "${pairs[@]}"; do run_step "$index" "${gpus[0]}" "$share,$(share_of 1)"; done
    : >"$work/second_is_free"
    for index in "${firsts[@]}"; do run_step "$index" "${gpus[0]}" "$share"; done
  elif [ "$1" = 1 ]; then
    until [ -e "$work/second_is_free" ]; do sleep 0.2; done
  fi
  while :; do
    exec 8>"$work/turn"
    flock 8
    at=$(cat "$work/next")
    echo $((at + 1)) >"$work/next"
    exec 8>&-
    [ "$at" -lt "${#others[@]}" ] || return 0
    run_step "${others[$at]}" "${gpus[$1]}" "$share"
  done
}

# is_quick NAME; pick NAME QUICK FULL
is_quick() { [ $quick = yes ] && { [ -z "$full" ] || ! names_one_of "$1" "$full"; }; }
pick() { if is_quick "$1"; then echo "$2"; else echo "$3"; fi; }

doctor() { "$build/bin/quern" doctor | tee /dev/stderr | grep "^ok   GPU $1 .*a kernel ran" >/dev/null; }
export -f doctor
export build
alone doctor 12 5 120 doctor @GPU@

# How docs/performance.md and docs/integrity.md come by their figures of lane cuda.
bench="$build/bin/bench_gpu"
if [ -x "$bench" ]; then
  alone "rate of host code" 36 "$(pick "rate of host code" 62 85)" 200 "$bench" rate --gpu @GPU@ --form host_entry --threads "$threads" \
    --rounds "$(pick "rate of host code" 6 8)"
  alone "rate of plans" 36 "$(pick "rate of plans" 25 50)" 200 "$bench" rate --gpu @GPU@ --form device_only --threads "$threads" \
    --rounds "$(pick "rate of plans" 2 4)"
  if [ ${#gpus[@]} -gt 1 ]; then
    # Each of them with its share of the processors.
    alone "rate of two GPUs" 12 "$(pick "rate of two GPUs" 65 130)" 300 taskset -c "$(share_of 0),$(share_of 1)" "$bench" rate \
      --gpus "${gpus[0]},${gpus[1]}" --form device_only --threads "$threads" \
      --rounds "$(pick "rate of two GPUs" 2 4)"
  fi
  alone "a kernel against itself" 14 "$(pick "a kernel against itself" 23 110)" 300 "$bench" self --gpu @GPU@ --threads "$threads" \
    --trials "$(pick "a kernel against itself" 4 20)"
  # Looks for what was left behind on the whole host.
  alone "mixed" 24 "$(pick mixed 58 310)" "$(pick mixed 200 900)" "$bench" mixed --gpu @GPU@ --no-screen --threads "$threads" \
    --count "$(pick mixed 60 500)"
  # Twenty kernels, half a minute each; in parts, so that several GPUs have some. The quick one has nothing beside it:
  # contexts made on another GPU hold up a kernel that asks the driver for something.
  if is_quick agreement; then
    alone "agreement" 6 32 300 "$bench" agreement --gpu @GPU@ --threads "$threads" --kernels 6 --long-s 2
  else
    for from in 0 2 4 6 8 10 12 14 16 18; do
      step "agreement from $from" 6 75 200 "$bench" agreement --gpu @GPU@ --threads "$threads" --kernels 20 --long-s 30 \
        --from $from --to $((from + 2))
    done
  fi
  step "honest" 2 45 300 "$bench" honest --gpu @GPU@ --threads "$threads"
  if is_quick hostile; then
    some=cache_,safe_if,narrow,rarely,write_,stream,slack,replies,patches_,interposes,litters,keeps_,forges,canonical
    step "hostile" 3 8 200 "$bench" hostile --gpu @GPU@ --threads "$threads" --only $some
    step "hostile without the screen" 3 11 200 "$bench" hostile --gpu @GPU@ --no-screen --threads "$threads" --only $some
  else
    step "hostile" 3 90 500 "$bench" hostile --gpu @GPU@ --threads "$threads"
    step "hostile without the screen" 3 150 500 "$bench" hostile --gpu @GPU@ --no-screen --threads "$threads"
    step "hostile plans as host code" 3 125 500 "$bench" hostile --gpu @GPU@ --no-screen --host-entry --threads "$threads"
  fi
  step "false-accept rate" 6 "$(pick "false-accept rate" 9 45)" 300 "$bench" hostile --gpu @GPU@ --no-screen --threads "$threads" \
    --repeat "$(pick "false-accept rate" 20 100)" --only safe_if_a_sample,narrow_counters,rarely_wrong
  step "a kernel against itself, whole" 8 "$(pick "a kernel against itself, whole" 10 80)" 200 "$bench" self --gpu @GPU@ --whole --threads "$threads" \
    --trials "$(pick "a kernel against itself, whole" 2 20)"
fi
# How docs/performance.md comes by its figures of modules on a GPU. A part K/N of bench_pytorch is a share of a step's work.
modules="$build/bin/bench_pytorch"
if [ -x "$modules" ]; then
  if is_quick modules; then
    step "honest modules" 4 60 300 "$modules" honest --gpu @GPU@ --compilers "$threads" --part 1/4
    step "hostile modules" 5 60 300 "$modules" hostile --gpu @GPU@ --compilers "$threads" --part 1/8
    alone "mixed modules" 14 60 300 "$modules" mixed --gpu @GPU@ --compilers "$threads" --count 40
  else
    for share in 1/2 2/2; do
      step "honest modules, $share" 4 150 530 "$modules" honest --gpu @GPU@ --compilers "$threads" --part $share
    done
    for share in 1/3 2/3 3/3; do
      step "hostile modules, $share" 5 200 530 "$modules" hostile --gpu @GPU@ --compilers "$threads" --part $share
    done
    # Looks for what was left behind on the whole host.
    for share in 1/3 2/3 3/3; do
      alone "mixed modules, $share" 14 420 530 "$modules" mixed --gpu @GPU@ --compilers "$threads" --count 500 --part $share
    done
  fi
  # What an evaluator's copies cost a process on the same device: windows rest on it.
  alone "copies between calls" 2 10 60 "$build/bin/bench_modules" --gpu @GPU@ --forks 0 --trials 0 --checks 0 --copies 200
  # Calls of 900 us and longer, somewhat more precise than a P99 of 0.5 % needs; and of some 160 us. Together 200 claims.
  alone "modules against themselves, long calls" 14 "$(pick "modules against themselves, long calls" 85 260)" 530 "$modules" self --gpu @GPU@ \
    --compilers "$threads" --only mlp,matmul,layer_norms --budget-s 4 --precision 0.003 --count "$(pick "modules against themselves, long calls" 16 60)"
  alone "modules against themselves, short calls" 14 "$(pick "modules against themselves, short calls" 35 205)" 530 "$modules" self --gpu @GPU@ \
    --compilers "$threads" --only softmax,reduction --budget-s 0.5 --count "$(pick "modules against themselves, short calls" 16 140)"
  alone "rate of modules" 14 "$(pick "rate of modules" 60 150)" 530 "$modules" rate --honest --gpu @GPU@ --compilers "$threads" \
    --part "$(pick "rate of modules" 1/4 1/1)" ${module_pairs:+"$module_pairs"}
  # A full build takes a minute and more for a module with C++ or CUDA.
  if is_quick "slim and full builds of modules"; then
    step "slim and full builds of modules" 8 130 530 "$modules" agreement --honest --gpu @GPU@ --compilers "$threads" --part 1/8 \
      ${module_pairs:+"$module_pairs"}
  else
    for share in 1/2 2/2; do
      step "slim and full builds of modules, $share" 8 500 530 "$modules" agreement --honest --gpu @GPU@ --compilers "$threads" --part $share \
        ${module_pairs:+"$module_pairs"}
    done
  fi
  if [ -n "$kernelbench" ]; then
    step "KernelBench's hostile kernels" 24 110 300 tools/kernelbench_shim_check "$kernelbench" --gpu @GPU@ --build "$build" \
      ${QUERN_PYTHON:+--python "$QUERN_PYTHON"}
  fi
  if [ -n "$kernelbench" ] && [ -n "$module_pairs" ]; then
    alone "KernelBench's evaluator beside ours" 14 200 530 "$modules" rate "$module_pairs" --gpu @GPU@ --compilers "$threads" \
      --kernelbench "$kernelbench" --kernelbench-beside 8 --kernelbench-at-once 4 --beside-only
  fi
fi
# How docs/performance.md comes by its figures of the policy.
if [ -x "$build/bin/bench_generate" ]; then
  for model in 0.5B 1.5B; do
    alone "generation of $model" 20 30 200 env CUDA_VISIBLE_DEVICES=@GPU@ "$build/bin/bench_generate" --model $model --only decode
    alone "new weights of $model" 12 15 60 env CUDA_VISIBLE_DEVICES=@GPU@ "$build/bin/bench_generate" --model $model --only install
  done
  alone "generation beside transformers" 8 "$(pick "generation beside transformers" 130 220)" 300 env CUDA_VISIBLE_DEVICES=@GPU@ tools/generation_beside_transformers \
    --build "$build" --new "$(pick "generation beside transformers" 64 128)"
fi
if [ -x "$build/bin/bench_train" ]; then
  for model in 0.5B 1.5B; do
    # What 1.5B takes within 60 GB.
    recompute=none
    if [ $model = 1.5B ]; then recompute=mlp; fi
    alone "training of $model" 16 "$(pick "training of $model" 30 55)" 200 env CUDA_VISIBLE_DEVICES=@GPU@ "$build/bin/bench_train" --model $model \
      --recompute $recompute --seconds "$(pick "training of $model" 8 30)"
  done
fi
if [ -x "$build/bin/bench_sft_loss" ]; then
  step "loss of 0.5B beside PyTorch" 12 "$(pick "loss of 0.5B beside PyTorch" 60 160)" \
    "$(pick "loss of 0.5B beside PyTorch" 300 530)" \
    env CUDA_VISIBLE_DEVICES=@GPU@ tools/sft_loss_against_pytorch --build "$build" --out "$work/sft_loss" --model 0.5B \
    --device cuda --precision bfloat16 --beside-itself --steps "$(pick "loss of 0.5B beside PyTorch" 40 200)"
fi
for suite in cuda_quick cuda; do
  if is_quick tasks && [ $suite = cuda ]; then continue; fi
  step "tasks of $suite" 4 "$([ "$suite" = cuda ] && echo 60 || echo 4)" 500 "$build/bin/quern" tasks check --gpu @GPU@ "env/suites/$suite"
done
# What test programs take; those that are not named, half a minute.
seconds_of() { case "$1" in gpu_host_test) echo 150 ;; gpu_controls_test) echo 270 ;; gpu_modules_test) echo 400 ;; gpu_training_test|gpu_protocols_test) echo 60 ;; *) echo 30 ;; esac; }
found=no
for test in "$build"/bin/gpu_*_test; do
  [ -x "$test" ] || continue
  found=yes
  name=$(basename "$test")
  how=step on=()
  case "$name" in
    # These use all devices of the host, up to four of them.
    gpu_host_test|gpu_ranks_test) how=alone ;;
    gpu_generator_test|gpu_policy_kernels_test|gpu_training_test) on=(env CUDA_VISIBLE_DEVICES=@GPU@) ;;
    gpu_commands_test|gpu_context_test|gpu_controls_test|gpu_grammar_test|gpu_modules_test|gpu_oracle_test|gpu_protocols_test|gpu_reference_test)
      on=(env QUERN_TEST_GPU=@GPU@) ;;
    *) how=on_first ;;
  esac
  # No trials are left out where a step is quick: a limit below what it takes would only fail it.
  $how "$name" 4 "$(seconds_of "$name")" "$(pick "$name" 420 530)" "${on[@]}" "$test"
done
# Runs whose processes are killed, with learner and generator on GPUs.
on_gpus="learner.device=cuda actors.generator_device=cuda"
if [ -x "$build/bin/test_kill_e2e" ]; then
  step "kills of a run on a GPU" 12 60 530 \
    env QUERN_TEST_SETTINGS="$on_gpus learner.devices=@GPU@ actors.generator_gpu=@GPU@" "$build/bin/test_kill_e2e" \
    --test-case="kill -9 of every process*,a process that is frozen*"
fi
if [ -x "$build/bin/test_kill_e2e" ] && [ -n "$policy" ]; then
  # Its evaluators time kernels on the device that learner and generator are on.
  step "kills of a run in lane cuda" 12 60 530 env "QUERN_TEST_RUN=configs/cuda_demo.yaml --stage contrastive" \
    QUERN_TEST_SETTINGS="policy.model=$policy policy.max_new_tokens=640 env.gpus=@GPU@ learner.devices=@GPU@ actors.generator_gpu=@GPU@" \
    "$build/bin/test_kill_e2e" --test-case="kill -9 of every process*"
fi
if [ -x "$build/bin/test_module_gpu_runs" ]; then
  step "kills of a run in lane pytorch" 12 200 530 env QUERN_TEST_MODULE_GPU=@GPU@ "$build/bin/test_module_gpu_runs"
fi
if [ -x "$build/bin/test_ranks_e2e" ] && [ ${#gpus[@]} -gt 1 ]; then
  on_two "kills of ranks on two GPUs" 12 120 530 \
    env QUERN_TEST_SETTINGS="$on_gpus learner.devices=${gpus[0]},${gpus[1]} actors.generator_gpu=${gpus[1]}" \
    "$build/bin/test_ranks_e2e"
fi
[ $found = yes ] || { echo "gpu_check: no gpu_*_test in $build/bin: build first" >&2; exit 2; }
IFS=, read -ra words <<<"$only"
for word in "${words[@]}"; do
  if [[ -z "$word" || $'\n'$(printf '%s\n' "${known[@]}") != *"$word"* ]]; then
    echo "gpu_check: --only: no step's name contains '$word'; say parts of names of these steps:" >&2
    printf '  %s\n' "${known[@]}" >&2
    exit 2
  fi
done

if [ -n "$part" ]; then
  # Steps of other parts leave the queues.
  mapfile -t mine < <(for index in "${!names[@]}"; do printf '%s\t%s\n' "${expected[$index]}" "${names[$index]}"; done |
    tools/gpu_parts share "$part")
  [ ${#mine[@]} -gt 0 ] || exit 2
  keep() {  # keep QUEUE: the steps of this part in it
    local -n kept=$1
    local index all=("${kept[@]}")
    kept=()
    for index in "${all[@]}"; do
      if printf '%s\n' "${mine[@]}" | grep -qxF -- "${names[$index]}"; then kept+=("$index"); fi
    done
  }
  keep firsts && keep before && keep pairs && keep others
fi
mapfile -t others < <(for index in "${others[@]}"; do echo "${expected[$index]} $index"; done | sort -k1,1nr -k2,2n | cut -d' ' -f2)
part_ends=0
if [ -n "$part" ]; then part_ends=$((SECONDS + 530)); fi
queued_here=("${before[@]}" "${pairs[@]}" "${firsts[@]}" "${others[@]}")

echo 0 >"$work/next"
for index in "${before[@]}"; do run_step "$index" "${gpus[0]}" "$(share_of 0)"; done
for number in "${!gpus[@]}"; do worker "$number" & done
wait

echo
for index in "${queued_here[@]}"; do
  if [ -e "$work/row.$index" ]; then cat "$work/row.$index"; else printf 'FAILED (not run)\t0\t%s\n' "${names[$index]}"; fi
done >"$work/rows"
settings="quick $quick, full '$full', only '$only', policy $([ -n "$policy" ] && echo yes || echo no), modules $([ -n "$module_pairs" ] && echo yes || echo no), KernelBench $([ -n "$kernelbench" ] && echo yes || echo no), ${#gpus[@]} GPUs"
if [ -z "$part" ]; then
  tools/gpu_parts write "$work/part-1-of-1.json" 1/1 "$identity" "$settings" "$SECONDS" <"$work/rows"
  records=("$work/part-1-of-1.json")
else
  mine="$logs/part-${part/\//-of-}.json"
  tools/gpu_parts write "$mine" "$part" "$identity" "$settings" "$SECONDS" <"$work/rows"
  records=("$mine")
  for record in "$logs"/part-*-of-"${part#*/}".json; do [ "$record" = "$mine" ] || records+=("$record"); done
fi
echo "logs in $logs"
tools/gpu_parts add "${records[@]}"
