// quern ablate with real runs: interrupted in an arm, it goes on, and runs nothing twice.
#include <csignal>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/subprocess.hpp"
#include "e2e/run_fixture.hpp"
#include "storage/run_lock.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::test;
namespace fs = std::filesystem;
using base::operator""_s;

namespace {

struct ablate_fixture {
  base::temp_folder folder = base::temp_folder::make().value();
  fs::path out = folder.path() / "out";
  std::string seeds = "5";

  /// Two steps of four samples an arm, after one step that both share.
  [[nodiscard]] std::vector<std::string> command(const std::string& arms, const std::string& budget,
                                                 const std::vector<std::string>& more = {}) const {
    std::vector<std::string> argv = {program("quern"),
                                     "ablate",
                                     (source_dir() / "configs/ablation_quick.yaml").string(),
                                     "--arms",
                                     arms,
                                     "--seeds",
                                     seeds,
                                     "--budget",
                                     budget,
                                     "--out",
                                     out.string()};
    for (const char* setting :
         {"env.sandbox=best_effort", "env.protocol=cost_model/1", "algorithm.group_size=4",
          "algorithm.groups_per_step=1", "tasks.count=4", "tasks.held_out_count=2",
          "self_train.learner.steps=1", "self_train.tasks.count=3",
          "observe.evaluation_set_held_out=4", "policy.max_new_tokens=300"}) {
      argv.emplace_back("--set");
      argv.emplace_back(setting);
    }
    argv.emplace_back("--set");
    argv.push_back("policy.model=" + small_policy());
    argv.insert(argv.end(), more.begin(), more.end());
    return argv;
  }

  finished go(const std::string& arms, const std::string& budget,
              const std::vector<std::string>& more = {}) {
    fs::remove(folder.path() / "log");
    return run_to_end(command(arms, budget, more), folder.path() / "log");
  }

  void refused(const std::string& arms, const std::string& budget, const char* part,
               const std::vector<std::string>& more = {}, int code = 2) {
    const finished end = go(arms, budget, more);
    CAPTURE(end.output);
    CHECK(end.code == code);
    CHECK(contains(end.output, part));
  }
};

/// The processors that the process of a run may use, as /proc has them; empty while there is none.
std::string processors_of(const fs::path& run) {
  const std::string lock = base::read_file(run / "LOCK").value_or("");
  const auto digits = lock.find_first_of("0123456789");
  if (digits == std::string::npos) return "";
  const std::string status =
      base::read_file(fs::path("/proc") / std::to_string(std::stol(lock.substr(digits))) / "status")
          .value_or("");
  const std::string key = "Cpus_allowed_list:\t";
  const auto at = status.find(key);
  if (at == std::string::npos) return "";
  const auto begin = at + key.size();
  return status.substr(begin, status.find('\n', begin) - begin);
}

}  // namespace

TEST_CASE("an ablation is interrupted, goes on, and makes its table of runs that it made once") {
  ablate_fixture f;
  const std::string arms = "+grpo,+contrastive:bucket";
  const fs::path shared = f.out / "shared/seed-5/self_train", plain = f.out / "grpo/seed-5",
                 contrastive = f.out / "contrastive-bucket/seed-5";
  const finished planned = f.go(arms, "8", {"--dry-run"});
  CAPTURE(planned.output);
  CHECK(planned.code == 0);
  CHECK(contains(planned.output, "grpo/seed-5"));
  CHECK(contains(planned.output, "after shared/seed-5/self_train"));
  CHECK_FALSE(fs::exists(f.out));

  auto first =
      base::subprocess::start({.argv = f.command(arms, "8"), .log = f.folder.path() / "first"});
  REQUIRE(first);
  REQUIRE(wait_until(300_s, [&] { return fs::exists(plain / "run.db") || first->poll(); }));
  first->send_signal(SIGINT);
  const auto stopped = first->wait(120_s);
  const std::string said = base::read_file(f.folder.path() / "first").value_or("");
  CAPTURE(said);
  REQUIRE(stopped);
  CHECK(stopped->code == 3);
  CHECK(contains(said, "the same quern ablate command goes on"));
  CHECK_FALSE(fs::exists(contrastive));
  CHECK_FALSE(fs::exists(f.out / "ablation.json"));
  const auto shared_before = fs::last_write_time(shared / "run.db");

  const finished end = f.go(arms, "8");
  CAPTURE(end.output);
  REQUIRE(end.code == 0);
  CHECK(contains(end.output, "+contrastive:bucket against +grpo"));
  CHECK(contains(end.output, "above 1.01"));
  // Their evaluation sets have no prompt of a trained task, and no line that says so.
  CHECK(contains(end.output, "mean reward, held out: "));
  CHECK_FALSE(contains(end.output, "mean reward, trained: "));
  CHECK(fs::last_write_time(shared / "run.db") == shared_before);
  CHECK(version_of(plain) == 2);
  CHECK(version_of(contrastive) == 2);
  check_law(plain);
  check_law(contrastive);
  const base::json table =
      base::parse_json(base::read_file(f.out / "ablation.json").value()).value();
  REQUIRE(table["arms"].size() == 2);
  CHECK(table["budget"] == 8);
  for (const auto& arm : table["arms"]) {
    // Four held-out prompts; each arm judged its own eight samples at least, and shares four.
    CHECK(arm["answers"].get<int>() + arm["unjudged"].get<int>() == 4);
    CHECK(arm["evaluations"] >= 8);
    CHECK(arm["shared_evaluations"] >= 4);
    CHECK(arm["seconds"] > 0);
  }
  CHECK(table["differences"].size() == 1);
  CHECK(fs::exists(f.out / "ablation.txt"));
  // Both began with the policy of the run that they share.
  for (const fs::path& run : {plain, contrastive})
    CHECK(contains(base::read_file(run / "config.yaml").value(),
                   (shared / "checkpoints").string().c_str()));

  // No figure but the times hangs on them; a damaged answer is told with its file and what to do.
  REQUIRE(base::write_file_atomic(f.out / "seconds.json", "{"));
  const finished timeless = f.go(arms, "8");
  CHECK(timeless.code == 0);
  CHECK(contains(timeless.output, "times of earlier calls are not known"));
  CHECK(base::parse_json(base::read_file(f.out / "ablation.json").value())
            .value()["arms"][0]["seconds"]
            .is_null());
  {
    const auto held = storage::run_lock::take(f.out / "LOCK");
    REQUIRE(held);
    f.refused(arms, "8", "out/LOCK is locked by process", {}, 1);
    CHECK(f.go(arms, "8", {"--so-far"}).code == 0);
  }
  const fs::path answers = plain / "evaluation_set.json";
  const std::string answered = base::read_file(answers).value();
  REQUIRE(base::write_file_atomic(answers, answered.substr(0, answered.size() / 2)));
  f.refused(arms, "8", "grpo/seed-5/evaluation_set.json: not JSON", {}, 1);
  f.refused(arms, "8", "remove the file, and the same command without --so-far measures", {}, 1);
  REQUIRE(base::write_file_atomic(answers, answered));

  // All is there: the table is made again and nothing else.
  const auto before = fs::last_write_time(contrastive / "run.db");
  CHECK(f.go(arms, "8").code == 0);
  CHECK(fs::last_write_time(contrastive / "run.db") == before);
  // Other settings are another ablation.
  f.refused(arms, "16", "learner.steps is 2 there and 4 here");
  // A build that draws other tasks makes no run beside those that are there. Their table it makes.
  const fs::path meta = plain / "meta.json";
  const std::string begun = base::read_file(meta).value();
  base::json other = base::parse_json(begun).value();
  other["begun_with"]["tasks"]["train"][0] = "no_such_task@" + std::string(32, '0');
  REQUIRE(base::write_file_atomic(meta, other.dump()));
  CHECK(f.go(arms, "8").code == 0);
  f.seeds = "5,6";
  f.refused(arms, "8", "grpo/seed-5: tasks.source is generated, and other tasks are drawn here",
            {"--dry-run"});
  REQUIRE(base::write_file_atomic(meta, begun));
  CHECK(f.go(arms, "8", {"--dry-run"}).code == 0);
  f.seeds = "5";
  // A shared stage may have other tasks than the arm of the same stage: each is held to its own.
  const finished fewer = f.go("stage1+2", "8");
  CHECK(fewer.code == 0);
  CHECK(contains(fewer.output, "not in this table: contrastive-bucket/seed-5, grpo/seed-5"));
  CHECK(
      base::parse_json(base::read_file(f.out / "ablation.json").value()).value()["beside"].size() ==
      2);
  f.seeds = "5,6";
  CHECK(f.go("stage1+2", "8", {"--dry-run"}).code == 0);
  f.seeds = "5";
  fs::rename(shared, f.folder.path() / "moved");
  const finished lost = f.go(arms, "8");
  CHECK(lost.code == 2);
  CHECK(contains(lost.output, "put shared/seed-5/self_train back"));
}

TEST_CASE("runs side by side have processors of their own, pause together and go on") {
  ablate_fixture f;
  f.seeds = "5,6";
  const std::string arms = "vanilla,+grpo";
  const std::vector<std::string> two = {"--jobs", "2"};
  const fs::path shared[] = {f.out / "shared/seed-5/self_train",
                             f.out / "shared/seed-6/self_train"};
  auto first = base::subprocess::start(
      {.argv = f.command(arms, "8", two), .log = f.folder.path() / "first"});
  REQUIRE(first);
  // The stages that others wait for begin first, side by side.
  std::string processors[2];
  REQUIRE(wait_until(300_s, [&] {
    for (int k = 0; k < 2; ++k)
      processors[k] = processors_of(shared[k]);
    return (!processors[0].empty() && !processors[1].empty()) || first->poll();
  }));
  first->send_signal(SIGINT);
  const auto stopped = first->wait(120_s);
  const std::string said = base::read_file(f.folder.path() / "first").value_or("");
  CAPTURE(said);
  REQUIRE(stopped);
  CHECK(stopped->code == 3);
  CHECK_FALSE(processors[0].empty());
  CHECK(processors[0] != processors[1]);
  CHECK(contains(said, "shared/seed-5/self_train begins on processors"));
  CHECK(contains(said, "pausing 2 runs"));
  CHECK(contains(said, "6 runs are left: the same quern ablate command goes on"));
  f.refused(arms, "8", "no complete run of an arm", {"--so-far"});

  const finished end = f.go(arms, "8", two);
  CAPTURE(end.output);
  REQUIRE(end.code == 0);
  CHECK(contains(end.output, "+grpo against vanilla"));
  CHECK_FALSE(contains(end.output, "left out"));
  for (const char* run : {"grpo/seed-5", "grpo/seed-6"}) {
    CHECK(version_of(f.out / run) == 2);
    check_law(f.out / run);
    CHECK(fs::exists(f.out / (std::string(run) + ".log")));
  }
  const auto read_table = [&] {
    return base::parse_json(base::read_file(f.out / "ablation.json").value()).value();
  };
  CHECK(read_table()["missing"].empty());
  CHECK(read_table()["arms"].size() == 2);

  // A run that is not there is named, and the others make the table.
  fs::rename(f.out / "grpo/seed-6", f.folder.path() / "moved");
  const finished part = f.go(arms, "8", {"--so-far"});
  CHECK(part.code == 0);
  CHECK(contains(part.output, "not complete, and left out: grpo/seed-6"));
  CHECK(read_table()["missing"] == base::json({"grpo/seed-6"}));
  CHECK(read_table()["differences"][0]["pairs"] <= 4);
}

TEST_CASE("a run that fails beside others is told of, and the others are made") {
  ablate_fixture f;
  // Its configuration cannot be written.
  fs::create_directories(f.out / "grpo/seed-5.yaml/in the way");
  const finished end = f.go("vanilla,+grpo", "8", {"--jobs", "2"});
  CAPTURE(end.output);
  CHECK(end.code == 1);
  CHECK(contains(end.output, "grpo/seed-5"));
  CHECK(contains(end.output, "runs that failed: 1, that are left: 1"));
  CHECK(contains(end.output, "vanilla/seed-5 is complete"));
  const finished part = f.go("vanilla,+grpo", "8", {"--so-far"});
  CHECK(part.code == 0);
  CHECK(contains(part.output, "left out: grpo/seed-5"));
}

TEST_CASE("runs of one ablation begin with the same weights, not with others of the same path") {
  ablate_fixture f;
  const fs::path policy = f.folder.path() / "policy";
  fs::copy(small_policy(), policy);
  const std::vector<std::string> with = {"--set", "policy.model=" + policy.string()};
  REQUIRE(f.go("vanilla", "8", with).code == 0);
  const fs::path weights = policy / "model.safetensors";
  std::string bytes = base::read_file(weights).value();
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  REQUIRE(base::write_file_atomic(weights, bytes));
  // What is complete has no need of them.
  CHECK(f.go("vanilla", "8", with).code == 0);
  f.seeds = "5,6";
  f.refused("vanilla", "8", "vanilla/seed-5 began with other weights than those", with);
  f.refused("vanilla", "8", "model.safetensors", with);
  CHECK_FALSE(fs::exists(f.out / "vanilla/seed-6"));
  // By itself it may begin; a table of both would compare the weights.
  f.seeds = "6";
  REQUIRE(f.go("vanilla", "8", with).code == 0);
  f.seeds = "5,6";
  f.refused("vanilla", "8", "vanilla/seed-5 and vanilla/seed-6 both began with", with);
  // A table needs no folder of a policy.
  fs::remove_all(policy);
  f.seeds = "5";
  std::vector<std::string> look = with;
  look.emplace_back("--so-far");
  CHECK(f.go("vanilla", "8", look).code == 0);
}

TEST_CASE("quern ablate refuses what it cannot compare, with the value and what to do") {
  ablate_fixture f;
  f.refused("grpo", "8", "--arms: 'grpo' is no arm: choose among");
  f.refused("stage1", "8", "say vanilla");
  f.refused("+grpo", "10", "say a multiple, such as 8 or 12");
  f.refused("+grpo", "0", "--budget");
  f.seeds = "5,x";
  f.refused("+grpo", "8", "--seeds: 'x' is no seed");
  f.seeds = "5";
  f.refused("+grpo", "8", "tasks.held_out_count is 0", {"--set", "tasks.held_out_count=0"});
  f.refused("+grpo", "8", "learner.stepz", {"--set", "learner.stepz=3"});
  f.refused("+grpo", "8", "policy.model", {"--set", "self_train.policy.model=/nowhere"});
  f.refused("+grpo", "8", "no task is held out", {"--set", "tasks.held_out_share=0"});
  f.refused("+grpo", "8", "1024 runs side by side on", {"--jobs", "1024"});
  f.refused("+grpo", "8", "'x' is no GPU", {"--gpus", "x"});
  f.refused("+grpo", "8", "--jobs", {"--jobs", "2", "--gpus", "0"});
  f.refused("+grpo", "8", "--set run.seed=3: say it by --seeds", {"--set", "run.seed=3"});
  f.refused("+grpo", "8", "--set self_train.run.folder=x: say it by --out",
            {"--set", "self_train.run.folder=x"});
  f.refused("+grpo", "8", "--vanilla: ", {"--vanilla", f.folder.path().string()});
  CHECK_FALSE(fs::exists(f.out));
}

TEST_CASE("right answers are measured again over another baseline, for a table of their own") {
  ablate_fixture f;
  const std::string arms = "vanilla,+grpo";
  f.refused(arms, "8", "--over: env.protocol: cost_model/1 measures nothing", {"--over", "plain"});
  // Real times, which a busy machine may not tell, of right answers to held-out tasks, which the
  // small policy does not know.
  const std::vector<std::string> timed = {
      "--set", "policy.model=" + (source_dir() / "policy/demo").string(),
      "--set", "env.protocol=paired/1",
      "--set", "env.time_budget_s=0.1",
      "--set", "env.noise_limit=0.5"};
  const auto over = [&](const std::string& baseline) {
    std::vector<std::string> more = timed;
    more.insert(more.end(), {"--over", baseline});
    return more;
  };
  f.refused(arms, "8", "--over: env.baseline: 'eager'", over("eager"));
  f.refused(arms, "8", "there is no baseline 'plane'", over("plane"));
  f.refused(arms, "8", "name that baseline", over("task"));
  const fs::path results = f.out / "over_plain/results.jsonl";
  finished end = f.go(arms, "8", over("plain"));
  // A busy machine may call each of the few right answers noisy: then they are measured once more.
  for (int more = 0; more < 2 && end.code == 0 &&
                     !contains(base::read_file(results).value_or(""), "\"verdict\":\"ok\"");
       ++more) {
    fs::remove(results);
    end = f.go(arms, "8", over("plain"));
  }
  CAPTURE(end.output);
  REQUIRE(end.code == 0);
  const auto read = [&](const char* name) {
    return base::parse_json(base::read_file(f.out / name).value()).value();
  };
  const base::json own = read("ablation.json"), again = read("ablation_over_plain.json");
  CHECK(again["over"] == "plain");
  CHECK(again["reward"].get<std::string>().ends_with("@plain"));
  CHECK_FALSE(own.contains("over"));
  REQUIRE(again["arms"].size() == 2);
  // Only +grpo learns; a second measurement says nothing about what it began with.
  CHECK(own["gains"].size() == 1);
  CHECK(again["gains"].empty());
  const auto sum_of = [](const base::json& table, const char* key) {
    return table["arms"][0][key].get<int>() + table["arms"][1][key].get<int>();
  };
  CHECK(sum_of(again, "answers") + sum_of(again, "unjudged") ==
        sum_of(own, "answers") + sum_of(own, "unjudged"));
  const std::string lines = base::read_file(results).value();
  CHECK(contains(lines, "paired/1@plain"));
  // What is there is not measured again.
  const finished second = f.go(arms, "8", over("plain"));
  CAPTURE(second.output);
  CHECK(second.code == 0);
  CHECK(base::read_file(results).value() == lines);
  CHECK(read("ablation_over_plain.json") == again);

  // The control: the second table follows what was measured, and the first one does not.
  std::string other = lines;
  for (std::size_t at = 0; (at = other.find("\"verdict\":\"ok\"", at)) != std::string::npos;)
    other.replace(at, 14, "\"verdict\":\"noisy\"");
  REQUIRE(other != lines);
  REQUIRE(base::write_file_atomic(results, other));
  const finished third = f.go(arms, "8", over("plain"));
  CAPTURE(third.output);
  CHECK(third.code == 0);
  CHECK(sum_of(read("ablation_over_plain.json"), "right") == 0);
  CHECK(sum_of(read("ablation_over_plain.json"), "unjudged") > sum_of(again, "unjudged"));
  CHECK(read("ablation.json") == own);

  // Results of something else are refused, by what quern bench says, and make no table.
  fs::remove(f.out / "ablation_over_plain.json");
  REQUIRE(base::write_file_atomic(results, "{\"quern_bench\": 1}\n"));
  const finished refused = f.go(arms, "8", over("plain"));
  CAPTURE(refused.output);
  CHECK(refused.code == 1);
  CHECK(contains(refused.output, "quern bench ended with exit code 2 and said: quern bench: "));
  CHECK(contains(refused.output, "over_plain away"));
  CHECK_FALSE(fs::exists(f.out / "ablation_over_plain.json"));
}
