// Held-out tasks that come after those of another set.
#include "actors/orchestrator/task_book.hpp"

#include <algorithm>
#include <set>

#include "env/grammar/canonical.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::test;

namespace {

struct drawn_sets {
  std::set<std::string> trained, held_out;
  std::set<base::hash128> skeletons;  ///< of held-out tasks
};

drawn_sets sets_of(std::int64_t held_out_count, std::int64_t skip) {
  actors::run_config config;
  config.tasks.count = 6;
  config.tasks.held_out_count = held_out_count;
  config.tasks.held_out_skip = skip;
  const auto book = actors::task_book::make(config).value();
  drawn_sets made;
  for (const actors::book_task& task : book.tasks()) {
    (task.held_out ? made.held_out : made.trained).insert(task.id);
    if (task.held_out) made.skeletons.insert(env::skeleton_hash(task.composition));
  }
  return made;
}

}  // namespace

TEST_CASE("held-out tasks after others share no steps with them, and what is trained on stays") {
  const drawn_sets first = sets_of(12, 0), more = sets_of(20, 0), later = sets_of(8, 12);
  REQUIRE(first.held_out.size() == 12);
  REQUIRE(later.held_out.size() == 8);
  CHECK(later.trained == first.trained);
  for (const base::hash128& one : later.skeletons)
    CHECK_FALSE(first.skeletons.contains(one));
  // Not only other tasks of the same compositions, with other constants: a longer first set has
  // some.
  CHECK(std::ranges::includes(more.held_out, first.held_out));
  CHECK(sets_of(8, 12).held_out == later.held_out);
}

TEST_CASE("passing over held-out tasks changes nothing where none is held out") {
  CHECK(sets_of(0, 12).held_out.empty());
  CHECK(sets_of(0, 12).trained == sets_of(0, 0).trained);
}

TEST_CASE("more held-out tasks than the grammar gives in time are refused with both counts") {
  actors::run_config config;
  config.tasks.held_out_skip = 5000;
  config.tasks.held_out_count = 5000;
  config.tasks.held_out_share = 0.01;
  const auto made = actors::task_book::make(config);
  REQUIRE_FALSE(made);
  CHECK(contains(made.error().message,
                 "tasks.held_out_count = 5000 after tasks.held_out_skip = 5000"));
}
