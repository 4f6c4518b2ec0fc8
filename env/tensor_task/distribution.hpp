// Kinds of input content that a task can ask for. The first of an input's list is timed, the others
// are hidden. `sorted` and `constant` are for hiding: a kernel that is timed on them may know all
// of the content from a few elements.
#pragma once

#include <optional>
#include <string_view>

namespace quern::env {

/// Meaning for floating inputs; integer inputs take values in [0, below) and know only those marked
/// (i).
enum class distribution {
  normal,   ///< mean 0, deviation 1
  uniform,  ///< (i) floating: [-1, 1); integer: every value of [0, below) equally likely
  large,  ///< normal, times 64: what a single-pass sum of squares or exp without a shift gets wrong
  sparse,    ///< (i) nine in ten are 0, the others normal (integer: uniform)
  sorted,    ///< (i) ascending along the last dimension
  constant,  ///< (i) one value for the whole tensor, drawn by the seed
  denormal,  ///< subnormal numbers of either sign: flushed to zero by kernels that cheat on
             ///< precision
  positive,  ///< uniform in [0.5, 1.5): for inputs that the reference takes roots or logarithms of
  special    ///< normal with some +inf, -inf and NaN: only where the reference defines the result
};

inline constexpr int distribution_count = 9;

std::string_view name_of(distribution kind);
std::optional<distribution> parse_distribution(std::string_view name);

/// Whether inputs of integer type may have it.
bool has_integer_form(distribution kind);

}  // namespace quern::env
