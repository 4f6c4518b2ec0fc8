#include "tools/bench/kernelbench_baselines.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/ranges.h>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "tools/bench/kernelbench_names.hpp"

namespace quern::tools {
namespace {

using base::errc;

constexpr int deepest_baselines = 8;
constexpr std::size_t longest_hardware = 200, longest_file = 255;

base::expected<int> level_of(std::string_view key) {
  constexpr std::string_view prefix = "level";
  int level = 0;
  const std::string_view digits = key.starts_with(prefix) ? key.substr(prefix.size()) : "";
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), level);
  if (digits.empty() || digits.size() > 9 || problem != std::errc() ||
      end != digits.data() + digits.size() || level < 1 || digits.front() == '0')
    return base::fail(errc::invalid_argument, "'{}' is no level: keys are level1, level2 and so on",
                      key.substr(0, 80));
  return level;
}

bool is_printable_text(std::string_view text) {
  return std::none_of(text.begin(), text.end(),
                      [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

base::expected<double> mean_in(const base::json& entry) {
  QUERN_TRY(const double mean, base::get<double>(entry, "mean"));
  if (!std::isfinite(mean) || mean <= 0)
    return base::fail(errc::invalid_argument, "'mean' is {}, it must be milliseconds above 0",
                      mean);
  return mean;
}

base::status add_entry(int level, const std::string& file, const base::json& entry,
                       kernelbench_baselines& found) {
  if (found.mean_ms.size() >= max_baselines)
    return base::fail(errc::invalid_argument, "there are more than {} entries", max_baselines);
  if (file.empty() || file.size() > longest_file || !is_printable_text(file))
    return base::fail(errc::invalid_argument,
                      "a name of {} bytes: it must have 1 to {} printable ones", file.size(),
                      longest_file);
  QUERN_TRY(const double mean, mean_in(entry));
  found.mean_ms[{level, file}] = mean;
  const auto hardware = entry.find("hardware");
  if (hardware == entry.end() || hardware->is_null()) return {};
  QUERN_TRY(std::string text, base::get<std::string>(entry, "hardware"));
  if (text.empty() || text.size() > longest_hardware || !is_printable_text(text))
    return base::fail(errc::invalid_argument,
                      "'hardware' has {} bytes: it must have 1 to {} printable ones", text.size(),
                      longest_hardware);
  found.hardware.insert(std::move(text));
  return {};
}

base::status add_level(int level, const base::json& entries, kernelbench_baselines& found) {
  if (!entries.is_object())
    return base::fail(errc::invalid_argument, "an object of files is needed");
  for (const auto& [file, entry] : entries.items())
    if (const auto added = add_entry(level, file, entry, found); !added)
      return base::in_context("'" + file.substr(0, 80) + "'", added.error());
  return {};
}

}  // namespace

std::optional<double> kernelbench_baselines::mean_of(const env::suite_member& member) const {
  if (!member.place) return std::nullopt;
  const auto found = mean_ms.find({member.place->level, member.place->file});
  return found == mean_ms.end() ? std::nullopt : std::optional<double>(found->second);
}

std::string kernelbench_baselines::hardware_text() const {
  return hardware.empty() ? "hardware not named" : fmt::format("{}", fmt::join(hardware, ", "));
}

base::expected<kernelbench_baselines> parse_kernelbench_baselines(std::string_view text,
                                                                  std::string_view name) {
  kernelbench_baselines found;
  found.name = name;
  const auto whole = base::parse_json(base::without_byte_order_mark(text), deepest_baselines);
  if (!whole) return base::in_context(name, whole.error());
  if (!whole->is_object())
    return base::fail(errc::invalid_argument, "{}: an object of levels is needed", name);
  for (const auto& [key, entries] : whole->items()) {
    const auto level = level_of(key);
    if (!level) return base::in_context(name, level.error());
    if (const auto added = add_level(*level, entries, found); !added)
      return base::in_context(fmt::format("{}: {}", name, key), added.error());
  }
  return found;
}

base::expected<kernelbench_baselines> read_kernelbench_baselines(const std::filesystem::path& path,
                                                                 const env::suite& suite) {
  if (const auto placed = suite_places(suite).check_all(); !placed)
    return base::in_context("--kernelbench-baselines", placed.error());
  QUERN_TRY(const std::string text, base::read_file(path, max_baselines_bytes));
  QUERN_TRY(kernelbench_baselines found, parse_kernelbench_baselines(text, path.string()));
  if (std::none_of(suite.members.begin(), suite.members.end(),
                   [&](const env::suite_member& one) { return found.mean_of(one).has_value(); })) {
    const auto& place = *suite.members.front().place;
    return base::fail(errc::invalid_argument,
                      "{} has {} entries, and none of them is a task of suite {}, such as level{} "
                      "'{}': name a file with its levels",
                      path.string(), found.mean_ms.size(), suite.name, place.level, place.file);
  }
  return found;
}

}  // namespace quern::tools
