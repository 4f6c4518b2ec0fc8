// The orchestrator from its first order to its end: whatever is lost on the way, the law holds and
// every step is made once.
#include "actors/defaults.hpp"
#include "base/file.hpp"
#include "support/caught_stderr.hpp"
#include "tests/actors/orchestrator/orchestrator_world.hpp"

using namespace quern;
using namespace quern::actors;
using test::check_end;
using test::fixture;
using test::weights_of;
using test::world;

TEST_CASE("a run goes to its end and everything issued is trained or dropped") {
  fixture f;
  int unjudged = 0, with_exemplars = 0;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    world w(f.config, *f.tasks, f.folder.path() / ("run" + std::to_string(seed)), true, seed);
    const auto end = w.go();
    REQUIRE(end);
    CHECK(end->finished);
    CHECK(w.head().version() == f.config.learner.steps);
    unjudged += w.unjudged;
    with_exemplars += w.with_exemplars;
    CHECK(w.samples_of_two_turns > 0);
    CHECK(w.results_checked == f.config.learner.steps);
    CHECK(w.masked_samples == 0);
    check_end(w, f.config.learner.steps);
    CHECK(w.head().close());
  }
  CHECK(unjudged > 0);
  CHECK(with_exemplars > 0);
}

TEST_CASE("the slot of a group that became too old goes to a new group at once") {
  fixture f;
  f.config.algorithm.groups_per_step = 1;
  f.config.actors.staleness = 1;
  f.config.learner.steps = 6;
  std::int64_t stale = 0;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    world w(f.config, *f.tasks, f.folder.path() / ("run" + std::to_string(seed)), true, seed);
    const auto end = w.go();
    REQUIRE(end);
    CHECK(end->finished);
    const auto dropped = w.head().rows().drop_reasons().value();
    if (const auto found = dropped.find("stale"); found != dropped.end()) stale += found->second;
    CHECK(w.head().close());
  }
  CHECK(stale > 0);
}

TEST_CASE("batches without a finite gradient are dropped with their reason, and the run goes on") {
  fixture f;
  world w(f.config, *f.tasks, f.folder.path() / "left out", true, 6);
  w.spoiled_batches = defaults::most_left_out - 1;
  std::optional<drained> end;
  std::vector<std::string> lines;
  {
    test::caught_stderr said(f.folder.path() / "said");
    end = w.go();
    lines = said.lines();
  }
  REQUIRE(end);
  CHECK(end->finished);
  CHECK(w.told);
  CHECK(w.head().version() == f.config.learner.steps);
  check_end(w, f.config.learner.steps);
  CHECK_FALSE(w.left_out.empty());
  CHECK(w.head().rows().drop_reasons()->at("non_finite") ==
        static_cast<std::int64_t>(w.left_out.size()));
  for (const sample_id sample : w.left_out)
    CHECK(w.head().rows().sample(sample)->state == storage::sample_state::dropped);
  // The reasons are on the terminal while the run goes on.
  CHECK(std::any_of(lines.begin(), lines.end(), [](const std::string& line) {
    return test::contains(line, "samples dropped since this start: non_finite ");
  }));
}

TEST_CASE("several in a row end the run, and a resumed one does not take them up again") {
  fixture f;
  const auto root = f.folder.path() / "ruined";
  std::set<sample_id> left_out;
  {
    world w(f.config, *f.tasks, root, true, 6);
    w.spoiled_batches = 1000;
    REQUIRE_FALSE(w.go());
    REQUIRE_FALSE(w.told);
    CHECK(test::contains(w.told.error().message, "3 batches in a row, the limit is 3"));
    CHECK(test::contains(w.told.error().message, "lower learner.learning_rate (it is 5e-05)"));
    CHECK(w.head().version() == 0);
    left_out = w.left_out;
    CHECK(left_out.size() >= 2 * 2 * 3);
  }  // nothing more is committed
  world w(f.config, *f.tasks, root, false, 7);
  for (const sample_id sample : left_out)
    CHECK(w.head().rows().sample(sample)->state == storage::sample_state::dropped);
  const auto end = w.go();
  REQUIRE(end);
  CHECK(end->finished);
  check_end(w, f.config.learner.steps);
}

TEST_CASE("weights that changed in a step that was left out end the run") {
  fixture f;
  world w(f.config, *f.tasks, f.folder.path() / "changed", true, 6);
  std::optional<train_batch> batch;
  w.on_batch = [&](const train_batch& one) { batch = one; };
  REQUIRE_FALSE(w.go(40));
  REQUIRE(batch);
  step_done done;
  done.incarnation = batch->incarnation;
  done.batch = batch->number;
  done.left_out = true;
  done.weights = {batch->incarnation, batch->from, weights_of(batch->from + 1), ""};
  const auto refused = w.head().on_step(done);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == base::errc::conflict);
}

TEST_CASE("what is too old in a sample is a segment that is not trained") {
  fixture f;
  f.config.actors.stale_groups = "mask_tokens";
  f.config.learner.steps = 8;
  world w(f.config, *f.tasks, f.folder.path() / "masked", true, 9);
  const auto end = w.go();
  REQUIRE(end);
  CHECK(end->finished);
  CHECK(w.masked_samples > 0);
  check_end(w, f.config.learner.steps);
}

TEST_CASE("segments that do not fit their tokens end the run with the sample and the numbers") {
  fixture f;
  auto run = storage::run_directory::create(f.folder.path() / "unfit", "quern_config: 2\n",
                                            base::json::object());
  REQUIRE(run);
  const auto head = orchestrator::open(f.config, *run, *f.tasks, "cpp-avx2");
  REQUIRE(head);
  (*head)->generators(1, 0);
  const auto orders = (*head)->advance();
  REQUIRE(orders);
  generated_sample made;
  made.incarnation = (*head)->incarnation();
  made.sample = orders->generate.at(0).samples.at(0);
  made.tokens = to_block<std::int32_t>({1, 2, 3});
  made.segments = single_turn(1, 1);
  made.log_probs = to_block<float>({-1});
  made.versions = {{0, 0, weights_of(0)}};
  const auto refused = (*head)->on_generated(made);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message ==
        fmt::format("sample {}: 2 segments cover 2 of 3 tokens", made.sample));
}

TEST_CASE("completions that control judges itself do not hide evaluators that judge nothing") {
  fixture f;
  world w(f.config, *f.tasks, f.folder.path() / "sick", true, 7);
  // One completion in ten cannot be read: there are never 256 failures without one in between.
  w.no_reference = true;
  CHECK_FALSE(w.go(5000));
  CHECK(w.given_up.find("no verdict") != std::string::npos);
}

TEST_CASE("stop drops the rest with a reason") {
  fixture f;
  world w(f.config, *f.tasks, f.folder.path() / "stopped", true, 6);
  REQUIRE_FALSE(w.go(9));
  w.head().drain(ending::stop);
  const auto end = w.go();
  REQUIRE(end);
  const auto counts = w.head().counts();
  CHECK(counts->law_holds());
  CHECK(counts->in_flight() == 0);
  CHECK(w.head().rows().drop_reasons()->count("stopped") == 1);
}

TEST_CASE("as many checkpoints stay as the configuration says") {
  fixture f;
  f.config.learner.steps = 12;
  f.config.storage.checkpoint_every_steps = 1;
  f.config.storage.keep_checkpoints = 4;
  const auto root = f.folder.path() / "kept";
  world w(f.config, *f.tasks, root, true, 5);
  REQUIRE(w.go());
  const storage::checkpoint_store store(root / "checkpoints");
  // A save that is under way lets a version go by, so that only the newest is known.
  CHECK(store.versions().size() == 4);
  CHECK(store.versions().front() == 12);
  CHECK(store.latest() == 12);
}

TEST_CASE("a prompt that is too long loses its exemplars, and a bare one its run") {
  fixture f;
  const auto length = prompt_length::make(f.config).value();
  const auto make = [&] { return prompter::make(f.config, "cpp-avx2").value(); };
  const book_task& task = f.tasks->tasks()[0];
  const std::string code(400, 'x');
  const std::vector<shown_exemplar> shown = {{1, {code, 150}}, {2, {code, 250}}};
  f.config.policy.max_prompt_tokens = 100'000;
  const made_prompt whole = make().render(task, shown);
  CHECK(whole.exemplars == std::vector<std::int64_t>{1, 2});
  const made_prompt bare = make().render(task, {});
  CHECK(length.of(bare.text) < length.of(whole.text));
  // The bound is inclusive.
  f.config.policy.max_prompt_tokens = length.of(whole.text);
  CHECK(make().render(task, shown).text == whole.text);
  f.config.policy.max_prompt_tokens = length.of(whole.text) - 1;
  const made_prompt cut = make().render(task, shown);
  CHECK(cut.text == bare.text);
  CHECK(cut.exemplars.empty());
  const std::vector<book_task> one = {task};
  f.config.policy.max_prompt_tokens = length.of(bare.text);
  CHECK(make().check(one));
  f.config.policy.max_prompt_tokens = length.of(bare.text) - 1;
  const auto refused = make().check(one);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message.find(task.task->name) != std::string::npos);
  // The run does not begin either.
  auto run = storage::run_directory::create(f.folder.path() / "short", "quern_config: 2\n",
                                            base::json::object());
  REQUIRE(run);
  const auto opened = orchestrator::open(f.config, *run, *f.tasks, "cpp-avx2");
  REQUIRE_FALSE(opened);
  CHECK(opened.error().message.find("policy.max_prompt_tokens") != std::string::npos);
}

TEST_CASE("more tasks than can be drawn are refused, not waited for") {
  run_config config;
  config.tasks.count = 1;
  config.tasks.held_out_count = 1000;
  for (const double share : {1e-6, 0.001}) {
    config.tasks.held_out_share = share;
    const auto made = task_book::make(config);
    REQUIRE_FALSE(made);
    CHECK(made.error().message.find("tasks.held_out_count = 1000") != std::string::npos);
    CHECK(made.error().message.find("the limit is 20000") != std::string::npos);
  }
}

TEST_CASE("candidates of lane cuda may have host code only where run and suite allow it") {
  const auto rules = [](const char* source, bool host_entry) {
    run_config config = test::small_run();
    config.env.lane = "cuda";
    config.env.host_entry = host_entry;
    config.tasks.source = source;
    config.tasks.suite = (test::source_dir() / "env/suites/cuda_quick").string();
    const auto made = task_book::make(config);
    REQUIRE_MESSAGE(made, (made ? "" : made.error().message));
    return made->rules().policy;
  };
  CHECK(rules("suite", false) == "none");
  CHECK(rules("suite", true) == "graphs,host_entry");
  CHECK(rules("generated", false) == "none");
  CHECK(rules("generated", true) == "host_entry");
}
