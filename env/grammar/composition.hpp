// A composition: what a generated task computes, as a list of steps over a tensor h of floats that
// starts as the input x of shape [n, m]. The value type of the grammar; its meaning is
// interpret.hpp.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"

namespace quern::env {

/// The operators. Order is stored nowhere (compositions are written by name), it only groups them.
enum class step_kind : std::uint8_t {
  // element-wise, of h alone
  relu,      // max(h, 0)
  clip,      // min(max(h, -1), 1)
  abs,       // |h|
  negate,    // -h
  square,    // h * h
  root,      // sqrt(|h| + 1)
  softsign,  // h / (|h| + 1)
  sigmoid,   // 1 / (1 + exp(-h))
  tanh,      //
  silu,      // h * sigmoid(h)
  decay,     // exp(-|h|)
  // element-wise, with a constant
  scale,  // h * c
  shift,  // h + c
  // element-wise, with the row vector w of shape [m]
  times_row,
  plus_row,
  // element-wise, with the tensor t of shape [n, m]
  times_tensor,
  plus_tensor,
  max_tensor,
  // along a row, same shape: normalisations (eps is 0.01 everywhere)
  centre,      // h - mean
  rms,         // h / sqrt(mean(h * h) + eps)
  l1,          // h / (mean(|h|) + eps)
  layer_norm,  // (h - mean) / sqrt(variance + eps)
  softmax,     //
  // along a row, same shape: scans and stencils (zero outside of the row)
  running_sum,
  running_max,
  difference,  // h[j] - h[j-1]
  smooth,      // h[j-1] + h[j] + h[j+1]
  // along a row: the result has shape [n]
  row_sum,
  row_max,
  row_mean,
  // the result has shape [m, n]
  transpose
};

inline constexpr int step_kind_count = 31;
/// Added where a normalisation divides.
inline constexpr double norm_eps = 0.01;

enum class step_class : std::uint8_t {
  scalar,  ///< element-wise of h alone or with a constant: the only ones after a reduction or
           ///< transposition
  row,     ///< element-wise with w
  tensor,  ///< element-wise with t
  normalisation,
  scan,
  stencil,
  reduction,
  transposition
};

struct composition_step {
  step_kind kind = step_kind::relu;
  float constant = 0;  ///< of scale and shift; 0 otherwise
  friend bool operator==(const composition_step&, const composition_step&) = default;
};

/// Steps in the order in which they are applied.
struct composition {
  std::vector<composition_step> steps;
  friend bool operator==(const composition&, const composition&) = default;
};

inline constexpr std::size_t max_composition_steps = 12;

std::string_view name_of(step_kind kind);
step_class class_of(step_kind kind);
/// Everything but scalar, row and tensor: at most one of these stands in a composition.
bool is_structural(step_kind kind);
/// scale and shift.
bool has_constant(step_kind kind);
/// Steps that cost an exponential or a hyperbolic tangent.
bool is_transcendental(step_kind kind);

/// Refuses: no steps or more than max_composition_steps, two structural steps, an operand of shape
/// [m] or [n, m] where h no longer has m columns, a constant that is not finite or does not belong.
base::status validate(const composition& what);

bool uses_row(const composition& what);     ///< reads w
bool uses_tensor(const composition& what);  ///< reads t
/// Index of the structural step; steps.size() when there is none.
std::size_t structural_index(const composition& what);

/// The family for splits and curation: the structural step's name, or "elementwise".
std::string family_of(const composition& what);
/// Every family, in the order of step_kind with "elementwise" first.
std::span<const std::string_view> all_families();

/// "relu | scale 0.5 | times_row | row_sum": constants in the shortest form that reads back equal.
std::string to_text(const composition& what);
/// The inverse; errors name the step and the nearest known operator.
base::expected<composition> parse_composition(std::string_view text);

}  // namespace quern::env
