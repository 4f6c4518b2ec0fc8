// The range of each operator's result.
#include "env/grammar/value_range.hpp"

#include <algorithm>

namespace quern::env {

namespace {

/// The least value of h * sigmoid(h), rounded down.
constexpr double silu_minimum = -0.27847;

double softsign(double h) {
  return std::isinf(h) ? std::copysign(1.0, h) : h / (std::fabs(h) + 1);
}

value_range magnitude(value_range h) {
  const double high = std::max(std::fabs(h.low), std::fabs(h.high));
  if (h.low <= 0 && h.high >= 0) return {0, high};
  return {std::min(std::fabs(h.low), std::fabs(h.high)), high};
}

value_range scaled(value_range h, double c) {
  if (c == 0) return {0, 0};
  return c > 0 ? value_range{h.low * c, h.high * c} : value_range{h.high * c, h.low * c};
}

/// Sums of any number of elements keep their sign, nothing else.
value_range summed(value_range h) {
  return {h.low >= 0 ? 0 : -HUGE_VAL, h.high <= 0 ? 0 : HUGE_VAL};
}

}  // namespace

value_range range_after(const composition_step& step, value_range h) {
  const value_range size = magnitude(h);
  switch (step.kind) {
    case step_kind::relu:
      return {std::max(h.low, 0.0), std::max(h.high, 0.0)};
    case step_kind::clip:
      return {std::clamp(h.low, -1.0, 1.0), std::clamp(h.high, -1.0, 1.0)};
    case step_kind::abs:
      return size;
    case step_kind::negate:
      return {-h.high, -h.low};
    case step_kind::square:
      return {size.low * size.low, size.high * size.high};
    case step_kind::root:
      return {std::sqrt(size.low + 1), std::sqrt(size.high + 1)};
    case step_kind::softsign:
      return {softsign(h.low), softsign(h.high)};
    case step_kind::sigmoid:
      return {1 / (1 + std::exp(-h.low)), 1 / (1 + std::exp(-h.high))};
    case step_kind::tanh:
      return {std::tanh(h.low), std::tanh(h.high)};
    case step_kind::silu:
      return {h.low >= 0 ? 0 : silu_minimum, std::max(h.high, 0.0)};
    case step_kind::decay:
      return {std::exp(-size.high), std::exp(-size.low)};
    case step_kind::scale:
      return scaled(h, step.constant);
    case step_kind::shift:
      return {h.low + step.constant, h.high + step.constant};
    case step_kind::softmax:
      return {0, 1};
    case step_kind::running_sum:
    case step_kind::row_sum:
    case step_kind::smooth:
      return summed(h);
    case step_kind::running_max:
    case step_kind::row_max:
    case step_kind::row_mean:
    case step_kind::transpose:
      return h;
    case step_kind::max_tensor:
      return {h.low, HUGE_VAL};
    default:
      return {};
  }
}

}  // namespace quern::env
