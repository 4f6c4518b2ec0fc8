// Numbers of a reference's results, for the rules of check_task().
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <vector>

#include "env/task/task.hpp"
#include "env/tensor_task/dtype.hpp"
#include "env/tensor_task/elements.hpp"
#include "env/tensor_task/fill.hpp"

namespace quern::env {

/// Element `i` of a tensor.
inline double value_at(const std::byte* data, dtype type, std::size_t i) {
  return visit_element(type, [&](auto element) {
    std::memcpy(&element, data + i * sizeof element, sizeof element);
    return static_cast<double>(value_of(element));
  });
}

/// Elements of a tensor as doubles; `bytes` holds whole elements of `type`.
inline std::vector<double> widen(const tensor_bytes& bytes, dtype type) {
  std::vector<double> result(bytes.size() / size_of(type));
  for (std::size_t i = 0; i < result.size(); ++i)
    result[i] = value_at(bytes.data(), type, i);
  return result;
}

/// |a - b| in units of the tolerance; 0 where both are the same infinity or both NaN, infinite
/// where only one is finite.
inline double error_of(const tolerance& bound, double got, double want) {
  if (std::isnan(got) && std::isnan(want)) return 0;
  if (!std::isfinite(got) || !std::isfinite(want)) {
    return got == want ? 0 : std::numeric_limits<double>::infinity();
  }
  const double difference = std::fabs(got - want);
  if (difference == 0) return 0;
  return difference / (bound.atol + bound.rtol * std::fabs(want));
}

/// The largest of them; infinite where the tensors have different sizes.
inline double worst_error(const tolerance& bound, const std::vector<double>& got,
                          const std::vector<double>& want) {
  double worst = got.size() == want.size() ? 0 : std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < std::min(got.size(), want.size()); ++i) {
    worst = std::max(worst, error_of(bound, got[i], want[i]));
  }
  return worst;
}

/// Share of the elements that a kernel would get right that writes `guess` everywhere.
inline double share_of(const tolerance& bound, const std::vector<double>& want, double guess) {
  const auto right = std::count_if(
      want.begin(), want.end(), [&](double value) { return error_of(bound, guess, value) <= 1; });
  return static_cast<double>(right) / static_cast<double>(want.size());
}

/// Of at least one value; of an even number the larger one of the two in the middle.
inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace quern::env
