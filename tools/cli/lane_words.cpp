#include "tools/cli/lane_words.hpp"

#include <string_view>
#include <vector>

#include <fmt/ranges.h>

#include "env/task/lane_on_gpus.hpp"

namespace quern::tools {

namespace {

template <class Text>
std::string of_all_lanes(const char* separator, Text text) {
  std::vector<std::string> all;
  for (const env::lane* one : env::all_lanes())
    all.push_back(text(*one));
  return fmt::format("{}", fmt::join(all, separator));
}

}  // namespace

std::string lanes_on(env::device_kind device) {
  std::vector<std::string_view> names;
  for (const env::lane* one : env::all_lanes())
    if (one->device == device) names.push_back(one->name);
  if (names.empty()) return "no lane";
  return fmt::format("{} {}", names.size() == 1 ? "lane" : "lanes", fmt::join(names, ", "));
}

std::string lane_summaries() {
  return of_all_lanes(
      ", ", [](const env::lane& one) { return fmt::format("{} ({})", one.name, one.summary); });
}

std::string file_endings() {
  return of_all_lanes(", ", [](const env::lane& one) {
    return fmt::format("{} ({})", one.file_ending, one.language);
  });
}

std::string lane_protocols() {
  return of_all_lanes("; ", [](const env::lane& one) {
    std::string known = fmt::format("lane {}: {}", one.name, fmt::join(one.protocols, ", "));
    if (one.on_gpus_too != nullptr)
      known += fmt::format(" (on a GPU {})", fmt::join(one.on_gpus_too->protocols, ", "));
    return known;
  });
}

}  // namespace quern::tools
