#include "actors/config/renamed_keys.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include "actors/config/config_file.hpp"

namespace quern::actors {
namespace {

using base::errc;
using base::fail;

/// Of version 1, which builds wrote with either name of env.max_attempts.
constexpr renamed_key renamed[] = {
    {"algorithm.max_attempts", "env.max_attempts"},
    {"observe.panel", "observe.evaluation_set"},
    {"observe.panel_train", "observe.evaluation_set_train"},
    {"observe.panel_held_out", "observe.evaluation_set_held_out"},
    {"observe.panel_swapped", "observe.evaluation_set_swapped"},
    {"observe.panel_seed", "observe.evaluation_set_seed"},
    {"observe.panel_exemplars_share", "observe.evaluation_set_exemplars_share"},
    {"observe.panel_exemplars_fastest", "observe.evaluation_set_exemplars_fastest"},
};

/// Longer values are not told: the line says where they stand.
constexpr std::size_t longest_told_value = 40;

std::string told_value(const YAML::Node& value) {
  if (!value.IsScalar()) return {};
  const std::string& text = value.Scalar();
  const bool short_line = text.size() <= longest_told_value && text.find('\n') == std::string::npos;
  return short_line ? text : std::string();
}

bool has_key(const YAML::Node& root, std::string_view path) {
  const YAML::Node group = root[std::string(group_of_key(path))];
  if (!group || !group.IsMap()) return false;
  const YAML::Node value = group[std::string(last_part(path))];
  return value.IsDefined();
}

void add_names_of_groups(const YAML::Node& root, std::vector<earlier_name>& found) {
  if (!root.IsMap()) return;
  for (const auto& group : root) {
    if (!group.first.IsScalar() || !group.second.IsMap()) continue;
    for (const auto& entry : group.second) {
      if (!entry.first.IsScalar()) continue;
      const std::string path = group.first.Scalar() + "." + entry.first.Scalar();
      const std::string_view now = present_name(path);
      if (now.empty()) continue;
      const YAML::Mark at = entry.first.Mark();
      found.push_back({at.line + 1, static_cast<std::size_t>(std::max(at.column, 0)), path, now,
                       told_value(entry.second), has_key(root, now)});
    }
  }
}

std::string version_of(const YAML::Node& version) {
  return version.IsScalar() ? version.Scalar() : "no number";
}

base::status missing_version() {
  return fail(errc::version, "'quern_config: {}' is missing at the top of the file",
              config_version);
}

base::status unknown_version(const YAML::Node& version) {
  return fail(errc::version,
              "line {}: quern_config is {}, this build knows {}: use another build or change the "
              "file",
              version.Mark().line + 1, version_of(version), config_version);
}

}  // namespace

std::span<const renamed_key> renamed_keys() {
  return renamed;
}

std::string_view present_name(std::string_view before) {
  for (const renamed_key& key : renamed)
    if (key.before == before) return key.now;
  return {};
}

std::string_view group_of_key(std::string_view path) {
  return path.substr(0, path.find('.'));
}

std::string_view last_part(std::string_view path) {
  return path.substr(path.find('.') + 1);
}

bool moves(const earlier_name& key) {
  return group_of_key(key.before) != group_of_key(key.now);
}

std::string words_for_move(const earlier_name& key) {
  const auto with_value = [&](std::string_view path) {
    return key.value.empty() ? fmt::format("`{}` with its value", last_part(path))
                             : fmt::format("`{}: {}`", last_part(path), key.value);
  };
  const std::string begin =
      fmt::format("{} is called {} now, in another group: by hand, take {} out of `{}`", key.before,
                  key.now, with_value(key.before), group_of_key(key.before));
  // A group that has it twice is refused.
  if (key.twice)
    return fmt::format("{}; `{}` stands in `{}` already: keep the value that you want there", begin,
                       last_part(key.now), group_of_key(key.now));
  if (last_part(key.before) == last_part(key.now))
    return fmt::format("{} and write it into `{}`", begin, group_of_key(key.now));
  return fmt::format("{} and write {} into `{}`", begin, with_value(key.now),
                     group_of_key(key.now));
}

std::vector<earlier_name> earlier_names(const YAML::Node& root) {
  std::vector<earlier_name> found;
  add_names_of_groups(root, found);
  if (const YAML::Node stages = root["stages"]; stages && stages.IsSequence())
    for (const auto& stage : stages)
      add_names_of_groups(stage, found);
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.line < b.line; });
  return found;
}

base::expected<bool> has_earlier_names(const YAML::Node& root) {
  const YAML::Node version =
      root.IsMap() ? root["quern_config"] : YAML::Node(YAML::NodeType::Undefined);
  if (!version) return tl::make_unexpected(missing_version().error());
  if (version_of(version) == std::to_string(config_version)) return false;
  if (version_of(version) == std::to_string(earlier_config_version)) return true;
  return tl::make_unexpected(unknown_version(version).error());
}

base::status check_names(const YAML::Node& root) {
  QUERN_TRY(const bool earlier, has_earlier_names(root));
  std::vector<std::string> names, by_hand;
  if (earlier)
    names.push_back(fmt::format("line {}: quern_config is {}, this build reads {}",
                                root["quern_config"].Mark().line + 1, earlier_config_version,
                                config_version));
  for (const earlier_name& key : earlier_names(root)) {
    if (moves(key)) by_hand.push_back(fmt::format("line {}", key.line));
    names.push_back(fmt::format("line {}: {}", key.line,
                                moves(key)
                                    ? words_for_move(key)
                                    : fmt::format("{} is called {} now", key.before, key.now)));
  }
  if (names.empty()) return {};
  const std::size_t left = names.size() - by_hand.size();
  const std::string told = fmt::format("{}", fmt::join(names, "; "));
  // The upgrade writes none of them as long as one is to be done by hand.
  if (left == 0) return fail(errc::version, "{}", told);
  if (!by_hand.empty())
    return fail(errc::version,
                "{}; do {} first, then change the rest, or type `quern config upgrade FILE`, which "
                "does it",
                told, fmt::join(by_hand, ", "));
  return fail(errc::version, "{}; change {}, or type `quern config upgrade FILE`, which does it",
              told, left == 1 ? "that" : "these");
}

}  // namespace quern::actors
