#include "env/task/find_tasks.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "env/task/task_codec.hpp"

namespace quern::env {

namespace {

/// A lane that reads a text, and the one task of it that is meant.
struct foreign_words {
  const lane* from_lane = nullptr;
  std::string text;
  std::string name;  ///< empty: all tasks
};

const lane* lane_that_knows(const std::string& text, const source_options& options) {
  const auto knows = [&](const lane* one) {
    return one != nullptr && one->tasks_from != nullptr && one->tasks_from->knows(text);
  };
  if (knows(options.lane)) return options.lane;
  const auto lanes = all_lanes();
  const auto first = std::find_if(lanes.begin(), lanes.end(), knows);
  return first == lanes.end() ? nullptr : *first;
}

std::optional<foreign_words> foreign_words_of(const std::string& text,
                                              const source_options& options) {
  if (const lane* whole = lane_that_knows(text, options)) return foreign_words{whole, text, {}};
  const std::size_t hash = text.rfind('#');
  if (hash == std::string::npos) return std::nullopt;
  const std::string before = text.substr(0, hash);
  const lane* of = lane_that_knows(before, options);
  if (of == nullptr) return std::nullopt;
  return foreign_words{of, before, text.substr(hash + 1)};
}

base::status keep_one(suite& members, const foreign_words& words) {
  const auto named =
      std::find_if(members.members.begin(), members.members.end(),
                   [&](const suite_member& one) { return one.task.name == words.name; });
  if (named != members.members.end()) {
    suite_member kept = std::move(*named);
    members.members.clear();
    members.members.push_back(std::move(kept));
    members.name += "_" + words.name;
    return {};
  }
  std::vector<std::string_view> names;
  for (const suite_member& one : members.members)
    names.push_back(one.task.name);
  return base::fail(base::errc::not_found, "{} has no task '{}'{}; it has {}, the first is {}",
                    words.text, words.name, base::did_you_mean(words.name, names), names.size(),
                    names.front());
}

/// A task file says its precision itself.
base::status refuse_precision(const std::string& text, const source_options& options) {
  if (options.precision.empty()) return {};
  return base::fail(base::errc::invalid_argument,
                    "the precision {} is asked for, but {} is no task of others and says its own "
                    "types: leave the precision out",
                    options.precision, text);
}

base::expected<suite> read_foreign(const foreign_words& words, const source_options& options) {
  QUERN_TRY(suite found, words.from_lane->tasks_from->read(*words.from_lane, words.text, options));
  if (!words.name.empty()) QUERN_CHECK(keep_one(found, words));
  return found;
}

}  // namespace

bool names_foreign_tasks(const std::string& text, const source_options& options) {
  return foreign_words_of(text, options).has_value();
}

base::expected<suite> find_tasks(const std::string& text, const source_options& options) {
  const auto foreign = foreign_words_of(text, options);
  if (foreign) return read_foreign(*foreign, options);
  QUERN_CHECK(refuse_precision(text, options));
  return load_suite(text);
}

base::expected<found_task> find_task(const std::string& text, const source_options& options) {
  const auto foreign = foreign_words_of(text, options);
  if (!foreign) {
    QUERN_CHECK(refuse_precision(text, options));
    QUERN_TRY(task subject, load_task(text));
    return found_task{std::move(subject), std::nullopt};
  }
  QUERN_TRY(suite found, read_foreign(*foreign, options));
  if (found.members.size() != 1)
    return base::fail(base::errc::invalid_argument,
                      "{} names {} tasks, and one is needed: add its name, such as {}#{}", text,
                      found.members.size(), text, found.members.front().task.name);
  task subject = std::move(found.members.front().task);
  found.members.clear();
  return found_task{std::move(subject), std::move(found)};
}

base::expected<std::vector<bundled_candidate>> find_candidates(const std::string& text,
                                                               const source_options& options) {
  const lane* of = lane_that_knows(text, options);
  if (of == nullptr) return std::vector<bundled_candidate>();
  return of->tasks_from->candidates(*of, text, options);
}

std::string foreign_forms() {
  std::string all;
  std::string_view last;
  for (const lane* one : all_lanes()) {
    if (one->tasks_from == nullptr || one->tasks_from->forms == last) continue;
    last = one->tasks_from->forms;
    all += "; or ";
    all += last;
  }
  return all;
}

}  // namespace quern::env
