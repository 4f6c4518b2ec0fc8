// Which samples are shown, and how a list of them reads.
#include "actors/inspect/sample_choice.hpp"

#include "actors/inspect/sample_list.hpp"
#include "support/written_run.hpp"

using namespace quern;
using namespace quern::actors;
using test::contains;

namespace {

struct choosing {
  base::temp_folder folder = std::move(base::temp_folder::make("choice").value());
  test::written_run run{folder.path() / "run"};
  choosing() { run.open(); }

  [[nodiscard]] base::expected<chosen_samples> ask(const sample_choice& choice, int page = 2) {
    const auto reader = storage::sample_reader::open(run.folder() / "run.db", page);
    REQUIRE(reader);
    return choose_samples(*reader, choice);
  }
  std::vector<std::int64_t> ids(const sample_choice& choice, int page = 2) {
    const auto chosen = ask(choice, page);
    REQUIRE_MESSAGE(chosen, (chosen ? "" : chosen.error().message));
    std::vector<std::int64_t> found;
    for (const auto& one : chosen->samples)
      found.push_back(one.row.id);
    return found;
  }
};

using numbers = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("without a choice the newest step is shown, before the first step the newest samples") {
  choosing f;
  CHECK(f.ids({}).empty());
  f.run.issue("abs", 3);
  CHECK(f.ids({.limit = 2}) == numbers{2, 3});
  CHECK(f.ask({.limit = 2})->left_out == 1);
  CHECK(f.ids({.limit = 3}) == numbers{1, 2, 3});
  CHECK(f.ask({.limit = 3})->left_out == 0);
  choosing two;
  two.run.write_two_steps();
  CHECK(two.ids({}) == numbers{3, 4});
  CHECK(two.ask({})->step == 2);
}

TEST_CASE("samples are chosen by step, task and verdict, and ranked by reward") {
  choosing f;
  f.run.write_two_steps();
  using order = sample_choice::order;
  for (const int page : {1, 2, 256}) {
    CAPTURE(page);
    CHECK(f.ids({.step = 1}, page) == numbers{1, 2});
    CHECK(f.ids({.task = "abs"}, page) == numbers{1, 2});
    CHECK(f.ids({.task = "relu@00000000000000000000000000000001"}, page) == numbers{3, 4, 5, 6, 7});
    CHECK(f.ids({.task = "relu", .limit = 2}, page) == numbers{6, 7});
    CHECK(f.ids({.verdict = env::verdict_kind::wrong_value}, page) == numbers{2});
    CHECK(f.ids({.verdict = env::verdict_kind::ok}, page) == numbers{1, 3, 4, 5});
    CHECK(f.ids({.verdict = env::verdict_kind::noisy}, page).empty());
    CHECK(f.ids({.by = order::best}, page) == numbers{4, 1, 3, 2});
    CHECK(f.ids({.by = order::best, .limit = 1}, page) == numbers{4});
    CHECK(f.ids({.by = order::worst, .limit = 2}, page) == numbers{2, 3});
    CHECK(f.ids({.step = 2, .by = order::worst}, page) == numbers{3, 4});
    CHECK(f.ids({.task = "abs", .verdict = env::verdict_kind::ok, .by = order::best}, page) ==
          numbers{1});
  }
  CHECK(f.ask({.by = order::best, .limit = 1})->left_out == 3);
}

TEST_CASE("of equal rewards the faster kernel is better") {
  choosing f;
  const auto ids = f.run.issue("abs", 3);
  for (const std::int64_t id : ids) {
    f.run.generate(id, "x");
    f.run.judge(id, env::verdict_kind::ok, id == 2 ? 900 : 300);
    f.run.admit(id, 3);
  }
  CHECK(f.ids({.by = sample_choice::order::best}) == numbers{2, 1, 3});
  CHECK(f.ids({.by = sample_choice::order::worst}) == numbers{1, 3, 2});
}

TEST_CASE("a step or a task that is not there is an error that says what there is") {
  choosing f;
  const auto early = f.ask({.step = 1});
  REQUIRE_FALSE(early);
  CHECK(contains(early.error().message, "no gradient step of this run has used samples yet"));
  f.run.write_two_steps();
  const auto late = f.ask({.step = 3});
  REQUIRE_FALSE(late);
  CHECK(late.error().message == "no step 3: this run has made the steps 1 .. 2");
  const auto near = f.ask({.task = "rellu"});
  REQUIRE_FALSE(near);
  CHECK(contains(near.error().message, "did you mean 'relu'?"));
  CHECK(contains(near.error().message, "has issued abs, relu"));
  const auto far = f.ask({.task = "matrix_product"});
  REQUIRE_FALSE(far);
  CHECK_FALSE(contains(far.error().message, "did you mean"));
}

TEST_CASE("a list says groups, verdicts, rewards and what became of each") {
  choosing f;
  f.run.write_two_steps();
  const std::string text = list_text(*f.ask({.task = "relu"}), nullptr);
  CAPTURE(text);
  CHECK(contains(text, "5 samples of 2 groups: 3 ok\n"));
  CHECK(contains(text, "group 2, task relu, mean reward 0.5000 of 2 samples\n"));
  CHECK(contains(text, "group 3, task relu, no rewards yet\n"));
  CHECK(contains(text,
                 "ok 0.90x                              0.1000  0-1        used by step 2, no "
                 "checkpoint yet\n"));
  CHECK(contains(text, "dropped (stale)\n"));
  CHECK(contains(text,
                 "       7  -                                          -  -          waits for a "
                 "generator\n"));
  CHECK_FALSE(contains(text, "third"));
  const std::string best =
      list_text(*f.ask({.by = sample_choice::order::best, .limit = 1}), nullptr);
  CAPTURE(best);
  CHECK(contains(best, "used by step 2, no checkpoint yet, task relu\n"));
  CHECK(contains(best, "3 more: --limit N shows N samples\n"));
}

TEST_CASE(
    "completions stand below their samples; one that is lost is said, and the rest is shown") {
  choosing f;
  f.run.write_two_steps();
  const auto chosen = f.ask({.step = 1});
  const auto& lost = chosen->samples.front().row;
  REQUIRE(std::filesystem::remove(f.run.blobs().path_of(*lost.tokens_hash)));
  const std::string text = list_text(*chosen, &f.run.blobs());
  CAPTURE(text);
  CHECK_FALSE(contains(text, "first\n"));
  CHECK(contains(text, "--- sample 1: "));
  CHECK(contains(text, "--- sample 2 ---\nsecond\n"));
  const auto json = list_json(*chosen, &f.run.blobs());
  CHECK(json["samples"][0].contains("text_lost"));
  CHECK(json["samples"][1]["text"] == "second\n");
}

TEST_CASE("completions of a group stand side by side where the terminal is wide enough") {
  choosing f;
  f.run.write_two_steps();
  const auto chosen = f.ask({.step = 1});
  const std::string wide = list_text(*chosen, &f.run.blobs(), 130);
  CAPTURE(wide);
  // Lines first, then both completions, in columns of 63 cells.
  CHECK(wide.find("\n       2  wrong_value") < wide.find("--- sample 1 ---"));
  CHECK(contains(wide, "--- sample 1 ---" + std::string(47, ' ') + " | --- sample 2 ---\n"));
  CHECK(contains(
      wide, "ok 1.37x, reward 0.5000" + std::string(40, ' ') + " | wrong_value, reward 0.0000\n"));
  CHECK(contains(wide, "first" + std::string(58, ' ') + " | second\n"));
  CHECK(contains(wide, "kernel" + std::string(57, ' ') + " |\n"));
  const std::string narrow = list_text(*chosen, &f.run.blobs(), 122);
  CHECK(narrow == list_text(*chosen, &f.run.blobs()));
  CHECK(contains(narrow, "--- sample 1 ---\nfirst\nkernel\n"));
  // Ranked samples are of several groups: each has its completion below it.
  const auto best = f.ask({.by = sample_choice::order::best});
  CHECK_FALSE(contains(list_text(*best, &f.run.blobs(), 500), " | "));
}

TEST_CASE("a list as JSON has the keys that the page about it names") {
  choosing f;
  f.run.write_two_steps();
  const auto told = list_json(*f.ask({.task = "relu"}), nullptr);
  CHECK(told["quern_show"] == 2);
  CHECK_FALSE(told.contains("step"));
  REQUIRE(told["samples"].size() == 5);
  const auto& first = told["samples"][0];
  CHECK(first["sample"] == 3);
  CHECK(first["group"] == 2);
  CHECK(first["member"] == 0);
  CHECK(first["task"] == "relu@00000000000000000000000000000001");
  CHECK(first["state"] == "consumed");
  CHECK(first["step"] == 2);
  CHECK(first["versions"] == base::ordered_json::array({0, 1}));
  CHECK(first["reward"] == 0.1);
  CHECK(first["verdict"] == "ok");
  CHECK(first["speedup_e2"] == 90);
  CHECK(told["samples"][2]["drop_reason"] == "stale");
  CHECK_FALSE(told["samples"][4].contains("verdict"));
  CHECK(list_json(*f.ask({}), nullptr)["step"] == 2);
}
