// What a prompt shows of kernels that were measured, and the answer that follows from it.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.hpp"
#include "env/grammar/completion_text.hpp"

namespace quern::env {

/// Ratio of speed-ups. A kernel that is faster than another by less counts as equally fast.
inline constexpr double least_gain = 1.03;

/// What to show and what to answer, as places in a pool of correct kernels of one task.
struct comparison {
  /// In the order of the prompt.
  std::vector<std::size_t> shown;
  /// Never among `shown`.
  std::size_t answer = 0;
  /// Whether the answer is faster than all of `shown` by least_gain.
  bool improves = false;
};

/// Draws `count` kernels to show and the answer to them. With `shows_best` the pool's fastest is
/// among them; the answer is then the fastest of the others, since nothing better is known. Else
/// the answer improves on all that are shown. Of several such kernels it is the one with the fewest
/// words of its style changed from the fastest shown, of equals the fastest. None: `count` is 0, or
/// fewer than `count` of the pool are slower than its fastest.
std::optional<comparison> draw_comparison(std::span<const scored_variant> pool, std::size_t count,
                                          bool shows_best, base::random_stream& random);

/// Words of two styles, each list in the order of its style.
struct style_change {
  std::vector<std::string> kept, dropped, taken;
};

/// A word counts as often as it stands there.
style_change change_of(std::string_view from, std::string_view to);

/// The analysis of such an answer: which kernel leads with which speed-up over the next, its style,
/// and what of it the answer keeps, drops and takes. "2 leads, 3.10 to 1.42: rows fused fast. Keep
/// rows fused; drop fast; take doubles." Where nothing faster is known it says so, and it names the
/// verdict of each wrong kernel: "1 is wrong_value." Counted from 1 in the order shown; at least
/// one of `shown` is right.
std::string comparing_line(std::span<const scored_variant> shown, const kernel_variant& answer,
                           bool improves);

}  // namespace quern::env
