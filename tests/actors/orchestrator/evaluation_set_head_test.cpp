// One side of an evaluation set with generators that come, answer and go, without processes.
#include "actors/orchestrator/evaluation_set_head.hpp"

#include <algorithm>
#include <set>

#include "env/verdict/verdict.hpp"
#include "support/test.hpp"
#include "tests/actors/orchestrator/orchestrator_fixture.hpp"

using namespace quern;
using namespace quern::actors;

namespace {

/// An evaluation set of six prompts whose kernels to be shown are timed, and whose answers are no
/// kernels: control judges them itself.
struct asked_evaluation_set {
  test::fixture f;
  base::steady_clock clock;
  role_board roles{clock};
  std::optional<prompter> prompts;
  std::optional<evaluation_set> questions;
  std::optional<evaluation_set_head> head;
  std::vector<std::size_t> progress;
  std::vector<std::pair<std::size_t, std::size_t>> timings;

  asked_evaluation_set() {
    f.config.policy.max_prompt_tokens = 100'000;
    f.config.observe.evaluation_set_train = 6;
    f.config.observe.evaluation_set_held_out = 0;
    prompts.emplace(prompter::make(f.config, "cpp-avx2").value());
    questions.emplace(evaluation_set::make(f.config, *f.tasks, *prompts).value());
    evaluation_set_side_setup setup;
    setup.model = "the first weights";
    setup.progress = [this](std::size_t answered) { progress.push_back(answered); };
    setup.timing = [this](std::size_t timed, std::size_t all) { timings.emplace_back(timed, all); };
    head.emplace(setup, *questions, worker_book({}, step_watch({}, clock), roles, 0));
    join(9, 6);
    const auto seed_variants = head->take_effects();
    CHECK(seed_variants.size() == questions->seed_variants().size());
    head->worker_gone(9);
    for (const head_effect& effect : seed_variants) {
      const auto& order = std::get<evaluate_sample>(std::get<to_dispatch>(effect).message);
      env::verdict timed;
      timed.kind = env::verdict_kind::ok;
      timed.speedup_e2 = 150;
      sample_verdict verdict;
      verdict.sample = order.sample;
      verdict.counts = true;
      verdict.json = base::dump(env::to_json(timed));
      head->on_verdict(verdict);
    }
  }

  /// What the generator was sent so far, by the effects since the last call.
  std::map<worker_id, std::vector<generate_group>> sent() {
    std::map<worker_id, std::vector<generate_group>> found;
    for (head_effect& effect : head->take_effects()) {
      if (auto* order = std::get_if<to_generator>(&effect))
        found[order->who].push_back(std::get<generate_group>(order->message));
      if (auto* news = std::get_if<to_supervisor>(&effect))
        if (auto* last = std::get_if<drained>(&news->message)) end = *last;
    }
    return found;
  }
  void gives_room(worker_id who, std::int64_t groups) {
    generation_credit credit;
    credit.granted = groups;
    head->on_credit(who, credit);
  }
  void join(worker_id who, std::int64_t room) {
    CHECK(head->generator_came(who, "unix:/x").checkpoint == "the first weights");
    gives_room(who, room);
    head->on_installed(who, {0, 0, {}});
  }
  void answer(worker_id who, sample_id sample) {
    generated_sample made;
    made.sample = sample;
    made.text = "no kernel";
    head->on_generated(who, made);
  }
  std::optional<drained> end;
};

}  // namespace

TEST_CASE(
    "two generators share the questions; what one that is gone had not answered is asked again") {
  asked_evaluation_set p;
  CHECK(p.head->learner() == nullptr);
  REQUIRE(p.sent().empty());
  p.join(1, 3);
  p.join(2, 3);
  auto first = p.sent();
  REQUIRE(first[1].size() == 3);
  REQUIRE(first[2].size() == 3);
  p.answer(1, first[1][0].samples[0]);
  CHECK(p.progress == std::vector<std::size_t>{1});
  p.head->worker_gone(1);
  // Nobody has room.
  CHECK(p.sent().empty());
  p.gives_room(2, 6);
  auto again = p.sent();
  REQUIRE(again[2].size() == 2);
  std::set<sample_id> open;
  for (const generate_group& group : again[2]) {
    const auto same =
        std::find_if(first[1].begin(), first[1].end(),
                     [&](const generate_group& one) { return one.samples == group.samples; });
    REQUIRE(same != first[1].end());
    CHECK(same->prompt == group.prompt);
    CHECK(same->seed == group.seed);
    open.insert(group.samples[0]);
  }
  CHECK_FALSE(open.contains(first[1][0].samples[0]));
  for (const generate_group& group : first[2])
    p.answer(2, group.samples[0]);
  for (const sample_id sample : open) {
    p.answer(2, sample);
    // Another completion of the same question counts nothing.
    p.answer(2, sample);
  }
  CHECK(p.progress.size() == 6);
  CHECK(p.questions->complete(evaluation_set_side::first));
  p.sent();
  REQUIRE(p.end);
  CHECK(p.end->finished);
  CHECK(p.head->ended());
}

TEST_CASE("the kernels that prompts show are counted while they are timed, from none to all") {
  asked_evaluation_set p;
  const std::size_t all = p.questions->seed_variants().size();
  REQUIRE(all > 0);
  std::vector<std::pair<std::size_t, std::size_t>> counted;
  for (std::size_t k = 0; k <= all; ++k)
    counted.emplace_back(k, all);
  CHECK(p.timings == counted);
}

TEST_CASE("questions of a generator that lives are asked once") {
  asked_evaluation_set p;
  p.join(1, 6);
  CHECK(p.sent()[1].size() == 6);
  p.join(2, 6);
  p.head->worker_gone(3);
  CHECK(p.sent().empty());
}

TEST_CASE("an evaluation set that is to end says so at once, and is not finished") {
  asked_evaluation_set p;
  p.join(1, 6);
  p.head->on_drain({static_cast<std::uint8_t>(ending::pause)});
  p.head->on_drain({static_cast<std::uint8_t>(ending::pause)});
  p.sent();
  REQUIRE(p.end);
  CHECK_FALSE(p.end->finished);
  CHECK(p.head->ended());
}
