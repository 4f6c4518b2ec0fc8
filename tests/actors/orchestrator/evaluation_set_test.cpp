// The figures of an evaluation set: paired, and honest about chance.
#include "actors/orchestrator/evaluation_set.hpp"

#include <map>
#include <set>

#include <fmt/format.h>

#include "base/random.hpp"
#include "env/verdict/verdict.hpp"
#include "support/test.hpp"
#include "tests/actors/orchestrator/orchestrator_fixture.hpp"
#include "tests/storage/ledger_support.hpp"

using namespace quern;
using namespace quern::actors;
using test::must;

namespace {

base::json answer_of(env::verdict_kind kind, std::optional<double> reward) {
  env::verdict v;
  v.kind = kind;
  if (kind == env::verdict_kind::ok) v.speedup_e2 = 150;
  base::json told = {{"verdict", env::to_json(v)}, {"source", "int x;"}, {"reward", nullptr}};
  if (reward) told["reward"] = *reward;
  return told;
}

}  // namespace

TEST_CASE("prompts of the evaluation set show as many kernels as replay.exemplars_shown, or none") {
  for (const std::int64_t shown : {1, 2, 3}) {
    test::fixture f;
    f.config.policy.max_prompt_tokens = 100'000;
    f.config.observe.evaluation_set_train = 6;
    f.config.observe.evaluation_set_held_out = 0;
    f.config.replay.seed_variants = 4;
    f.config.replay.exemplars_shown = shown;
    const auto prompts = prompter::make(f.config, "cpp-avx2").value();
    const auto ask = [&](std::size_t untimed) {
      evaluation_set asked = evaluation_set::make(f.config, *f.tasks, prompts).value();
      env::verdict right;
      right.kind = env::verdict_kind::ok;
      right.speedup_e2 = 150;
      std::map<std::string, std::size_t> of_task;
      std::set<std::string> sources;
      for (const evaluate_sample& order : asked.seed_variants()) {
        if (of_task[order.task]++ >= untimed) asked.scored(order.sample, right);
        sources.insert(order.source);
      }
      for (const auto& [task, count] : of_task)
        CHECK(count == static_cast<std::size_t>(shown));
      asked.freeze();
      std::map<std::size_t, int> by_count;
      for (const generate_group& question : asked.questions()) {
        std::size_t count = 0;
        for (const std::string& source : sources)
          count += question.prompt.find(source) == std::string::npos ? 0 : 1;
        ++by_count[count];
      }
      return by_count;
    };
    const std::map<std::size_t, int> half{{0, 3}, {static_cast<std::size_t>(shown), 3}};
    CHECK(ask(0) == half);
    // One of them could not be timed.
    CHECK(ask(1) == std::map<std::size_t, int>{{0, 6}});
  }
}

namespace {

/// For each prompt of an evaluation set of `prompts` prompts over six training tasks: the seed
/// variants that its text has, by their number within the task. Seed variant k of a task was timed
/// at a speed-up of 1 + k, but for `untimed`.
std::vector<std::vector<std::size_t>> seed_variants_in_prompts(test::fixture& f,
                                                               std::int64_t prompts,
                                                               std::size_t untimed = 99) {
  f.config.policy.max_prompt_tokens = 100'000;
  f.config.observe.evaluation_set_train = prompts;
  f.config.observe.evaluation_set_held_out = 0;
  const auto made = must(prompter::make(f.config, "cpp-avx2"));
  evaluation_set asked = must(evaluation_set::make(f.config, *f.tasks, made));
  std::map<std::string, std::vector<std::string>> sources;
  for (const evaluate_sample& order : asked.seed_variants()) {
    auto& of_task = sources[order.task];
    env::verdict right;
    right.kind = env::verdict_kind::ok;
    right.speedup_e2 = 100 + 100 * static_cast<std::int64_t>(of_task.size());
    if (of_task.size() != untimed) asked.scored(order.sample, right);
    of_task.push_back(order.source);
  }
  asked.freeze();
  std::vector<std::vector<std::size_t>> shown;
  for (const generate_group& question : asked.questions()) {
    auto& numbers = shown.emplace_back();
    for (const auto& [task, of_task] : sources)
      for (std::size_t k = 0; k < of_task.size(); ++k)
        if (question.prompt.find(of_task[k]) != std::string::npos) numbers.push_back(k);
  }
  return shown;
}

}  // namespace

TEST_CASE("observe.evaluation_set_exemplars_share of the prompts show exemplars, evenly spread") {
  for (const auto& [share, wanted] :
       std::map<double, std::size_t>{{0, 0}, {0.25, 3}, {0.5, 6}, {1, 12}}) {
    test::fixture f;
    f.config.observe.evaluation_set_exemplars_share = share;
    std::size_t showing = 0;
    for (const auto& numbers : seed_variants_in_prompts(f, 12))
      showing += numbers.empty() ? 0 : 1;
    CHECK(showing == wanted);
  }
}

TEST_CASE(
    "with observe.evaluation_set_exemplars_fastest a prompt shows the fastest of all seed "
    "variants") {
  using numbers = std::vector<std::size_t>;
  const auto shown = [](bool fastest, std::size_t untimed) {
    test::fixture f;
    f.config.replay.seed_variants = 4;
    f.config.observe.evaluation_set_exemplars_share = 1;
    f.config.observe.evaluation_set_exemplars_fastest = fastest;
    const auto all = seed_variants_in_prompts(f, 6, untimed);
    CHECK(all.size() == 6);
    for (const numbers& one : all)
      CHECK(one == all.front());
    return all.front();
  };
  CHECK(shown(true, 99) == numbers{2, 3});
  CHECK(shown(true, 3) == numbers{1, 2});
  // Control: without it the first two are all that is measured, and one of them alone is not shown.
  CHECK(shown(false, 99) == numbers{0, 1});
  CHECK(shown(false, 1).empty());
}

TEST_CASE("gain is the ratio of means") {
  evaluation_set_half half{{1, 0, 1, 0}, {2, 0, 1, 0}};
  CHECK(half.gain() == doctest::Approx(1.5));
  CHECK(evaluation_set_half{}.gain() == 0);
}

TEST_CASE("an evaluation set against itself gains nothing, whatever the draw") {
  base::random_stream random(1, "panel test");
  evaluation_set_half half;
  for (int i = 0; i < 64; ++i) {
    half.first.push_back(random.chance(0.5) ? random.uniform() * 3 : 0);
  }
  half.last = half.first;
  CHECK(half.gain() == doctest::Approx(1));
  CHECK(half.interval(1).low == doctest::Approx(1));
  CHECK(half.interval(1).high == doctest::Approx(1));
}

TEST_CASE("the interval tells a gain from luck") {
  base::random_stream random(2, "panel test");
  evaluation_set_half lucky;
  evaluation_set_half sure;
  for (int i = 0; i < 64; ++i) {
    const double before = random.chance(0.5) ? 1 : 0;
    lucky.first.push_back(before);
    lucky.last.push_back(random.chance(0.52) ? 1 : 0);
    sure.first.push_back(before);
    sure.last.push_back(before * 2 + 0.1);
  }
  CHECK(lucky.interval(1).low < 1);
  CHECK(lucky.interval(1).high > 1);
  CHECK(sure.interval(1).low > 1.5);
  CHECK(sure.interval(1).low < sure.gain());
  CHECK(sure.interval(1).high > sure.gain());
}

TEST_CASE("what an evaluation told nothing about is no reward of 0, and is said") {
  run_config config;
  config.tasks.count = 2;
  config.tasks.held_out_count = 0;
  const auto tasks = must(task_book::make(config));
  const std::string id = tasks.tasks()[0].id;
  using enum env::verdict_kind;
  base::json items = base::json::array();
  for (const auto& [before, after] : {std::pair{answer_of(ok, 1.5), answer_of(ok, 3)},
                                      {answer_of(ok, 1.5), answer_of(noisy, {})},
                                      {answer_of(infra_error, {}), answer_of(ok, 1.5)},
                                      {answer_of(wrong_value, 0), answer_of(ok, 1.5)}})
    items.push_back({{"task", id}, {"held_out", false}, {"first", before}, {"last", after}});
  const base::json written = {{"quern_evaluation_set", 1}, {"items", items}};
  const auto read = must(evaluation_set::read(config, tasks, written));
  const evaluation_set_half half = read.train();
  CHECK(half.first == std::vector<double>{1.5, 0});
  CHECK(half.last == std::vector<double>{3, 1.5});
  CHECK(half.left_out == 2);
  CHECK(test::contains(read.table(), "2 of 8 answers (infra_error 1, noisy 1)"));
  // Two of the first weights' answers are right and three of the last ones', all at 1.50.
  const std::string line =
      fmt::format("{:<34} {:>5}  {:>6} {:>6}  {:>8} {:>8}  {:>6}\n", tasks.tasks()[0].task->name, 4,
                  2, 3, "1.50", "1.50", "1.50");
  CHECK(test::contains(read.table(), line));
  CHECK(test::contains(read.table(), "asked   first   last     first     last    best\n"));
  const base::json again = read.to_json();
  CHECK(again["items"][1]["last"]["reward"].is_null());
  CHECK(must(evaluation_set::read(config, tasks, again)).train().left_out == 2);
  // A run of schema 1 called it otherwise; a later format is refused.
  const base::json earlier = {{"quern_panel", 1}, {"items", items}};  // schema 1
  CHECK(must(evaluation_set::read(config, tasks, earlier)).train().left_out == 2);
  CHECK_FALSE(evaluation_set::read(config, tasks, {{"quern_evaluation_set", 2}, {"items", items}}));
}

TEST_CASE("answers to prompts with exemplars of another task are a control, in no other figure") {
  run_config config;
  config.tasks.count = 2;
  config.tasks.held_out_count = 0;
  const auto tasks = must(task_book::make(config));
  const auto item = [&](bool swapped, std::int64_t speedup_e2) {
    base::json answer = answer_of(env::verdict_kind::ok, static_cast<double>(speedup_e2) / 100);
    answer["verdict"]["speedup_e2"] = speedup_e2;
    return base::json{{"task", tasks.tasks()[0].id},
                      {"held_out", false},
                      {"exemplars", true},
                      {"swapped", swapped},
                      {"shown", {"aa", "bb"}},
                      {"best_own", 200},
                      {"first", answer},
                      {"last", answer}};
  };
  const base::json written = {{"quern_evaluation_set", 1},
                              {"items", {item(false, 300), item(true, 100)}}};
  const auto read = must(evaluation_set::read(config, tasks, written));
  CHECK(read.train().last == std::vector<double>{3});
  CHECK(read.use(evaluation_set_side::last, false, false).improved() == 1);
  CHECK(read.use(evaluation_set_side::last, false, false).over_best() == doctest::Approx(1.5));
  CHECK(read.use(evaluation_set_side::last, false, true).improved() == 0);
  CHECK(read.use(evaluation_set_side::last, false, true).judged() == 1);
  CHECK(read.use(evaluation_set_side::last, true, false).judged() == 0);
  const auto again = must(evaluation_set::read(config, tasks, read.to_json()));
  CHECK(again.to_json() == read.to_json());
}
