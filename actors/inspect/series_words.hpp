// What the numbers of metrics.jsonl are, in words for programs that watch a run.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace quern::actors {

/// A series, or several that differ in one key.
struct series_entry {
  std::string_view name;   ///< as of storage::numbers_of; "*" stands for a key that differs
  std::string_view label;  ///< what that key is: "verdict"; empty where there is none
  std::string_view help;   ///< a line: what it counts, and its unit
};

/// All that lines of this build have. docs/formats/metrics.md explains them.
std::span<const series_entry> all_series();

struct known_series {
  const series_entry* entry = nullptr;
  std::string_view varying;  ///< what stands for "*", part of the name asked for; may be empty
};
/// None: a line of another build has it.
std::optional<known_series> find_series(std::string_view name);

}  // namespace quern::actors
