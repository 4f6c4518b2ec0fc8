// What a lane brings to the grammar: kernels of compositions in its language, and the sizes that
// suit its device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "env/grammar/composition.hpp"
#include "env/grammar/draw.hpp"
#include "env/grammar/kernel_error.hpp"

namespace quern::env {

/// The ways to write one composition, in a fixed order. Immutable; thread-safe.
class kernel_styles {
 public:
  virtual ~kernel_styles() = default;

  [[nodiscard]] virtual std::size_t size() const = 0;
  /// One short line in fixed order, for the design section. i < size(), as below.
  [[nodiscard]] virtual std::string text(std::size_t i) const = 0;
  /// The kernel; ends with a newline. Two styles may give one text.
  [[nodiscard]] virtual std::string source(std::size_t i) const = 0;
  /// The style in which mistakes are made: that of i, with nothing folded away.
  [[nodiscard]] virtual std::string text_of_mistaken(std::size_t i) const = 0;
  /// The kernel in that style with a mistake: one of the text, or, where the mistake is made in the
  /// composition, the kernel that computes `computed` instead. Empty: the text has no place for it.
  [[nodiscard]] virtual std::string mistaken(std::size_t i, kernel_error error,
                                             const composition* computed) const = 0;
};

/// Without state; thread-safe.
class kernel_grammar {
 public:
  virtual ~kernel_grammar() = default;

  /// What generated tasks are drawn with.
  [[nodiscard]] virtual draw_limits limits() const = 0;
  /// Time of the plain baseline that sizes aim at where nobody says, us.
  [[nodiscard]] virtual double usual_plain_us() const = 0;
  /// Rows and columns at which the plain baseline takes about plain_us; `word` chooses among
  /// equals.
  [[nodiscard]] virtual std::vector<std::int64_t> sizes(const composition& what, std::uint64_t word,
                                                        double plain_us) const = 0;
  /// The plain baseline's text.
  [[nodiscard]] virtual std::string plain(const composition& what) const = 0;
  /// Mistakes that its kernels can have, those of the composition first.
  [[nodiscard]] virtual std::span<const kernel_error> errors() const = 0;
  /// `what` must outlive the result. Fast arithmetic only where `fast_is_safe`.
  [[nodiscard]] virtual std::unique_ptr<const kernel_styles> styles(const composition& what,
                                                                    bool fast_is_safe) const = 0;
};

}  // namespace quern::env
