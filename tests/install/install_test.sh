#!/usr/bin/env bash
# Installs a build into a new folder, moves it, and uses it from another one: install_test.sh CMAKE BUILD_FOLDER
set -euo pipefail
cmake=$1 build=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$cmake" --install "$build" --prefix "$folder/first" >/dev/null
mv "$folder/first" "$folder/moved"
mkdir "$folder/elsewhere"
cd "$folder/elsewhere"
unset QUERN_SHARE
bin=$folder/moved/bin share=$folder/moved/share/quern

fail() { echo "install: $*" >&2; exit 1; }

"$bin/quern" train "$share/configs/quickstart.yaml" --set env.sandbox=best_effort --dry-run >plan || fail "train --dry-run"
grep -q '^# tasks: 32 trained on, 32 held out$' plan || fail "the plan has no tasks"

cat >kernel.cpp <<'K'
extern "C" void kernel(const float* x, float* y, int64_t n, int64_t m, void* workspace, void* stream) {
  for (int64_t i = 0; i < n; ++i) {
    float top = x[i * m], sum = 0;
    for (int64_t j = 1; j < m; ++j) top = x[i * m + j] > top ? x[i * m + j] : top;
    for (int64_t j = 0; j < m; ++j) sum += y[i * m + j] = expf(x[i * m + j] - top);
    for (int64_t j = 0; j < m; ++j) y[i * m + j] /= sum;
  }
}
K
judge() { "$bin/quern" eval "$share/env/suites/cpu/softmax_rows.task.yaml" kernel.cpp --verify-only --best-effort; }
judge >verdict || fail "eval: $(cat verdict)"
grep -q '^ok' verdict || fail "a right kernel is not ok: $(cat verdict)"
sed -i 's|/= sum|/= sum + 1|' kernel.cpp
judge >verdict || true
grep -q '^wrong_value' verdict || fail "a wrong kernel is not a wrong value: $(cat verdict)"

echo 'cpp-avx2' >prompt
"$bin/quern" sample "$share/policy/demo" --prompt prompt --max-tokens 4 --json | grep -q '"token_ids"' || fail "sample"
echo "install: ok"
