#include "actors/replay/task_book.hpp"

#include <cmath>
#include <set>

#include "base/program.hpp"
#include "env/grammar/draw.hpp"
#include "env/grammar/task_maker.hpp"
#include "env/task/suite.hpp"

namespace quern::actors {

base::expected<env::held_out_spec> held_out_of(const run_config& config) {
  env::held_out_spec spec;
  spec.salt = static_cast<std::uint64_t>(config.tasks.held_out_seed);
  spec.per_mille = static_cast<int>(std::lround(config.tasks.held_out_share * 1000));
  QUERN_TRY(const auto folder, base::share_folder("env/suites/cpu_quick"));
  QUERN_TRY(const env::suite quick, env::load_suite(folder));
  for (const env::suite_member& member : quick.members) {
    if (!member.held_out) continue;
    QUERN_TRY(const auto composition, env::composition_of_reference(member.task.reference));
    spec.skeletons.push_back(env::skeleton_hash(composition));
  }
  return spec;
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
    QUERN_TRY(const env::suite members, env::load_suite(config.tasks.suite));
    for (const env::suite_member& member : members.members) {
      auto composition = env::composition_of_reference(member.task.reference);
      book.add(member.task, composition ? *composition : env::composition{}, member.held_out);
    }
  } else {
    QUERN_TRY(const env::held_out_spec spec, held_out_of(config));
    std::set<std::string> seen;
    std::int64_t train = config.tasks.count;
    std::int64_t held_out = config.tasks.held_out_share > 0 ? config.tasks.held_out_count : 0;
    for (std::uint64_t index = 0; train > 0 || held_out > 0; ++index) {
      const auto seed = static_cast<std::uint64_t>(config.tasks.seed);
      env::composition drawn = env::draw_composition(seed, index, {});
      std::int64_t& left = env::is_held_out(drawn, spec) ? held_out : train;
      if (left == 0 || !seen.insert(base::to_hex(env::composition_hash(drawn))).second) continue;
      const bool is_held_out = &left == &held_out;
      --left;
      QUERN_TRY(env::task made, env::make_task(drawn));
      book.add(std::move(made), std::move(drawn), is_held_out);
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
