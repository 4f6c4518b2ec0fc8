#include "actors/config/stages.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include "actors/config/config_file.hpp"
#include "actors/config/renamed_keys.hpp"
#include "base/file.hpp"
#include "env/task/yaml_reader.hpp"
#include "storage/checkpoint.hpp"

namespace quern::actors {
namespace {

using base::errc;
using base::fail;
namespace fs = std::filesystem;

constexpr std::size_t largest_chain = 1 << 20;

/// Of two equal keys `merged` would keep one without a word.
base::status check_keys(const YAML::Node& node) {
  if (node.IsSequence())
    for (const auto& one : node)
      QUERN_CHECK(check_keys(one));
  if (!node.IsMap()) return {};
  std::set<std::string> seen;
  for (const auto& entry : node) {
    const int line = entry.first.Mark().line + 1;
    if (!entry.first.IsScalar())
      return fail(errc::invalid_argument, "line {}: a key is no text: KEY: VALUE is needed", line);
    if (!seen.insert(entry.first.Scalar()).second)
      return fail(errc::invalid_argument, "line {}: key '{}' stands twice: take one out", line,
                  entry.first.Scalar());
    QUERN_CHECK(check_keys(entry.second));
  }
  return {};
}

/// Keys of `over` replace those of `under`, group by group.
YAML::Node merged(const YAML::Node& under, const YAML::Node& over) {
  if (!under.IsMap() || !over.IsMap()) return over;
  YAML::Node made(YAML::NodeType::Map);
  for (const auto& entry : under) {
    const auto key = entry.first.Scalar();
    made[key] = over[key] ? merged(entry.second, over[key]) : entry.second;
  }
  for (const auto& entry : over)
    if (const auto key = entry.first.Scalar(); !under[key]) made[key] = entry.second;
  return made;
}

constexpr std::string_view stage_names[] = {"sft", "self_train", "contrastive"};

base::status check_stage(const YAML::Node& own, std::size_t number) {
  if (!own.IsMap() || !own["stage"] || !own["stage"].IsScalar())
    return fail(errc::invalid_argument, "stages: number {} has no `stage: NAME` with one of {}",
                number, fmt::join(stage_names, ", "));
  for (const char* key : {"name", "folder"})
    if (own["run"] && own["run"].IsMap() && own["run"][key])
      return fail(errc::invalid_argument,
                  "stages: number {} has run.{}, which belongs to all: write it "
                  "outside of stages",
                  number, key);
  if (number > 1 && own["policy"] && own["policy"].IsMap() && own["policy"]["model"])
    return fail(errc::invalid_argument,
                "stages: number {} has policy.model: its policy is that of the stage before it; "
                "leave it out",
                number);
  return {};
}

/// The stage that a setting is for; empty: all.
std::string_view stage_of(std::string_view setting) {
  for (const std::string_view name : stage_names)
    if (setting.starts_with(name) && setting.substr(name.size()).starts_with(".")) return name;
  return "";
}

/// A STAGE.KEY=VALUE of a stage that is not among `stages` is for nobody; none: of one that stands
/// alone.
base::status check_stages_of(const std::vector<std::string>& settings,
                             const std::vector<std::string>& stages) {
  for (const std::string& setting : settings) {
    const std::string_view of = stage_of(setting);
    if (of.empty() || std::find(stages.begin(), stages.end(), of) != stages.end()) continue;
    if (stages.empty())
      return fail(errc::invalid_argument, "--set {}: there is one stage only: say {} instead",
                  setting, setting.substr(of.size() + 1));
    return fail(errc::invalid_argument, "--set {}: there is no stage {}; there are {}", setting, of,
                fmt::join(stages, ", "));
  }
  return {};
}

/// What of a stage depends on the others.
base::status check_place(const run_config& config, std::size_t number) {
  if (number > 1 && config.stage == "sft")
    return fail(errc::invalid_argument,
                "stages: number {} is sft, which makes a policy of its own and would throw away "
                "that of the stage before it: sft can be the first stage only, once",
                number);
  if (is_search(config))
    return fail(errc::invalid_argument,
                "stages: number {} is search, which leaves the policy as it is and gives none to a "
                "stage after it: run it alone, with the policy.model that it searches with",
                number);
  if (config.learner.steps == 0)
    return fail(errc::invalid_argument,
                "stages: number {} ({}): learner.steps is 0, at least 1 is needed: raise it, or "
                "leave the stage out",
                number, config.stage);
  return {};
}

bool sets_model(const std::vector<std::string>& settings) {
  return std::any_of(settings.begin(), settings.end(),
                     [](const std::string& one) { return one.starts_with("policy.model="); });
}

base::expected<std::vector<stage_plan>> read_stages(const YAML::Node& root,
                                                    const std::vector<std::string>& settings) {
  QUERN_CHECK(check_keys(root));
  const YAML::Node list = root["stages"];
  if (!list.IsSequence() || list.size() == 0)
    return fail(errc::invalid_argument,
                "stages: a list of stages is needed, each with `stage: NAME` and keys of its own");
  if (root["stage"])
    return fail(errc::invalid_argument,
                "stage and stages stand side by side, and each entry of stages names its own: take "
                "one of them out");
  YAML::Node common(YAML::NodeType::Map);
  for (const auto& entry : root)
    if (entry.first.Scalar() != "stages") common[entry.first.Scalar()] = entry.second;
  std::vector<stage_plan> stages;
  std::vector<std::string> names;
  for (std::size_t k = 0; k < list.size(); ++k) {
    QUERN_CHECK(check_stage(list[k], k + 1));
    names.push_back(list[k]["stage"].Scalar());
  }
  QUERN_CHECK(check_stages_of(settings, names));
  for (std::size_t k = 0; k < list.size(); ++k) {
    const auto own = settings_of_stage(settings, list[k]["stage"].Scalar());
    QUERN_TRY(run_config config, load_config_text(YAML::Dump(merged(common, list[k])),
                                                  fmt::format("stages, number {}", k + 1), own));
    QUERN_CHECK(check_place(config, k + 1));
    // That of the stage before it. Alone (--stage) it has none but the one that is set.
    if (k > 0 && !sets_model(own)) config.policy.model.clear();
    stages.push_back({fmt::format("{}-{}", k + 1, config.stage), std::move(config)});
  }
  return stages;
}

fs::path folder_of_plans(const fs::path& chain) {
  return chain / "stages";
}

}  // namespace

base::expected<std::vector<stage_plan>> load_stages(const fs::path& file,
                                                    const std::vector<std::string>& settings) {
  const auto text = base::read_file(file, largest_chain);
  if (!text && text.error().code == errc::not_found)
    return fail(errc::not_found,
                "{}: name the YAML file of a configuration, such as those in configs/",
                text.error().message);
  if (!text) return tl::make_unexpected(text.error());
  std::vector<stage_plan> stages;
  const auto read = env::guard_yaml("configuration", [&]() -> base::status {
    QUERN_TRY(const YAML::Node root, env::load_yaml("configuration", *text, largest_chain));
    if (!root.IsMap() || !root["stages"]) return {};
    QUERN_CHECK(check_names(root));
    QUERN_TRY(stages, read_stages(root, settings));
    return {};
  });
  if (!read) return base::in_context(file.string(), read.error());
  if (!stages.empty()) return stages;
  QUERN_CHECK(check_settings({}, settings));
  QUERN_TRY(run_config config, load_config(file, settings));
  stages.push_back({"", std::move(config)});
  return stages;
}

std::vector<std::string> settings_of_stage(const std::vector<std::string>& settings,
                                           std::string_view stage) {
  std::vector<std::string> own;
  for (const std::string& setting : settings) {
    const std::string_view of = stage_of(setting);
    if (of.empty())
      own.push_back(setting);
    else if (of == stage)
      own.push_back(setting.substr(stage.size() + 1));
  }
  return own;
}

base::status create_chain(const fs::path& chain, const std::vector<stage_plan>& stages) {
  const fs::path plans = folder_of_plans(chain);
  if (fs::exists(plans) || fs::exists(chain / "config.yaml"))
    return fail(errc::already_exists,
                "{} is there already: quern resume goes on with it; or choose another run.folder",
                chain.string());
  // All of them or none: half a chain would end early without a word.
  const fs::path made = chain / "stages.new";
  std::error_code ignored;
  fs::remove_all(made, ignored);
  QUERN_CHECK(base::make_folders(made));
  for (const stage_plan& stage : stages)
    QUERN_CHECK(base::write_file_atomic(made / (stage.name + ".yaml"), to_yaml(stage.config)));
  std::error_code code;
  fs::rename(made, plans, code);
  if (code) return fail(errc::io, "renaming {}: {}", made.string(), code.message());
  return {};
}

bool is_chain(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_directory(folder_of_plans(folder), ignored);
}

base::expected<std::vector<stage_plan>> read_chain(const fs::path& chain) {
  std::vector<fs::path> files;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(folder_of_plans(chain), code))
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  if (code || files.empty())
    return fail(errc::not_found, "{} has no stages", folder_of_plans(chain).string());
  const auto number = [](const fs::path& file) { return std::atoi(file.filename().c_str()); };
  std::sort(files.begin(), files.end(),
            [&](const fs::path& a, const fs::path& b) { return number(a) < number(b); });
  std::vector<stage_plan> stages;
  for (const fs::path& file : files) {
    QUERN_TRY(run_config config, load_run_config(file, {}));
    stages.push_back({file.stem().string(), std::move(config)});
  }
  return stages;
}

base::status check_settings(const std::vector<stage_plan>& stages,
                            const std::vector<std::string>& settings) {
  std::vector<std::string> names;
  for (const stage_plan& stage : stages)
    names.push_back(stage.config.stage);
  return check_stages_of(settings, names);
}

base::status change_plan(stage_plan& stage, const std::vector<std::string>& settings) {
  // Of the chain, and what lies on the disk is called after them.
  constexpr std::string_view of_chain[] = {"stage", "run.name", "run.folder"};
  const int number = std::atoi(stage.name.c_str());
  run_config changed = stage.config;
  for (const std::string& setting : settings)
    QUERN_CHECK(apply_setting(changed, setting));
  for (const key_difference& change : differences(stage.config, changed)) {
    const bool of_before = number > 1 && change.path == "policy.model";
    if (!of_before &&
        std::find(std::begin(of_chain), std::end(of_chain), change.path) == std::end(of_chain))
      continue;
    return fail(
        errc::invalid_argument, "{} is fixed for stage {}: it is {} and cannot become {}; {}",
        change.path, stage.name, change.before, change.after,
        of_before ? "its policy is that of the stage before it" : "start a new chain for that");
  }
  make_paths_absolute(changed);
  QUERN_CHECK(check_config(changed));
  QUERN_CHECK(check_place(changed, static_cast<std::size_t>(number)));
  stage.config = std::move(changed);
  return {};
}

base::status write_plan(const fs::path& chain, const stage_plan& stage) {
  return base::write_file_atomic(folder_of_plans(chain) / (stage.name + ".yaml"),
                                 to_yaml(stage.config));
}

namespace {

fs::path mark_of(const fs::path& chain, const std::string& stage) {
  return folder_of_plans(chain) / (stage + ".begun");
}

}  // namespace

base::status mark_begun(const fs::path& chain, const std::string& stage) {
  return base::write_file_atomic(mark_of(chain, stage), "");
}

base::status check_begun_stages(const fs::path& chain, const std::vector<stage_plan>& stages) {
  std::string later;
  for (auto stage = stages.rbegin(); stage != stages.rend(); ++stage) {
    const fs::path folder = chain / stage->name, mark = mark_of(chain, stage->name);
    std::error_code ignored;
    if (fs::exists(folder / "meta.json", ignored)) {
      later = stage->name;
      continue;
    }
    if (!later.empty())
      return fail(errc::not_found,
                  "stage {} has begun, but the run of stage {} before it is not there ({}): put "
                  "that folder back; to train it anew, begin a new chain with another run.folder",
                  later, stage->name, folder.string());
    if (fs::exists(mark, ignored))
      return fail(errc::not_found,
                  "stage {} was begun, but its run is not there any more ({}): put that folder "
                  "back; to train it anew, delete {} and resume",
                  stage->name, folder.string(), mark.string());
  }
  return {};
}

base::expected<fs::path> present_stage(const fs::path& folder) {
  if (!is_chain(folder)) return folder;
  QUERN_TRY(const auto stages, read_chain(folder));
  for (auto stage = stages.rbegin(); stage != stages.rend(); ++stage)
    if (fs::exists(folder / stage->name / "meta.json")) return folder / stage->name;
  return fail(errc::not_found, "no stage of {} has begun: quern resume begins", folder.string());
}

base::expected<fs::path> last_model(const fs::path& run) {
  const storage::checkpoint_store checkpoints(run / "checkpoints");
  QUERN_TRY(const std::int64_t version, checkpoints.latest());
  return checkpoints.folder_of(version) / "model";
}

}  // namespace quern::actors
