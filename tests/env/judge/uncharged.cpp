// For bench_eval_uncharged, which shows what the charge for work after the answer costs a kernel
// against itself: in the place of env/judge/judge_layer.cpp. A program like it is not installed.
#include "env/judge/judge_layer.hpp"

namespace quern::env {

bool judges_with(judge_layer which) {
  return which != judge_layer::idle_charge;
}

}  // namespace quern::env
