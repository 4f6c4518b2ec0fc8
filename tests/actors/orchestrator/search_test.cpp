// A run with a fixed policy: it spends its budget exactly, shows what it found to later prompts,
// and goes on where it was, whatever is lost on the way.
#include <algorithm>
#include <map>
#include <set>

#include "actors/orchestrator/lineage.hpp"
#include "actors/orchestrator/search_start.hpp"
#include "tests/actors/orchestrator/orchestrator_world.hpp"

using namespace quern;
using namespace quern::actors;
using test::check_after_deaths;
using test::fixture;
using test::world;

namespace {

struct search_fixture : fixture {
  search_fixture() {
    config.stage = "search";
    config.observe.evaluation_set = false;
    config.run.budget_evaluations = 38;  // no multiple of the group size: 4
  }
};

/// The budget is spent exactly, and every sample ended as it should.
void check_spent(world& w, const run_config& config) {
  const auto counts = w.head().counts();
  REQUIRE(counts);
  CHECK(counts->law_holds());
  CHECK(counts->in_flight() == 0);
  CHECK(counts->of(storage::sample_state::trained) == 0);
  CHECK(w.head().rows().audit());
  CHECK(w.head().version() == 0);
  CHECK(w.steps_made.empty());
  CHECK(w.head().search()->spent() == config.run.budget_evaluations);
  const auto reasons = w.head().rows().drop_reasons().value();
  const std::int64_t noisy = reasons.contains("noisy") ? reasons.at("noisy") : 0;
  const std::int64_t judged = w.head().rows().judged().value();
  CHECK(judged + noisy == config.run.budget_evaluations);
  CHECK(evaluations_spent(w.head().rows()) == config.run.budget_evaluations);
}

/// What a new process would know is what this one knows, but for when a kernel was found.
void check_remembered(world& w, const run_config& config) {
  const auto again =
      search_so_far(config, w.head().rows(), w.head().variants(), w.head().search()->budget());
  REQUIRE(again);
  CHECK(again->spent() == w.head().search()->spent());
  CHECK(again->verdicts() == w.head().search()->verdicts());
  REQUIRE(again->best().size() == w.head().search()->best().size());
  for (const auto& [task, kernel] : w.head().search()->best()) {
    CHECK(again->best().at(task).speedup_e2 == kernel.speedup_e2);
    const auto best = w.head().variants().best({task, "cpp-avx2", config.env.protocol}, INT64_MAX,
                                               storage::variants_of::the_policy);
    REQUIRE(best);
    REQUIRE(best->has_value());
    CHECK((*best)->speedup_e2 == kernel.speedup_e2);
  }
}

}  // namespace

TEST_CASE("a search spends its budget to the last evaluation and trains nothing") {
  search_fixture f;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    world w(f.config, *f.tasks, f.folder.path() / ("run" + std::to_string(seed)), true, seed);
    std::size_t most = 0;
    w.on_order = [&](const generate_group& group) { most = std::max(most, group.samples.size()); };
    const auto end = w.go();
    REQUIRE(end);
    CHECK(end->finished);
    CHECK(most == 4);
    check_spent(w, f.config);
    check_remembered(w, f.config);
    CHECK(w.head().rows().drop_reasons()->at("no_learner") > 0);
    CHECK_FALSE(w.head().wants_verdicts());
    CHECK(w.head().close());
  }
}

TEST_CASE("no more groups are under way than the window has slots") {
  search_fixture f;
  f.config.actors.staleness = 1;
  f.config.algorithm.groups_per_step = 1;
  world w(f.config, *f.tasks, f.folder.path() / "window", true, 3);
  std::size_t most = 0;
  w.on_order = [&](const generate_group&) { most = std::max(most, w.head().in_flight()); };
  REQUIRE(w.go());
  CHECK(most == 2 * 4);
}

TEST_CASE("later prompts show what was found, and each variant knows what its prompt showed") {
  search_fixture f;
  f.config.replay.without_exemplars_share = 0;
  f.config.replay.seed_variants = 0;
  f.config.run.budget_evaluations = 80;
  world w(f.config, *f.tasks, f.folder.path() / "shown", true, 4);
  REQUIRE(w.go());
  std::size_t with_parents = 0;
  for (const storage::variant_key& key : w.head().variants().keys()) {
    const auto best =
        w.head().variants().best(key, INT64_MAX, storage::variants_of::the_policy).value();
    REQUIRE(best);
    for (const std::int64_t parent : best->parents) {
      ++with_parents;
      CHECK(w.head().variants().get(parent)->sample < best->sample);
    }
  }
  CHECK(with_parents > 0);
  // Without exemplars there are none: what the comparison of quern optimize rests on.
  f.config.replay.exemplars = "none";
  world alone(f.config, *f.tasks, f.folder.path() / "alone", true, 4);
  REQUIRE(alone.go());
  check_spent(alone, f.config);
  for (const storage::variant_key& key : alone.head().variants().keys())
    CHECK(alone.head().variants().best(key, INT64_MAX).value()->parents.empty());
}

TEST_CASE("a prompt shows as many kernels as replay.exemplars_shown says, or none") {
  for (const std::int64_t shown : {1, 2, 3}) {
    search_fixture f;
    f.config.replay.without_exemplars_share = 0;
    f.config.replay.exemplars_shown = shown;
    f.config.replay.seed_variants = 3;
    f.config.run.budget_evaluations = 80;
    world w(f.config, *f.tasks, f.folder.path() / "shown", true, 4);
    std::set<group_id> groups;
    w.on_order = [&](const generate_group& order) { groups.insert(order.group); };
    REQUIRE(w.go());
    std::size_t with = 0;
    for (const group_id id : groups) {
      const std::size_t count = w.head().rows().group(id).value().exemplars.size();
      CHECK((count == 0 || count == static_cast<std::size_t>(shown)));
      with += count > 0 ? 1 : 0;
    }
    CHECK(with > groups.size() / 2);
  }
}

TEST_CASE("the lineage of the best has every ancestor once, parents before children") {
  search_fixture f;
  f.config.replay.without_exemplars_share = 0;
  f.config.run.budget_evaluations = 120;
  f.config.tasks.count = 1;
  const auto tasks = task_book::make(f.config);
  REQUIRE(tasks);
  world w(f.config, *tasks, f.folder.path() / "lineage", true, 11);
  REQUIRE(w.go());
  const storage::variant_key key{tasks->tasks()[0].id, "cpp-avx2", f.config.env.protocol};
  const auto fastest = fastest_of_run(w.head().variants(), w.head().rows(), key, 3);
  REQUIRE(fastest);
  REQUIRE(fastest->size() == 3);
  for (std::size_t i = 1; i < 3; ++i)
    CHECK((*fastest)[i - 1].kernel.speedup_e2 >= (*fastest)[i].kernel.speedup_e2);
  const auto chain = lineage_of(w.head().variants(), w.head().rows(), fastest->front().variant);
  REQUIRE(chain);
  const lineage& all = *chain;
  CHECK(all.back().variant == fastest->front().variant);
  CHECK(all.back().kernel.speedup_e2 == w.head().search()->best().at(key.task).speedup_e2);
  CHECK(all.back().generation >= 2);
  std::map<std::int64_t, std::int64_t> generations;
  for (const ancestor& one : all) {
    CAPTURE(one.variant);
    std::int64_t highest = 0;
    for (const std::int64_t parent : one.parents) {
      REQUIRE(generations.contains(parent));
      highest = std::max(highest, generations.at(parent));
    }
    CHECK(generations.emplace(one.variant, one.generation).second);
    // Two seed variants were brought along; everything else is of a sample.
    const bool brought = one.kernel.sample == 0;
    CHECK(one.generation == (brought ? 0 : highest + 1));
    CHECK((one.group == 0) == brought);
    CHECK_FALSE(one.source.empty());
  }
  const auto told = to_json(all);
  CHECK(told["best"] == all.back().variant);
  CHECK(told["variants"].size() == all.size());
  const std::string text = text_of(all);
  CHECK(static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) == all.size() + 1);
  // Another task has none.
  CHECK(
      fastest_of_run(w.head().variants(), w.head().rows(), {"other", "cpp-avx2", "p"}, 3)->empty());
}

TEST_CASE("a search that dies at any moment goes on and spends no evaluation twice") {
  search_fixture f;
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    CAPTURE(seed);
    const auto root = f.folder.path() / ("killed" + std::to_string(seed));
    check_after_deaths(f, root, seed, [&](world& w) {
      check_spent(w, f.config);
      check_remembered(w, f.config);
    });
  }
}

TEST_CASE("a paused search keeps what is in flight, a stopped one drops it; both go on") {
  search_fixture f;
  for (const ending how : {ending::pause, ending::stop}) {
    const auto root = f.folder.path() / (how == ending::pause ? "paused" : "stopped");
    {
      world w(f.config, *f.tasks, root, true, 8);
      REQUIRE_FALSE(w.go(9));
      w.head().drain(how);
      const auto end = w.go();
      REQUIRE(end);
      CHECK_FALSE(end->finished);
      CHECK((w.head().counts()->in_flight() > 0) == (how == ending::pause));
      CHECK(w.head().close());
    }
    world w(f.config, *f.tasks, root, false, 9);
    const auto end = w.go();
    REQUIRE(end);
    CHECK(end->finished);
    check_spent(w, f.config);
  }
}

TEST_CASE("a search goes on with a larger budget, and a smaller one ends it") {
  search_fixture f;
  const auto root = f.folder.path() / "more";
  {
    world w(f.config, *f.tasks, root, true, 5);
    REQUIRE(w.go());
    CHECK(w.head().close());
  }
  f.config.run.budget_evaluations = 60;
  {
    world w(f.config, *f.tasks, root, false, 6);
    REQUIRE(w.go());
    check_spent(w, f.config);
    CHECK(w.head().close());
  }
  f.config.run.budget_evaluations = 10;
  world w(f.config, *f.tasks, root, false, 7);
  const auto end = w.go(2);
  REQUIRE(end);
  CHECK(end->finished);
  CHECK(w.head().search()->spent() == 60);
}

TEST_CASE("what evaluators cannot judge spends nothing, and ends the run when it does not stop") {
  search_fixture f;
  world w(f.config, *f.tasks, f.folder.path() / "sick", true, 7);
  w.no_reference = true;
  CHECK_FALSE(w.go(5000));
  CHECK(test::contains(w.given_up, "no verdict"));
  const auto counts = w.head().counts().value();
  CHECK(w.head().search()->verdicts().at("infra_error") >= 256);
  CHECK(w.head().search()->spent() < f.config.run.budget_evaluations);
  CHECK(counts.law_holds());
}

TEST_CASE("a run with a learner has no search and drops nothing for want of one") {
  fixture f;
  world w(f.config, *f.tasks, f.folder.path() / "learns", true, 5);
  REQUIRE(w.go());
  CHECK(w.head().search() == nullptr);
  CHECK_FALSE(w.head().rows().drop_reasons()->contains("no_learner"));
  test::check_end(w, f.config.learner.steps);
}
