// Task files: strict reading, canonical writing. The head here; bodies read and write themselves.
#include "env/task/task_codec.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/text.hpp"
#include "env/task/yaml_reader.hpp"

namespace quern::env {

namespace {

using std::string_view;

// The keys of the head, as those of a body stand between them in the canonical form.
constexpr auto first_keys = std::to_array<string_view>({"quern_task", "name", "lane", "family"});
constexpr auto measure_keys = std::to_array<string_view>({"tolerance", "baseline"});
constexpr auto text_keys = std::to_array<string_view>({"degenerate", "reference"});
constexpr auto tolerance_keys = std::to_array<string_view>({"atol", "rtol"});
constexpr auto baseline_names = std::to_array<string_view>({"reference", "plain"});

using key_list = std::vector<string_view>;

void add_keys(key_list& to, std::span<const string_view> keys) {
  for (const string_view key : keys)
    if (std::find(to.begin(), to.end(), key) == to.end()) to.push_back(key);
}

/// All that a task file of one of these lanes may say, in canonical order.
key_list keys_of(std::span<const lane* const> lanes) {
  key_list keys;
  const auto add_of_bodies = [&](std::span<const string_view> body_keys::*part) {
    for (const lane* one : lanes)
      add_keys(keys, one->body->keys.*part);
  };
  add_keys(keys, first_keys);
  add_of_bodies(&body_keys::after_family);
  add_keys(keys, measure_keys);
  add_of_bodies(&body_keys::after_baseline);
  add_keys(keys, text_keys);
  add_of_bodies(&body_keys::after_reference);
  return keys;
}

base::status read_task(const YAML::Node& root, task& result) {
  // The version first: a later format may have keys that this one does not know.
  QUERN_TRY(const yaml_map any, yaml_map::open(root, "the task file", {}));
  QUERN_CHECK(check_version(any, "quern_task", task_version));
  // Then the lane, which says what other keys there are. Where it is misspelt as a key, the keys of
  // all lanes are known, so that the misspelt one is named.
  const auto lane_name = any.text("lane");
  if (lane_name) {
    result.lane = find_lane(*lane_name);
    if (result.lane == nullptr) return not_of(any, "lane", *lane_name, lane_names());
  }
  const auto lanes =
      result.lane == nullptr ? all_lanes() : std::span<const lane* const>(&result.lane, 1);
  const key_list keys = keys_of(lanes);
  QUERN_TRY(const yaml_map map, yaml_map::open(root, "the task file", keys));
  QUERN_TRY(result.name, map.text("name"));
  if (!lane_name) return tl::make_unexpected(lane_name.error());
  QUERN_TRY(result.family, map.text("family"));
  QUERN_TRY(result.body, result.lane->body->read(map));
  QUERN_TRY(const YAML::Node tolerance_node, map.node("tolerance"));
  QUERN_TRY(const yaml_map bounds, yaml_map::open(tolerance_node, "tolerance", tolerance_keys));
  QUERN_TRY(result.tolerance.atol, bounds.number("atol"));
  QUERN_TRY(result.tolerance.rtol, bounds.number("rtol"));
  QUERN_TRY(const std::string baseline, map.text("baseline"));
  if (baseline != "reference" && baseline != "plain")
    return not_of(map, "baseline", baseline, baseline_names);
  result.baseline = baseline == "plain" ? baseline_kind::plain : baseline_kind::reference;
  if (map.has("degenerate")) {
    QUERN_TRY(result.degenerate, map.boolean("degenerate"));
  }
  QUERN_TRY(const std::string reference, map.text("reference"));
  result.reference = canonical_block(reference);
  return validate(result);
}

}  // namespace

base::expected<task> parse_task(std::string_view yaml) {
  QUERN_TRY(const YAML::Node root, load_yaml("the task file", yaml, max_task_file_bytes));
  task result;
  QUERN_CHECK(guard_yaml("the task file", [&] { return read_task(root, result); }));
  return result;
}

base::expected<task> load_task(const std::filesystem::path& file) {
  QUERN_TRY(const std::string text, base::read_file(file, max_task_file_bytes));
  auto parsed = parse_task(text);
  if (!parsed) return base::in_context(file.string(), std::move(parsed).error());
  return parsed;
}

std::string canonical_block(std::string_view text) {
  std::string result;
  for (const string_view line : base::split(text, '\n')) {
    string_view kept = line;
    while (!kept.empty() && (kept.back() == ' ' || kept.back() == '\t' || kept.back() == '\r'))
      kept.remove_suffix(1);
    if (kept.empty() && result.empty()) continue;
    result.append(kept);
    result += '\n';
  }
  while (result.size() >= 2 && result.ends_with("\n\n"))
    result.pop_back();
  return result;
}

std::string block_text(std::string_view key, const std::string& text) {
  if (text.empty()) return {};
  // A first line that is indented itself would otherwise be taken for the block's indentation.
  std::string result = fmt::format("{}: |{}\n", key, text[0] == ' ' || text[0] == '\t' ? "2" : "");
  for (const std::string_view line :
       base::split(std::string_view(text).substr(0, text.size() - 1), '\n')) {
    result += line.empty() ? "\n" : fmt::format("  {}\n", line);
  }
  return result;
}

std::string to_yaml(const task& what) {
  const body_text body = what.body == nullptr ? body_text() : what.body->text();
  std::string text = fmt::format("quern_task: {}\nname: {}\nlane: {}\nfamily: {}\n", task_version,
                                 what.name, what.lane->name, what.family);
  text += body.after_family;
  text +=
      fmt::format("tolerance: {{atol: {}, rtol: {}}}\n", what.tolerance.atol, what.tolerance.rtol);
  text +=
      fmt::format("baseline: {}\n", what.baseline == baseline_kind::plain ? "plain" : "reference");
  text += body.after_baseline;
  if (what.degenerate) text += "degenerate: true\n";
  return text + block_text("reference", what.reference) + body.after_reference;
}

}  // namespace quern::env
