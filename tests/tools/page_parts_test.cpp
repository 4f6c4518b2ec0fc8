// Curves, sums over samples and files that grow: what the page of a run is made of.
#include <cmath>

#include "tests/tools/page_fixture.hpp"
#include "tools/page/sample_tally.hpp"
#include "tools/page/step_curves.hpp"

using namespace quern;
using namespace quern::test;
using namespace quern::tools;

namespace {

step_curves curves_of(const std::vector<std::string>& lines) {
  step_curves curves;
  for (const std::string& line : lines)
    curves.add(must(base::parse_json(line)));
  return curves;
}

std::string batch(std::int64_t step, double reward) {
  return fmt::format(R"({{"step":{},"batch":{{"samples":2,"rewarded":1,"reward":{},)"
                     R"("verdicts":{{"ok":1,"oom":1}}}}}})",
                     step, reward);
}

}  // namespace

TEST_CASE("steps share points where there are more than a page shows") {
  CHECK(point_grid(1, 0).points() == 0);
  CHECK(point_grid(1, 400).steps_per_point() == 1);
  for (const std::int64_t last : {1, 7, 399, 400, 401, 800, 801, 100'000}) {
    const point_grid grid(1, last);
    CAPTURE(last);
    CHECK(grid.points() <= 400);
    CHECK(grid.point_of(1) == 0);
    CHECK(grid.point_of(last) == grid.points() - 1);
    CHECK(grid.step_of(grid.points() - 1) == last);
    CHECK(grid.step_of(0) == grid.steps_per_point());
  }
}

TEST_CASE("a step that is taken again counts as it was the last time") {
  const auto json = curves_of({batch(1, 1), batch(2, 8), batch(2, 3)}).to_json();
  CHECK(json["x"] == base::ordered_json{1, 2});
  CHECK(json["series"]["reward"] == base::ordered_json{1, 3});
  CHECK(json["verdicts"]["ok"] == base::ordered_json{1, 1});
}

TEST_CASE("points are means, and counts of verdicts are sums") {
  step_curves curves;
  for (int step = 1; step <= 800; ++step)
    curves.add(must(base::parse_json(batch(step, step))));
  const auto json = curves.to_json();
  CHECK(json["per_point"] == 2);
  CHECK(json["x"].size() == 400);
  CHECK(json["series"]["reward"][0] == 1.5);
  CHECK(json["series"]["reward"][399] == 799.5);
  CHECK(json["verdicts"]["oom"][7] == 2);
  CHECK(curves.mean("reward", 1, 3) == 2);
  CHECK(std::isnan(curves.mean("reward", 801, 900)));
  CHECK(std::isnan(curves.mean("nothing", 1, 800)));
}

TEST_CASE("lines of other stages, other builds and of nobody are drawn as far as they go") {
  const auto sft =
      curves_of({R"({"step":4,"seconds":1.0,"learner":{"loss":2.5,"skipped":false}})"});
  CHECK(sft.to_json()["series"]["learner.loss"] == base::ordered_json{2.5});
  CHECK_FALSE(sft.to_json()["series"].contains("reward"));
  CHECK(sft.to_json()["verdicts"].empty());

  const auto search =
      curves_of({R"({"spent":8,"verdicts":{"ok":2,"oom":6},"ok":0.25,"reward":0.5})",
                 R"({"spent":16,"verdicts":{"ok":5,"oom":11},"ok":null,"reward":null})"});
  CHECK(search.to_json()["unit"] == "evaluation");
  CHECK(search.to_json()["x"] == base::ordered_json{8, 16});
  CHECK(search.to_json()["series"]["ok"] == base::ordered_json{0.25, nullptr});
  CHECK(search.to_json()["verdicts"]["ok"] == base::ordered_json{2, 3});

  CHECK(curves_of({"[]", "7", "null", "{}", R"({"step":"x"})", R"({"step":-1})"}).empty());
  const auto odd = curves_of({R"({"step":1,"batch":7,"ages":[],"roles":3,"held_back":"x",)"
                              R"("learner":{"loss":"x","deep":{"er":1}}})"});
  CHECK(odd.last() == 1);
  const auto later = curves_of({R"({"step":1,"truncated":0.25,"queue":{"jobs":3,"name":"x"}})"});
  CHECK(later.to_json()["series"]["truncated"] == base::ordered_json{0.25});
  CHECK(later.to_json()["series"]["queue.jobs"] == base::ordered_json{3});
  CHECK(later.to_json()["series"].size() == 2);
  CHECK(odd.to_json()["series"]["learner.deep.er"] == base::ordered_json{1});
  // An empty batch, as of a deterministic run that has no samples left, has no mean.
  CHECK_FALSE(curves_of({R"({"step":1,"batch":{"samples":0,"ok":null,"reward":null,"rewarded":0,)"
                         R"("verdicts":{}}})"})
                  .to_json()["series"]
                  .contains("reward"));
}

TEST_CASE("lines of an earlier build and of this one are one curve") {
  const auto json =
      curves_of({R"({"step":1,"epoch":1,"queues":{"step":2,"scouts":5}})",  // schema 1
                 R"({"step":2,"incarnation":2,"queues":{"step":3,"seed_variants":6}})"})
          .to_json();
  CHECK(json["series"]["queues.seed_variants"] == base::ordered_json{5, 6});
  CHECK(json["series"]["queues.step"] == base::ordered_json{2, 3});
  CHECK(json["series"].size() == 2);
}

TEST_CASE("a policy that was ruined is warned of") {
  step_curves curves;
  for (int step = 1; step <= 5; ++step)
    curves.add(must(base::parse_json(
        fmt::format(R"({{"step":{},"batch":{{"samples":8,"rewarded":0,"reward":0.0,)"
                    R"("verdicts":{{"wrong_value":8}}}}}})",
                    step))));
  REQUIRE(curves.warnings().size() == 1);
  CHECK(contains(curves.warnings()[0], "every reward of steps 1-5 is 0"));
  CHECK(curves_of({batch(1, 1)}).warnings().empty());
}

TEST_CASE("a file that grows is read once, by whole lines") {
  const auto folder = must(base::temp_folder::make());
  const auto file = folder.path() / "lines";
  storage::jsonl_tail tail(file);
  std::vector<std::int64_t> seen;
  const auto take = [&](const base::json& line) { seen.push_back(line.get<std::int64_t>()); };
  const auto append = [&](const std::string& text) {
    std::ofstream(file, std::ios::app) << text;
    return must(tail.read(take)).count;
  };
  CHECK(must(tail.read(take)).count == 0);  // it is not there yet
  CHECK(append("1\n2") == 0);
  CHECK(seen == std::vector<std::int64_t>{1});
  CHECK(append("2\nx\n") == 1);
  CHECK(append("3\n") == 1);
  CHECK(seen == std::vector<std::int64_t>{1, 22, 3});
  CHECK(contains(must(tail.read(take)).first, "line 3"));
  // Begun anew, it is read anew.
  must(base::write_file_atomic(file, "9\n"));
  CHECK(must(tail.read(take)).count == 0);
  CHECK(seen.back() == 9);
  must(base::write_file_atomic(file, std::string((4 << 20) + 100, '1')));
  const auto endless = tail.read(take);
  REQUIRE_FALSE(endless);
  CHECK(contains(endless.error().message, "line 2 has more than 4194304 bytes"));
}

TEST_CASE("sums over samples are the same in one reading as in many, also past a lost step") {
  open_ledger made;
  auto scan = must(storage::sample_scan::make(*made.db, "verdict"));
  sample_tally followed;
  const auto agree = [&] {
    must(made.book->commit());
    must(followed.read(scan));
    sample_tally at_once;
    must(at_once.read(scan));
    const sample_sums a = followed.sums(), b = at_once.sums();
    CHECK(a.states == b.states);
    CHECK(a.verdicts == b.verdicts);
    CHECK(a.drops == b.drops);
    CHECK(a.ages == b.ages);
    CHECK(a.speedups == b.speedups);
    CHECK(a.tasks.size() == b.tasks.size());
    for (const auto& [task, sums] : a.tasks)
      CHECK(sums.samples == b.tasks.at(task).samples);
    return a;
  };
  CHECK(agree().states.empty());
  const auto old = made.group_in(storage::sample_state::issued, 2);
  const auto used = made.group_in(storage::sample_state::admitted, 600);
  CHECK(agree().states["admitted"] == 600);
  must(made.book->consume(used, 1));
  must(made.book->record_checkpoint({1, 0, "c", {1, 1}}));
  sample_sums sums = agree();
  CHECK(sums.states["trained"] == 600);
  CHECK(sums.speedups.at(1).size() == 600);
  must(made.book->drop(old, "stale"));
  CHECK(agree().drops["stale"] == 2);
  const auto later = made.group_in(storage::sample_state::admitted, 3, 1);
  must(made.book->consume(later, 2));
  CHECK(agree().states["consumed"] == 3);
  must(made.book->record_checkpoint({2, 0, "c", {2, 2}}));
  CHECK(agree().states["trained"] == 603);
  // Past a checkpoint that was lost, samples that were read for good go back.
  must(made.book->open_incarnation({"resume", 1, {}}));
  sums = agree();
  CHECK(sums.states["admitted"] == 3);
  CHECK(sums.speedups.size() == 1);
  const auto changes = followed.changes();
  agree();
  CHECK(followed.changes() == changes);
}

TEST_CASE("quantiles are interpolated") {
  std::vector<std::int32_t> one = {7}, few = {40, 10, 30, 20};
  CHECK(quantile_of(one, 0.1) == 7);
  CHECK(quantile_of(few, 0) == 10);
  CHECK(quantile_of(few, 0.5) == 25);
  CHECK(quantile_of(few, 1) == 40);
}
