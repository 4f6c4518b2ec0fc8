#include "actors/orchestrator/task_book.hpp"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include <fmt/ranges.h>

#include "actors/allowed_by.hpp"
#include "actors/config/device_class.hpp"
#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/program.hpp"
#include "base/text.hpp"
#include "env/grammar/draw.hpp"
#include "env/grammar/kernel_grammar.hpp"
#include "env/grammar/task_maker.hpp"
#include "env/judge/core_lock.hpp"
#include "env/task/find_tasks.hpp"
#include "env/task/suite.hpp"

namespace quern::actors {
namespace {

/// A draw takes some milliseconds of a processor (it is tried numerically): more than so many would
/// make a start look like hanging.
constexpr double most_expected_draws = 20'000;
/// Making thousands of tasks takes a while, which is not to be mistaken for hanging.
constexpr base::nanoseconds_t telling_interval = 2'000'000'000;

/// How many draws the tasks are expected to take; a draw is held out with the share.
base::expected<std::uint64_t> draws_for(const run_config& config, const env::held_out_spec& spec,
                                        std::int64_t held_out) {
  // Families are about equally frequent.
  const double families =
      static_cast<double>(spec.families.size()) / static_cast<double>(env::all_families().size());
  const double share = families + (1 - families) * spec.per_mille / 1000.0;
  double draws = static_cast<double>(config.tasks.count) / (1 - share);
  if (held_out > 0)
    draws = std::max(draws, static_cast<double>(held_out + config.tasks.held_out_skip) / share);
  if (draws <= most_expected_draws) return static_cast<std::uint64_t>(draws);
  return base::fail(base::errc::invalid_argument,
                    "tasks.held_out_count = {} after tasks.held_out_skip = {} with "
                    "tasks.held_out_share = {} (counted in thousandths) and tasks.count = {} would "
                    "take about {:.0f} draws, the limit is {:.0f}: ask for fewer tasks or hold out "
                    "a larger share",
                    config.tasks.held_out_count, config.tasks.held_out_skip,
                    config.tasks.held_out_share, config.tasks.count, draws, most_expected_draws);
}

tl::unexpected<base::error> too_few(const run_config& config, std::int64_t train,
                                    std::int64_t held_out, std::uint64_t draws) {
  return base::fail(base::errc::invalid_argument,
                    "tasks: the grammar gave {} of tasks.count = {} and {} of "
                    "tasks.held_out_count = {} in {} draws: ask for fewer, or change "
                    "tasks.held_out_share ({})",
                    config.tasks.count - train, config.tasks.count,
                    config.tasks.held_out_count - held_out, config.tasks.held_out_count, draws,
                    config.tasks.held_out_share);
}

/// "softmax, row_sum" to its names, each once; an error names the one that is no family.
base::expected<std::vector<std::string>> families_of(const std::string& list) {
  std::vector<std::string> names;
  const auto all = env::all_families();
  for (const std::string_view part : base::split(list, ',')) {
    const std::string name(base::trim(part));
    if (name.empty() || std::find(names.begin(), names.end(), name) != names.end()) continue;
    if (std::find(all.begin(), all.end(), name) == all.end())
      return base::fail(base::errc::invalid_argument,
                        "tasks.held_out_families: '{}' is no family of the grammar; known: {}",
                        name, fmt::join(all, ", "));
    names.push_back(name);
  }
  // Nothing would be left to draw: neither a corpus nor a run would ever begin.
  if (names.size() == all.size())
    return base::fail(base::errc::invalid_argument,
                      "tasks.held_out_families: '{}' is every family: leave one to train on", list);
  return names;
}

}  // namespace

base::expected<env::held_out_spec> held_out_of(const run_config& config) {
  env::held_out_spec spec;
  spec.salt = static_cast<std::uint64_t>(config.tasks.held_out_seed);
  spec.per_mille = static_cast<int>(std::lround(config.tasks.held_out_share * 1000));
  QUERN_TRY(spec.families, families_of(config.tasks.held_out_families));
  QUERN_TRY(const auto folder, base::share_folder("env/suites/cpu_quick"));
  QUERN_TRY(const env::suite quick, env::load_suite(folder));
  for (const env::suite_member& member : quick.members) {
    if (!member.held_out) continue;
    QUERN_TRY(const auto composition, env::composition_of_reference(member.task.reference));
    spec.skeletons.push_back(env::skeleton_hash(composition));
  }
  return spec;
}

base::expected<env::suite> suite_of(const run_config& config) {
  const env::source_options options{&lane_of(config), config.tasks.kernelbench, {}};
  std::error_code ignored;
  if (std::filesystem::is_regular_file(config.tasks.suite, ignored) &&
      !env::names_foreign_tasks(config.tasks.suite, options))
    return env::suite_of_file(config.tasks.suite);
  return env::find_tasks(config.tasks.suite, options);
}

void task_book::add(env::task task, env::composition composition, bool held_out) {
  std::string id = env::task_id(task);
  by_id_.emplace(id, tasks_.size());
  tasks_.push_back({std::move(id), std::make_shared<const env::task>(std::move(task)),
                    std::move(composition), held_out});
}

base::expected<task_book> task_book::make(const run_config& config) {
  task_book book;
  if (config.tasks.source == "suite") {
    QUERN_TRY(const env::suite members, suite_of(config));
    // The run's keys must name what it measures against.
    if (members.baseline != env::baseline_choice::of_task && config.env.baseline == "task")
      return base::fail(base::errc::invalid_argument,
                        "its suite.yaml measures over '{}': set env.baseline to that, or to what "
                        "this run is to measure over",
                        env::name_of(members.baseline));
    book.rules_ = {env::to_text(allowed_by(config, members.policy)), members.recheck_above_e2};
    for (const env::suite_member& member : members.members) {
      auto composition = env::composition_of_reference(member.task.reference);
      book.add(member.task, composition ? *composition : env::composition{}, member.held_out);
    }
  } else {
    QUERN_TRY(const env::held_out_spec spec, held_out_of(config));
    env::task_options making;
    making.lane = &lane_of(config);
    if (making.lane->host_code_is_optional)
      book.rules_.policy = env::to_text(allowed_by(config, {}));
    const env::draw_limits limits = making.lane->grammar()->limits();
    std::unordered_set<base::hash128> seen;
    std::int64_t train = config.tasks.count;
    const bool any = config.tasks.held_out_share > 0 || !spec.families.empty();
    std::int64_t held_out = any ? config.tasks.held_out_count : 0;
    std::int64_t skip = held_out > 0 ? config.tasks.held_out_skip : 0;
    std::unordered_set<base::hash128> passed_over;
    QUERN_TRY(const std::uint64_t expected, draws_for(config, spec, held_out));
    // The grammar is finite: without a bound a run that wants more would never begin.
    const std::uint64_t most_draws = 2000 + 4 * expected;
    const base::steady_clock clock;
    base::nanoseconds_t told = clock.now_ns();
    const auto cores = env::allowed_cores();
    env::tried_draws draws(static_cast<std::uint64_t>(config.tasks.seed), limits,
                           cores ? cores->size() : 1);
    for (std::uint64_t index = 0; train > 0 || held_out > 0; ++index) {
      if (index == most_draws) return too_few(config, train, held_out, index);
      const env::composition_probe tried = draws.next();
      const env::composition& drawn = tried.subject();
      std::int64_t& left = env::is_held_out(drawn, spec) ? held_out : train;
      if (left == 0 || !seen.insert(env::composition_hash(drawn)).second) continue;
      const bool is_held_out = &left == &held_out;
      if (is_held_out && skip > 0) {
        --skip;
        passed_over.insert(env::skeleton_hash(drawn));
        continue;
      }
      if (is_held_out && passed_over.contains(env::skeleton_hash(drawn))) continue;
      --left;
      QUERN_TRY(env::task made, env::make_task(tried, making));
      book.add(std::move(made), drawn, is_held_out);
      if (clock.now_ns() - told >= telling_interval) {
        told = clock.now_ns();
        base::log_info("tasks", "{} made, {} to go", book.tasks_.size(), train + held_out);
      }
    }
  }
  for (const book_task& task : book.tasks_) {
    if (!task.held_out) return book;
  }
  return base::fail(base::errc::invalid_argument,
                    "no task is left to train on: all {} are held out", book.tasks_.size());
}

base::expected<const book_task*> task_book::find(const std::string& id) const {
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) {
    return base::fail(base::errc::not_found, "task {} is not one of this run's {}", id,
                      tasks_.size());
  }
  return &tasks_[found->second];
}

}  // namespace quern::actors
