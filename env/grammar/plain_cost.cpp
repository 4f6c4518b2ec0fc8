// Estimates of the plain baseline's time.
#include "env/grammar/plain_cost.hpp"

namespace quern::env {

namespace {

double step_ns(step_kind kind) {
  switch (kind) {
    case step_kind::tanh:
      return 20;
    case step_kind::softmax:
      return 8;
    case step_kind::sigmoid:
    case step_kind::silu:
    case step_kind::decay:
      return 6;
    case step_kind::layer_norm:
      return 3;
    case step_kind::transpose:
      return 1.2;
    case step_kind::centre:
    case step_kind::rms:
    case step_kind::l1:
    case step_kind::smooth:
      return 1.2;
    case step_kind::row_sum:
    case step_kind::row_mean:
    case step_kind::row_max:
    case step_kind::running_sum:
    case step_kind::running_max:
      return 0.9;
    case step_kind::softsign:
    case step_kind::root:
    case step_kind::difference:
      return 0.4;
    case step_kind::clip:
    case step_kind::max_tensor:
      return 0.3;
    default:
      return 0.17;
  }
}

}  // namespace

double plain_ns(const composition& what) {
  double sum = 0;
  for (const composition_step& step : what.steps) {
    sum += step_ns(step.kind);
    // What follows a reduction works on [n] only.
    if (class_of(step.kind) == step_class::reduction) break;
  }
  return sum;
}

}  // namespace quern::env
