// The addressed supply of candidate kernels of a composition, right and wrong ones.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "env/grammar/composition.hpp"
#include "env/grammar/probe.hpp"
#include "env/grammar/style.hpp"

namespace quern::env {

struct kernel_variant {
  std::string source;
  kernel_style style;
  kernel_error error = kernel_error::none;
  bool intended_correct = true;  ///< error is none; a wrong one is wrong by the probe's inputs
};

/// Knows a composition's styles and mistakes. Holds a reference to the probe, which must outlive
/// it. Thread-safe.
class variant_supply {
 public:
  explicit variant_supply(const composition_probe& probe);

  /// Every correct variant, one for each style, in a fixed order; texts differ.
  const std::vector<kernel_variant>& correct() const { return correct_; }

  /// Variant `index` of `seed`: with probability `wrong_share` a wrong one (a random style, a
  /// random mistake that the hidden inputs bring to light; correct when there is none), else one of
  /// correct(), uniformly.
  kernel_variant draw(std::uint64_t seed, std::uint64_t index, double wrong_share) const;

 private:
  const composition_probe& probe_;
  std::vector<kernel_variant> correct_;
};

}  // namespace quern::env
