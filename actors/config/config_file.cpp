#include "actors/config/config_file.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include "actors/config/renamed_keys.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "env/task/yaml_reader.hpp"
#include "policy/loss/preset.hpp"

namespace quern::actors {
namespace {

using base::errc;
using base::fail;

constexpr std::size_t largest_config = 1U << 20U;

const config_key* find_key(std::string_view path) {
  const auto& keys = config_keys();
  const auto found = std::find_if(keys.begin(), keys.end(),
                                  [&](const config_key& key) { return key.path == path; });
  return found == keys.end() ? nullptr : &*found;
}

bool is_group(std::string_view path) {
  const auto& keys = config_keys();
  return std::any_of(keys.begin(), keys.end(), [&](const config_key& known) {
    return known.path.size() > path.size() && known.path.starts_with(path) &&
           known.path[path.size()] == '.';
  });
}

tl::unexpected<base::error> unknown_key(std::string_view path) {
  if (path == "quern_config") {
    return fail(errc::invalid_argument,
                "quern_config is the version of the file's format ({} in this build), not a "
                "setting: it stands in the file only",
                config_version);
  }
  if (is_group(path)) {
    std::vector<std::string_view> below;
    for (const config_key& key : config_keys()) {
      if (key.path.starts_with(std::string(path) + ".")) below.push_back(key.path);
    }
    return fail(errc::invalid_argument, "'{}' is a group of keys: set one of {}", path,
                fmt::join(below, ", "));
  }
  if (const std::string_view now = present_name(path); !now.empty())
    return fail(errc::invalid_argument, "{} is called {} now: use that name", path, now);
  // A key of earlier builds, which stands in the files of their runs.
  if (path == "algorithm.anchor")
    return fail(errc::invalid_argument,
                "algorithm.anchor is no key: ratios are over the policy that sampled; take it out");
  std::vector<std::string_view> known;
  for (const config_key& key : config_keys()) {
    const std::string_view full = key.path;
    known.push_back(full);
    known.push_back(full.substr(0, full.find('.')));
  }
  return fail(errc::invalid_argument, "unknown key '{}'{}; configs/reference.yaml lists all keys",
              path, base::did_you_mean(path, known));
}

/// A number as a person writes it: 5 and 1e-4, not 0.00010000000000000000479.
std::string show(double value) {
  return fmt::format("{}", value);
}

/// Reads a number of `kind` within the limits of `key`.
template <class Number>
base::status read_number(const config_key& key, std::string_view text, const char* kind,
                         Number& value) {
  Number number{};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  const auto wide = static_cast<double>(number);
  const bool beyond = code == std::errc::result_out_of_range;
  if (end != text.data() + text.size() || (code != std::errc() && !beyond) || std::isnan(wide))
    return fail(errc::invalid_argument, "{}: '{}' is not {}; {} .. {} is possible", key.path, text,
                kind, show(key.low), show(key.high));
  if (beyond || wide < key.low || wide > key.high)
    return fail(errc::invalid_argument, "{}: {} is outside {} .. {}", key.path, text, show(key.low),
                show(key.high));
  value = number;
  return {};
}

base::status assign(const config_key& key, run_config& config, const std::string& value) {
  const auto at = key.at(config);
  if (auto* flag = std::get_if<bool*>(&at)) {
    if (value != "true" && value != "false") {
      return fail(errc::invalid_argument, "{}: '{}' is not true or false", key.path, value);
    }
    **flag = value == "true";
    return {};
  }
  if (auto* text = std::get_if<std::string*>(&at)) {
    const auto& choices = key.choices;
    if (!choices.empty() && std::find(choices.begin(), choices.end(), value) == choices.end()) {
      // It knows earlier names.
      if (key.path == "algorithm.preset")
        if (const auto preset = policy::parse_preset(value); !preset)
          return fail(errc::invalid_argument, "{}: {}", key.path, preset.error().message);
      return fail(errc::invalid_argument, "{}: '{}' is not one of {}{}", key.path, value,
                  fmt::join(choices, ", "), base::did_you_mean(value, choices));
    }
    **text = value;
    return {};
  }
  if (auto* whole = std::get_if<std::int64_t*>(&at))
    return read_number(key, value, "an integer", **whole);
  return read_number(key, value, "a finite number", *std::get<double*>(at));
}

/// `earlier`: keys may have their earlier names.
base::status apply_node(run_config& config, const YAML::Node& node, const std::string& prefix,
                        bool earlier, std::set<std::string>& seen) {
  for (const auto& entry : node) {
    if (!entry.first.IsScalar())
      return fail(
          errc::invalid_argument, "a key {} is no text: KEY: VALUE is needed",
          prefix.empty() ? "at the top" : "of '" + prefix.substr(0, prefix.size() - 1) + "'");
    const std::string written = prefix + entry.first.Scalar();
    const std::string_view moved_to = earlier ? present_name(written) : std::string_view();
    const std::string path = moved_to.empty() ? written : std::string(moved_to);
    if (!seen.insert(path).second)
      return fail(errc::invalid_argument, "key '{}' stands twice{}: take one out", path,
                  moved_to.empty() ? "" : fmt::format(", once as {}", written));
    const YAML::Node& value = entry.second;
    if (path == "quern_config") continue;
    const config_key* key = find_key(path);
    if (key != nullptr) {
      if (!value.IsScalar())
        return fail(errc::invalid_argument, "{}: a single value is needed, not {}", path,
                    value.IsNull() ? "nothing: give it one or leave the key out" : "several");
      QUERN_CHECK(assign(*key, config, value.Scalar()));
      continue;
    }
    if (!is_group(path)) return unknown_key(path);
    if (!value.IsMap())
      return fail(
          errc::invalid_argument,
          "{}: keys are needed below it, as in `{}: {{KEY: VALUE}}`; configs/reference.yaml "
          "lists them",
          path, path);
    QUERN_CHECK(apply_node(config, value, path + ".", earlier, seen));
  }
  return {};
}

/// Self-training follows correct samples alone: reward 1 or 0, no baseline.
void apply_stage_defaults(run_config& config, const std::string& stage) {
  // The first weights are the last ones: there is nothing to compare.
  if (stage == "search") config.observe.evaluation_set = false;
  if (stage != "self_train") return;
  config.algorithm.preset = "reinforce";
  config.algorithm.reward = "correct/1";
}

void apply_preset_defaults(run_config& config, const std::string& preset) {
  if (preset == "group_smoothed") config.algorithm.kl_weight = 0.01;
}

}  // namespace

run_config usual_config(const std::string& stage, const std::string& preset) {
  run_config config;
  if (!stage.empty()) config.stage = stage;
  apply_stage_defaults(config, config.stage);
  if (!preset.empty()) config.algorithm.preset = preset;
  apply_preset_defaults(config, config.algorithm.preset);
  return config;
}

std::string value_text(const config_key& key, const run_config& config) {
  // `at` gives places in a configuration that it may change; nothing is changed here.
  const auto at = key.at(const_cast<run_config&>(config));
  if (const auto* flag = std::get_if<bool*>(&at)) return **flag ? "true" : "false";
  if (const auto* whole = std::get_if<std::int64_t*>(&at)) return fmt::format("{}", **whole);
  if (const auto* number = std::get_if<double*>(&at)) return show(**number);
  YAML::Emitter quoted;
  quoted << YAML::DoubleQuoted << *std::get<std::string*>(at);
  return quoted.c_str();
}

std::string range_text(const config_key& key) {
  run_config probe;
  const auto at = key.at(probe);
  if (std::holds_alternative<bool*>(at)) return "true or false";
  if (std::holds_alternative<std::string*>(at))
    return key.choices.empty() ? "text" : fmt::format("{}", fmt::join(key.choices, " | "));
  return fmt::format("{} .. {}", show(key.low), show(key.high));
}

base::status apply_yaml(run_config& config, std::string_view yaml, config_writer writer) {
  return env::guard_yaml("configuration", [&]() -> base::status {
    QUERN_TRY(const YAML::Node root, env::load_yaml("configuration", yaml, largest_config));
    if (!root.IsMap())
      return fail(errc::invalid_argument,
                  "the file has no keys: `quern_config: {}` and lines KEY: VALUE are needed, as in "
                  "configs/reference.yaml",
                  config_version);
    if (writer == config_writer::person) QUERN_CHECK(check_names(root));
    QUERN_TRY(const bool earlier, has_earlier_names(root));
    std::set<std::string> seen;
    return apply_node(config, root, "", earlier, seen);
  });
}

base::status apply_setting(run_config& config, std::string_view assignment) {
  const std::size_t equals = assignment.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    return fail(errc::invalid_argument, "--set '{}': KEY=VALUE is needed", assignment);
  }
  const std::string_view path = assignment.substr(0, equals);
  const config_key* key = find_key(path);
  if (key == nullptr) return unknown_key(path);
  return assign(*key, config, std::string(assignment.substr(equals + 1)));
}

base::expected<run_config> load_config(const std::filesystem::path& file,
                                       const std::vector<std::string>& settings) {
  QUERN_TRY(const std::string text, base::read_file(file, largest_config));
  return load_config_text(text, file.string(), settings);
}

base::expected<run_config> load_run_config(const std::filesystem::path& file,
                                           const std::vector<std::string>& settings) {
  QUERN_TRY(const std::string text, base::read_file(file, largest_config));
  return load_config_text(text, file.string(), settings, config_writer::run);
}

base::expected<run_config> load_config_text(std::string_view text, const std::string& name,
                                            const std::vector<std::string>& settings,
                                            config_writer writer) {
  const auto read_over = [&](run_config start) -> base::expected<run_config> {
    if (auto applied = apply_yaml(start, text, writer); !applied) {
      return base::in_context(name, std::move(applied).error());
    }
    for (const std::string& setting : settings)
      QUERN_CHECK(apply_setting(start, setting));
    return start;
  };
  // Some defaults follow from what is said: read once for the stage, once for the preset.
  QUERN_TRY(const run_config for_stage, read_over({}));
  run_config start;
  apply_stage_defaults(start, for_stage.stage);
  QUERN_TRY(const run_config for_preset, read_over(start));
  apply_preset_defaults(start, for_preset.algorithm.preset);
  QUERN_TRY(run_config config, read_over(std::move(start)));
  QUERN_CHECK(check_config(config));
  return config;
}

void make_paths_absolute(run_config& config) {
  for (std::string* path : {&config.policy.model, &config.policy.recorded, &config.tasks.suite,
                            &config.tasks.kernelbench, &config.tasks.corpus_folder,
                            &config.env.keys, &config.env.hosts}) {
    std::error_code ignored;
    if (path->empty() || !std::filesystem::exists(*path, ignored)) continue;
    *path = std::filesystem::absolute(*path).lexically_normal().string();
  }
}

namespace {

/// Walks the table and writes group headings where they change.
template <class Comment>
std::string write_yaml(const run_config& config, Comment comment) {
  std::string out = fmt::format("quern_config: {}\n", config_version);
  std::string group;
  for (const config_key& key : config_keys()) {
    const std::size_t dot = key.path.find('.');
    const std::string key_group = dot == std::string::npos ? "" : key.path.substr(0, dot);
    if (key_group != group && !key_group.empty()) out += fmt::format("\n{}:\n", key_group);
    if (key_group != group && key_group.empty()) out += "\n";
    group = key_group;
    const std::string indent = key_group.empty() ? "" : "  ";
    out += comment(key, indent);
    const std::string name = dot == std::string::npos ? key.path : key.path.substr(dot + 1);
    out += fmt::format("{}{}: {}\n", indent, name, value_text(key, config));
  }
  return out;
}

}  // namespace

std::string to_yaml(const run_config& config) {
  return write_yaml(config, [](const config_key&, const std::string&) { return std::string(); });
}

std::string reference_yaml() {
  const std::string head =
      "# Every key with its default. Written by `quern explain config`; a test keeps it true.\n"
      "# Above each key: what it means, then [what is possible; when it may change].\n"
      "# fixed: never after the run has begun; resume: with `quern resume RUN --set KEY=VALUE`.\n";
  return head + write_yaml(run_config{}, [](const config_key& key, const std::string& indent) {
           return fmt::format("{}# {}\n{}# [{}; {}]\n", indent, key.why, indent, range_text(key),
                              to_string(key.changes));
         });
}

std::vector<key_difference> differences(const run_config& before, const run_config& after) {
  std::vector<key_difference> found;
  for (const config_key& key : config_keys()) {
    std::string old_value = value_text(key, before);
    std::string new_value = value_text(key, after);
    if (old_value != new_value) {
      found.push_back({key.path, std::move(old_value), std::move(new_value), key.changes});
    }
  }
  return found;
}

}  // namespace quern::actors
