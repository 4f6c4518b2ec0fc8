#include "actors/config/begun_with.hpp"

#include <algorithm>
#include <map>

#include <fmt/ranges.h>

#include "actors/config/device_class.hpp"
#include "actors/orchestrator/prompt_length.hpp"
#include "actors/orchestrator/recorded_book.hpp"
#include "env/task/find_tasks.hpp"
#include "storage/run_directory.hpp"

namespace quern::actors {
namespace {

using base::errc;
using base::fail;
namespace fs = std::filesystem;

/// A message names so many of a kind and counts the others.
constexpr std::size_t most_named = 3;

std::string name_of(const known_task& task) {
  return std::string(env::task_name_of(task.id));
}

/// Items of both by their names; `same` compares two of one name.
template <class Item, class Name, class Same>
changed_names compare_by_name(const std::vector<Item>& begun, const std::vector<Item>& now,
                              Name name, Same same) {
  std::map<std::string, const Item*> there;
  for (const Item& item : now)
    there.emplace(name(item), &item);
  changed_names changed;
  for (const Item& item : begun) {
    const auto found = there.find(name(item));
    if (found == there.end()) {
      changed.missing.push_back(name(item));
      continue;
    }
    if (!same(item, *found->second)) changed.differ.push_back(name(item));
    there.erase(found);
  }
  for (const auto& [left, item] : there)
    changed.added.push_back(left);
  return changed;
}

/// "a, b, c and 2 more differ"; nothing of nothing.
void say(std::vector<std::string>& parts, const std::vector<std::string>& names,
         std::string_view of_one, std::string_view of_several) {
  if (names.empty()) return;
  const std::size_t named = std::min(names.size(), most_named);
  std::string text = fmt::format("{}", fmt::join(names.begin(), names.begin() + named, ", "));
  if (names.size() > named) text += fmt::format(" and {} more", names.size() - named);
  parts.push_back(fmt::format("{} {}", text, names.size() == 1 ? of_one : of_several));
}

std::string say_all(const changed_names& names, const std::vector<std::string>& moved) {
  std::vector<std::string> parts;
  say(parts, names.differ, "differs", "differ");
  say(parts, names.missing, "is missing", "are missing");
  say(parts, names.added, "is new", "are new");
  say(parts, moved, "is held out now and was not, or the reverse",
      "are held out now and were not, or the reverse");
  return fmt::format("{}", fmt::join(parts, "; "));
}

base::json ids_of(const std::vector<known_task>& tasks, bool held_out) {
  base::json ids = base::json::array();
  for (const known_task& task : tasks)
    if (task.held_out == held_out) ids.push_back(task.id);
  return ids;
}

base::expected<base::hash128> hash_in(const base::json& object, std::string_view name) {
  QUERN_TRY(const std::string text, base::get<std::string>(object, name));
  return base::parse_hash(text);
}

base::expected<std::vector<policy::model_file>> files_in(const base::json& list) {
  std::vector<policy::model_file> files;
  if (!list.is_array()) return fail(errc::invalid_argument, "'model' is no list");
  for (const base::json& one : list) {
    policy::model_file file;
    QUERN_TRY(file.name, base::get<std::string>(one, "file"));
    QUERN_TRY(file.size, base::get<std::uint64_t>(one, "bytes"));
    QUERN_TRY(file.digest, hash_in(one, "digest"));
    files.push_back(std::move(file));
  }
  return files;
}

base::expected<std::vector<known_task>> tasks_in(const base::json& object) {
  std::vector<known_task> tasks;
  if (!object.is_object()) return fail(errc::invalid_argument, "'tasks' is no object");
  for (const bool held_out : {false, true}) {
    const char* const half = held_out ? "held_out" : "train";
    const auto list = object.find(half);
    if (list == object.end() || !list->is_array())
      return fail(errc::invalid_argument, "'tasks' has no list '{}'", half);
    for (const base::json& id : *list) {
      if (!id.is_string()) return fail(errc::invalid_argument, "'{}' has what is no text", half);
      tasks.push_back({id.get<std::string>(), held_out});
    }
  }
  return tasks;
}

base::expected<run_inputs> parse(const base::json& object) {
  run_inputs inputs;
  if (!object.is_object()) return fail(errc::invalid_argument, "it is no object");
  if (const auto model = object.find("model"); model != object.end()) {
    QUERN_TRY(inputs.model, files_in(*model));
  }
  if (const auto tasks = object.find("tasks"); tasks != object.end()) {
    QUERN_TRY(inputs.tasks, tasks_in(*tasks));
  }
  if (object.contains("recorded")) {
    QUERN_TRY(inputs.recorded, hash_in(object, "recorded"));
  }
  return inputs;
}

std::optional<std::vector<known_task>> known_tasks(const run_config& config,
                                                   const task_book& tasks) {
  // Its corpus has them.
  if (config.stage == "sft" && config.tasks.source != "suite") return std::nullopt;
  std::vector<known_task> known;
  for (const book_task& task : tasks.tasks())
    known.push_back({task.id, task.held_out});
  return known;
}

base::status other_generated_tasks(const fs::path& folder, const std::string& changes) {
  return fail(errc::invalid_argument,
              "tasks.source is generated, and other tasks are drawn here than those that {} was "
              "begun with: {}; samples, kernels and the closing comparison are of the tasks as "
              "they were: go on with the build and on the host that {} names, and with "
              "env/suites/cpu_quick as it was, or begin a new run",
              folder.string(), changes, storage::run_paths{folder}.meta().string());
}

base::status other_tasks_of_suite(const run_config& config, const fs::path& folder,
                                  const std::string& changes) {
  // A word for tasks of others, and no path: they are in a tree that has a key of its own.
  std::error_code ignored;
  const env::source_options options{&lane_of(config), config.tasks.kernelbench, {}};
  const bool of_others = !fs::exists(config.tasks.suite, ignored) &&
                         env::names_foreign_tasks(config.tasks.suite, options);
  std::string tree;
  if (of_others)
    tree = config.tasks.kernelbench.empty()
               ? " (in the tree that the variable KERNELBENCH names)"
               : fmt::format(" (tasks.kernelbench: {})", config.tasks.kernelbench);
  return fail(errc::invalid_argument,
              "tasks.suite is {}{}, whose tasks are not those that {} was begun with: {}; samples, "
              "kernels and the closing comparison are of the tasks as they were: put them back, or "
              "name a copy that is as before as {} in {}; for other tasks begin a new run",
              config.tasks.suite, tree, folder.string(), changes,
              of_others ? "tasks.kernelbench" : "tasks.suite",
              storage::run_paths{folder}.config().string());
}

/// As inputs_in; an error names the file.
base::expected<std::optional<run_inputs>> inputs_begun_with(const fs::path& folder,
                                                            const base::json& meta) {
  auto begun = inputs_in(meta);
  if (begun) return begun;
  return fail(errc::corrupt, "{}: {}; put the file back from a copy of the run",
              storage::run_paths{folder}.meta().string(), begun.error().message);
}

}  // namespace

base::expected<run_inputs> inputs_of(const run_config& config, const fs::path& folder,
                                     const task_book& tasks) {
  run_inputs inputs;
  if (config.stage != "sft") {
    QUERN_TRY(const fs::path model, model_folder(config));
    QUERN_TRY(inputs.model, policy::digest_model(model));
  }
  inputs.tasks = known_tasks(config, tasks);
  if (config.stage != "sft" && config.policy.engine == "recorded") {
    QUERN_TRY(inputs.recorded, policy::digest_file(recorded_file_of(config, folder)));
  }
  return inputs;
}

changed_inputs compare(const run_inputs& begun, const run_inputs& now) {
  changed_inputs changed;
  if (begun.model && now.model)
    changed.model = compare_by_name(
        *begun.model, *now.model, [](const policy::model_file& file) { return file.name; },
        [](const policy::model_file& a, const policy::model_file& b) { return a == b; });
  if (begun.tasks && now.tasks) {
    const auto name = [](const known_task& task) { return name_of(task); };
    changed.tasks =
        compare_by_name(*begun.tasks, *now.tasks, name,
                        [](const known_task& a, const known_task& b) { return a.id == b.id; });
    changed.moved = compare_by_name(*begun.tasks, *now.tasks, name,
                                    [](const known_task& a, const known_task& b) {
                                      return a.held_out == b.held_out;
                                    })
                        .differ;
  }
  changed.recorded = begun.recorded && now.recorded && *begun.recorded != *now.recorded;
  return changed;
}

base::json to_json(const run_inputs& inputs) {
  base::json object = base::json::object();
  if (inputs.model) {
    object["model"] = base::json::array();
    for (const policy::model_file& file : *inputs.model)
      object["model"].push_back(
          {{"file", file.name}, {"bytes", file.size}, {"digest", base::to_hex(file.digest)}});
  }
  if (inputs.tasks)
    object["tasks"] = {{"train", ids_of(*inputs.tasks, false)},
                       {"held_out", ids_of(*inputs.tasks, true)}};
  if (inputs.recorded) object["recorded"] = base::to_hex(*inputs.recorded);
  return object;
}

base::expected<std::optional<run_inputs>> inputs_in(const base::json& meta) {
  const auto found = meta.find(begun_with_key);
  if (found == meta.end()) return std::optional<run_inputs>();
  auto inputs = parse(*found);
  if (!inputs)
    return fail(errc::corrupt, "its key '{}' is damaged: {}", begun_with_key,
                inputs.error().message);
  return std::optional(std::move(*inputs));
}

base::status check_inputs(const run_config& config, const fs::path& folder,
                          const changed_inputs& changed) {
  const std::string file = storage::run_paths{folder}.config().string();
  if (changed.model.any()) {
    QUERN_TRY(const fs::path model, model_folder(config));
    return fail(errc::invalid_argument,
                "policy.model is {}, which is not what {} was begun with: {}; its first weights "
                "are what KL and the closing comparison are against: put its files back, or name a "
                "copy that is as before as policy.model in {}; for other weights begin a new run",
                model.string(), folder.string(), say_all(changed.model, {}), file);
  }
  if (changed.tasks.any() || !changed.moved.empty()) {
    const std::string changes = say_all(changed.tasks, changed.moved);
    return config.tasks.source == "suite" ? other_tasks_of_suite(config, folder, changes)
                                          : other_generated_tasks(folder, changes);
  }
  if (changed.recorded)
    return fail(errc::invalid_argument,
                "policy.recorded: {} is not the file that {} was begun with: put it back; to play "
                "other completions begin a new run",
                recorded_file_of(config, folder).string(), folder.string());
  return {};
}

base::status check_begun_with(const run_config& config, const fs::path& folder,
                              const base::json& meta, const task_book& tasks) {
  QUERN_TRY(const auto begun, inputs_begun_with(folder, meta));
  if (!begun) return {};
  QUERN_TRY(const run_inputs now, inputs_of(config, folder, tasks));
  return check_inputs(config, folder, compare(*begun, now));
}

base::status check_tasks_begun_with(const run_config& config, const fs::path& folder,
                                    const base::json& meta, const task_book& tasks) {
  QUERN_TRY(const auto begun, inputs_begun_with(folder, meta));
  if (!begun) return {};
  run_inputs now;
  now.tasks = known_tasks(config, tasks);
  return check_inputs(config, folder, compare(*begun, now));
}

}  // namespace quern::actors
