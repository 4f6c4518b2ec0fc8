// Small statistics over a handful of numbers.
#include "env/measure/stats.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace quern::env {
namespace {

std::vector<double> sorted(std::span<const double> values) {
  std::vector<double> copy(values.begin(), values.end());
  std::sort(copy.begin(), copy.end());
  return copy;
}

double plain_deviation(std::span<const double> values) {
  if (values.size() < 2) return std::numeric_limits<double>::infinity();
  const double centre = mean_of(values);
  double sum = 0;
  for (double v : values)
    sum += (v - centre) * (v - centre);
  return std::sqrt(sum / static_cast<double>(values.size() - 1));
}

}  // namespace

double mean_of(std::span<const double> values) {
  if (values.empty()) return 0;
  double sum = 0;
  for (double v : values)
    sum += v;
  return sum / static_cast<double>(values.size());
}

double trimmed_mean_of(std::span<const double> values) {
  const auto order = sorted(values);
  const std::size_t cut = order.size() / 5;
  return mean_of(std::span(order).subspan(cut, order.size() - 2 * cut));
}

double median_of(std::span<const double> values) {
  return quantile_of(values, 0.5);
}

double quantile_of(std::span<const double> values, double p) {
  if (values.empty()) return 0;
  const auto order = sorted(values);
  const double at = std::clamp(p, 0.0, 1.0) * static_cast<double>(order.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const auto above = std::min(below + 1, order.size() - 1);
  return order[below] + (at - static_cast<double>(below)) * (order[above] - order[below]);
}

double winsorised_deviation(std::span<const double> values) {
  if (values.size() < 5) return plain_deviation(values);
  auto order = sorted(values);
  order.front() = order[1];
  order.back() = order[order.size() - 2];
  return plain_deviation(order);
}

double trimmed_standard_error(std::span<const double> values) {
  if (values.size() < 2) return std::numeric_limits<double>::infinity();
  const auto n = static_cast<double>(values.size());
  if (values.size() < 5) return plain_deviation(values) / std::sqrt(n);
  return winsorised_deviation(values) / ((1.0 - 2.0 / n) * std::sqrt(n));
}

double student_95(std::size_t degrees) {
  static constexpr std::array<double, 10> table = {12.706, 4.303, 3.182, 2.776, 2.571,
                                                   2.447,  2.365, 2.306, 2.262, 2.228};
  if (degrees == 0) return std::numeric_limits<double>::infinity();
  if (degrees <= table.size()) return table[degrees - 1];
  // Cornish-Fisher expansion around the normal quantile: right to 0.001 from ten degrees on.
  constexpr double z = 1.959964;
  const auto n = static_cast<double>(degrees);
  return z + (z * z * z + z) / (4 * n) +
         (5 * std::pow(z, 5) + 16 * z * z * z + 3 * z) / (96 * n * n);
}

std::vector<std::pair<std::size_t, std::size_t>> consecutive_ranges(std::size_t count,
                                                                    std::size_t parts) {
  std::vector<std::pair<std::size_t, std::size_t>> ranges;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < parts; ++i) {
    const std::size_t length = count / parts + (i < count % parts ? 1 : 0);
    ranges.emplace_back(begin, begin + length);
    begin += length;
  }
  return ranges;
}

}  // namespace quern::env
