// The addressed supply of candidate kernels of a composition, right and wrong ones.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "env/grammar/composition.hpp"
#include "env/grammar/probe.hpp"
#include "env/lanes/cpp/grammar/style.hpp"
#include "env/lanes/cuda/grammar/cuda_style.hpp"
#include "env/task/dtype.hpp"

namespace quern::env {

struct kernel_variant {
  std::string source;
  std::string style;  ///< to_text of it
  kernel_error error = kernel_error::none;
  bool intended_correct = true;  ///< error is none; a wrong one is wrong by the probe's inputs
};

/// Knows a composition's styles and mistakes in the language of a lane. Holds a reference to the
/// probe, which must outlive it. Thread-safe.
class variant_supply {
 public:
  explicit variant_supply(const composition_probe& probe, lane where = lane::cpp);

  /// Every correct variant, one for each style, in a fixed order; texts differ.
  const std::vector<kernel_variant>& correct() const { return correct_; }

  /// Variant `index` of `seed`: with probability `wrong_share` a wrong one (a random style, a
  /// random mistake that the hidden inputs bring to light; correct when there is none), else one of
  /// correct(), uniformly. Races and what goes beyond the end (lane cuda) are wrong whatever an
  /// evaluation finds.
  kernel_variant draw(std::uint64_t seed, std::uint64_t index, double wrong_share) const;

 private:
  /// The style of correct()[which] with a mistake; empty when its text has no place for it.
  [[nodiscard]] std::string mistaken_text(std::size_t which, kernel_error error,
                                          const composition* computed) const;
  [[nodiscard]] kernel_variant wrong_variant(std::size_t which, kernel_error error,
                                             std::string source) const;

  const composition_probe& probe_;
  lane lane_;
  std::vector<kernel_variant> correct_;
  /// Of correct(), in its order; those of the lane are filled.
  std::vector<kernel_style> styles_;
  std::vector<cuda_style> cuda_styles_;
};

}  // namespace quern::env
