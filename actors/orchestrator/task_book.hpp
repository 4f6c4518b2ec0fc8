// The tasks of a run: which are trained on, which are held out, and what a prompt says about them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "actors/config/run_config.hpp"
#include "base/status.hpp"
#include "env/grammar/canonical.hpp"
#include "env/grammar/composition.hpp"
#include "env/task/suite.hpp"
#include "env/task/task.hpp"

namespace quern::actors {

/// What the suite of a run asks of its evaluators; the defaults are theirs to choose.
struct suite_rules {
  std::string policy;                 ///< env/task/suite_policy.hpp; empty: no suite
  std::int64_t recheck_above_e2 = 0;  ///< 0: no suite
};

struct book_task {
  std::string id;
  std::shared_ptr<const env::task> task;
  env::composition composition;  ///< empty steps: a task that the grammar did not make
  bool held_out = false;
};

/// What must never be trained on: the share of compositions that the configuration holds out, and
/// the held-out half of the shipped quick suite. Corpus and runs must use the same one.
base::expected<env::held_out_spec> held_out_of(const run_config& config);

/// What tasks.suite names: the folder of a suite, a task file (env::suite_of_file), or tasks of
/// others for env.lane (env/task/find_tasks.hpp).
base::expected<env::suite> suite_of(const run_config& config);

/// Immutable after `make`; safe to share between threads.
class task_book {
 public:
  /// Generated: `tasks.count` compositions that are not held out, and `tasks.held_out_count` that
  /// are, the first distinct ones of the supply; says how far it is every 2 s. Suite: its members.
  /// Errors: a suite that cannot be read or wants another baseline than env.baseline, nothing left
  /// to train on, more tasks than the grammar gives or than can be drawn in half a minute.
  static base::expected<task_book> make(const run_config& config);

  [[nodiscard]] const std::vector<book_task>& tasks() const { return tasks_; }
  [[nodiscard]] const suite_rules& rules() const { return rules_; }
  /// Error: not_found, naming the id.
  [[nodiscard]] base::expected<const book_task*> find(const std::string& id) const;

 private:
  void add(env::task task, env::composition composition, bool held_out);
  suite_rules rules_;
  std::vector<book_task> tasks_;
  std::unordered_map<std::string, std::size_t> by_id_;
};

}  // namespace quern::actors
