// What samples were dropped for, said on the terminal while a run goes on.
#pragma once

#include <bit>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace quern::actors {

using drop_counts = std::map<std::string, std::int64_t, std::less<>>;  ///< by reason

/// Counts drops by reason and says so at the first one of a reason and whenever its number reaches
/// the next power of two: soon, and seldom when there are many. Not thread-safe.
class drop_tally {
 public:
  /// `count` samples (one or more) were dropped for `reason`; a sentence where one is due.
  std::optional<std::string> dropped(std::string_view reason, std::int64_t count) {
    std::int64_t& known = by_reason_[std::string(reason)];
    const std::int64_t before = known;
    known += count;
    untold_[std::string(reason)] += count;
    const auto power = [](std::int64_t value) {
      return std::bit_width(static_cast<std::uint64_t>(value));
    };
    if (power(before) == power(known)) return std::nullopt;
    std::string text = "samples dropped since this start:";
    for (const auto& [name, number] : by_reason_)
      text += fmt::format("{}{} {}", text.back() == ':' ? " " : ", ", name, number);
    return text;
  }

  /// Those since the last call.
  drop_counts take() { return std::exchange(untold_, {}); }

 private:
  drop_counts by_reason_;
  drop_counts untold_;
};

}  // namespace quern::actors
