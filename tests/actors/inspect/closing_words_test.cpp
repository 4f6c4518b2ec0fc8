// Words of the closing report.
#include "actors/inspect/closing_words.hpp"

#include "support/written_run.hpp"

using namespace quern;
using namespace quern::actors;
using test::contains;

TEST_CASE("verdicts that decided samples are counted, attempts that did not are left out") {
  const base::temp_folder folder = std::move(base::temp_folder::make("closing").value());
  test::written_run run(folder.path() / "run");
  run.open().write_two_steps();
  const auto counts = count_verdicts(run.ledger());
  REQUIRE(counts);
  // Sample 3 was noisy once before.
  CHECK(*counts == std::map<std::string, std::int64_t>{{"ok", 4}, {"wrong_value", 1}});
}

TEST_CASE("a gain is said with its interval, and where that contains 1") {
  evaluation_set_half sure;
  evaluation_set_half same;
  for (int i = 0; i < 64; ++i) {
    sure.first.push_back(i % 2);
    sure.last.push_back(2 * (i % 2) + 0.1);
    same.first.push_back(i % 3);
    same.last.push_back((i + 1) % 3);
  }
  const std::string gained = gain_words("mean reward, trained", sure, 1);
  CAPTURE(gained);
  CHECK(gained.starts_with(
      "mean reward, trained: 0.500 with the first weights, 1.100 with the last (64 prompts): 2.20 "
      "times as much, with 95 % confidence between 2."));
  CHECK_FALSE(contains(gained, "tell them apart"));
  same.left_out = 3;
  const std::string even = gain_words("mean reward, held out", same, 1);
  CAPTURE(even);
  CHECK(contains(even, "(64 prompts, 3 more were not judged)"));
  CHECK(even.ends_with("; so few prompts do not tell them apart, since 1 is between\n"));
  CHECK(gain_words("x", {}, 1) == "x: no prompt was judged on both sides\n");
  CHECK(contains(gain_words("x", {{0, 0}, {1, 0}}, 1), "the first had none, so there is no ratio"));
}

TEST_CASE("the fastest kernels stand first, at most ten, with their intervals") {
  CHECK(fastest_table({}).empty());
  env::verdict value;
  value.kind = env::verdict_kind::ok;
  value.speedup_e2 = 300;
  value.time.emplace();
  value.time->ref_ns.assign(7, 300);
  value.time->cand_ns.assign(7, 100);
  value.time->log_ratio_e9 = {1'064'710'737, 1'098'612'289, 1'131'402'111};
  value.time->windows = 7;
  std::vector<kept_kernel> kernels(12);
  for (std::size_t i = 0; i < kernels.size(); ++i)
    kernels[i] = {"task" + std::to_string(i), false, static_cast<std::int64_t>(100 + i), ""};
  kernels[5] = {"fastest", true, 300, base::dump(env::to_json(value))};
  const std::string text = fastest_table(kernels);
  CAPTURE(text);
  const std::size_t first = text.find('\n') + 1;
  CHECK(text.substr(first).starts_with("fastest *"));
  CHECK(contains(text, "   3.00x  2.90x to 3.10x\n"));
  value.claim_e2 = 310;
  kernels[5].verdict = base::dump(env::to_json(value));
  CHECK(
      contains(fastest_table(kernels), "3.10x; the speed-up is a cap until it is measured again"));
  CHECK(contains(text, "   1.11x  not told\n"));
  CHECK_FALSE(contains(text, "task1 "));
  CHECK(std::count(text.begin(), text.end(), '\n') == 11);
}
