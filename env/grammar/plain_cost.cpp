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

/// Bytes that one launch of the plain baseline moves for an element, with what is lost to accesses
/// that lie far apart counted as bytes.
double step_bytes(step_kind kind) {
  switch (class_of(kind)) {
    case step_class::tensor:
      return 12;
    case step_class::normalisation:
      return kind == step_kind::softmax || kind == step_kind::layer_norm ? 16 : 12;
    case step_class::scan:
    case step_class::transposition:
      return 24;
    case step_class::reduction:
      return 4;
    default:
      return 8;
  }
}

/// Bytes in a ns, as measured kernels of one read and one write reach them.
constexpr double bytes_per_ns = 3300;

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

double plain_gpu_ns(const composition& what) {
  double sum = 0;
  for (const composition_step& step : what.steps) {
    sum += step_bytes(step.kind) / bytes_per_ns;
    if (class_of(step.kind) == step_class::reduction) break;
  }
  return sum;
}

}  // namespace quern::env
