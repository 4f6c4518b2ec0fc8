// How far each output of a call may lie from the reference's.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "env/task/task.hpp"

namespace quern::env {

/// One tolerance for all outputs, or one for each: outputs of one call may have scales that differ
/// by orders of magnitude. A value.
class output_limits {
 public:
  output_limits(const tolerance& of_all = {}) : limits_{of_all} {}
  /// One for each output, in their order. Not empty.
  explicit output_limits(std::vector<tolerance> of_each) : limits_(std::move(of_each)) {}

  [[nodiscard]] const tolerance& at(std::size_t output) const {
    return limits_[limits_.size() == 1 ? 0 : output];
  }
  /// The same, `factor` times as wide.
  [[nodiscard]] output_limits widened(double factor) const {
    output_limits wider = *this;
    for (tolerance& one : wider.limits_)
      one = {factor * one.atol, factor * one.rtol};
    return wider;
  }

  /// For each output the wider of both. `other` is of the same task.
  [[nodiscard]] output_limits widest(const output_limits& other) const {
    output_limits wider = *this;
    for (std::size_t o = 0; o < wider.limits_.size(); ++o)
      wider.limits_[o] = {std::max(at(o).atol, other.at(o).atol),
                          std::max(at(o).rtol, other.at(o).rtol)};
    return wider;
  }

 private:
  std::vector<tolerance> limits_;
};

}  // namespace quern::env
