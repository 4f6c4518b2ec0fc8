// What the static screens of the lanes have in common: the walk over a text, and the rules that
// hold in every lane.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string_view>

#include "env/screen/lexer.hpp"
#include "env/screen/screen_finding.hpp"

namespace quern::env::engine {

using finding = std::optional<screen_finding>;

/// The rules of one lane.
struct lane_rules {
  /// A preprocessor line, from its '#'; #pragma and _Pragma come through `pragma`.
  std::function<finding(std::span<const token> line)> line;
  /// The word all[i], wherever it stands.
  std::function<finding(std::span<const token> all, std::size_t i)> word;
  /// The words of a pragma; `at` is where it stands.
  std::function<finding(const token& at, std::span<const token> words)> pragma;
  /// The program without preprocessor lines.
  std::function<finding(std::span<const token> program)> declarations;
};

/// The first finding in order of lines.
finding run(std::string_view source, const lane_rules& rules);

/// Positions and built-ins: no lane allows them.
finding common_word(const token& item);

}  // namespace quern::env::engine
