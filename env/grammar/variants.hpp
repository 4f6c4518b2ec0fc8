// The addressed supply of candidate kernels of a composition, right and wrong ones.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "env/grammar/composition.hpp"
#include "env/grammar/kernel_grammar.hpp"
#include "env/grammar/probe.hpp"

namespace quern::env {

struct kernel_variant {
  std::string source;
  std::string style;  ///< to_text of it
  kernel_error error = kernel_error::none;
  bool intended_correct = true;  ///< error is none; a wrong one is wrong by the probe's inputs
};

/// Knows a composition's styles and mistakes in the language of a lane. Holds references to the
/// probe and the grammar, which must outlive it. Thread-safe.
class variant_supply {
 public:
  variant_supply(const composition_probe& probe, const kernel_grammar& grammar);

  /// Every correct variant, one for each style, in a fixed order; texts differ.
  const std::vector<kernel_variant>& correct() const { return correct_; }

  /// Variant `index` of `seed`: with probability `wrong_share` a wrong one (a random style, a
  /// random mistake that the hidden inputs bring to light; correct when there is none), else one of
  /// correct(), uniformly. Races and what goes beyond the end are wrong whatever an
  /// evaluation finds.
  kernel_variant draw(std::uint64_t seed, std::uint64_t index, double wrong_share) const;

 private:
  [[nodiscard]] kernel_variant wrong_variant(std::size_t style, kernel_error error,
                                             std::string source) const;

  const composition_probe& probe_;
  const kernel_grammar& grammar_;
  std::unique_ptr<const kernel_styles> styles_;
  std::vector<kernel_variant> correct_;
  std::vector<std::size_t> style_of_;  ///< of correct(), in its order: its number in styles_
};

}  // namespace quern::env
