// Fine-tuning by two ranks: one is killed, one is frozen, and nobody is asked.
#include <map>

#include <fmt/format.h>
#include <signal.h>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/subprocess.hpp"
#include "e2e/run_fixture.hpp"
#include "storage/jsonl.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::test;
namespace fs = std::filesystem;
using base::operator""_s;

namespace {

/// The loss of each step, the last one told of it: steps after a lost checkpoint are taken again.
std::map<std::int64_t, double> losses_of(const fs::path& run) {
  std::map<std::int64_t, double> losses;
  const auto take = [&](const base::json& line) -> base::status {
    losses[line["step"].get<std::int64_t>()] = line["learner"]["loss"].get<double>();
    return {};
  };
  CHECK(storage::read_jsonl(run / "metrics.jsonl", take));
  return losses;
}

}  // namespace

TEST_CASE(
    "fine-tuning by two ranks has the losses of one, through a killed and a frozen one, and one "
    "rank goes on from their shards") {
  const auto folder = base::temp_folder::make().value();
  const fs::path file = folder.path() / "sft.yaml", one = folder.path() / "one",
                 two = folder.path() / "two", asked = folder.path() / "asked";
  REQUIRE(base::write_file_atomic(file, sft_config));
  constexpr std::int64_t steps = 240;
  const auto train = [&](const fs::path& run, const std::vector<std::string>& settings) {
    std::vector<std::string> argv = {program("quern"),
                                     "train",
                                     file.string(),
                                     "--set",
                                     "run.folder=" + run.string(),
                                     "--set",
                                     fmt::format("learner.steps={}", steps)};
    for (const std::string& setting : settings)
      argv.insert(argv.end(), {"--set", setting});
    return argv;
  };
  // On the same device as the two.
  std::vector<std::string> of_one = settings_of_machine();
  of_one.emplace_back("learner.devices=");
  const finished alone = run_to_end(train(one, of_one), folder.path() / "alone");
  CAPTURE(alone.output);
  REQUIRE(alone.code == 0);
  const auto expected = losses_of(one);
  REQUIRE(std::ssize(expected) == steps);

  const fs::path log = folder.path() / "log";
  std::vector<std::string> of_two = settings_of_machine();
  of_two.insert(of_two.end(), {"learner.ranks=2", "learner.rank_deadline_s=5", "env.evaluators=0",
                               "tasks.corpus_folder=" + (one / "corpus").string()});
  auto control = base::subprocess::start({.argv = train(two, of_two), .log = log});
  REQUIRE(control);
  const auto second_rank = [&] {
    return find_processes({"quern-torch", "sft", two.string(), std::string("--rank") + '\0' + "1"});
  };
  const auto over = [&] { return control->poll().has_value(); };
  REQUIRE(wait_until(120_s, [&] { return over() || sft_checkpoint_of(two, asked) >= 2; }));
  REQUIRE_FALSE(over());
  const auto killed = second_rank();
  REQUIRE(killed.size() == 1);
  REQUIRE(::kill(killed.front(), SIGKILL) == 0);
  // A checkpoint may be under way, and the step that was in flight may still be kept: the one
  // behind both needs the new second rank.
  const std::int64_t before = sft_checkpoint_of(two, asked) + 2;
  std::vector<pid_t> frozen;
  REQUIRE(wait_until(120_s, [&] {
    frozen = second_rank();
    return over() ||
           (frozen.size() == 1 && frozen != killed && sft_checkpoint_of(two, asked) > before);
  }));
  REQUIRE_FALSE(over());
  REQUIRE(::kill(frozen.front(), SIGSTOP) == 0);
  const auto end = control->wait(240_s);
  const std::string said = base::read_file(log).value_or("");
  CAPTURE(said);
  REQUIRE(end);
  CHECK(end->code == 0);
  CHECK(contains(said, "rank 1 is gone"));
  CHECK(contains(said, "sft-1 ended: killed by signal 9"));
  CHECK(contains(said, "rank 1 gives no sign of life"));
  CHECK(contains(said, "sft-1 did not end by itself and was killed"));
  CHECK(contains(said, "it goes on from the last checkpoint"));
  CHECK_FALSE(fs::exists("/proc/" + std::to_string(frozen.front())));

  const auto got = losses_of(two);
  REQUIRE(got.size() == expected.size());
  // Further on, sums in another order have their effect.
  for (const std::int64_t step : {std::int64_t{1}, std::int64_t{2}, std::int64_t{120}})
    CHECK(got.at(step) == doctest::Approx(expected.at(step)).epsilon(1e-5));
  // The control: that it has learned at all.
  CHECK(expected.at(steps) < 0.98 * expected.at(1));
  CHECK(fs::exists(two / "checkpoints" / fmt::format("v{:08}", steps) /
                   "optimizer/shard-001-of-002.safetensors"));
  const finished resumed =
      run_to_end({program("quern"), "resume", two.string(), "--set", "learner.ranks=1", "--set",
                  "learner.devices=", "--set", fmt::format("learner.steps={}", steps + 2)},
                 folder.path() / "more");
  CAPTURE(resumed.output);
  CHECK(resumed.code == 0);
  CHECK(sft_checkpoint_of(two, asked) == steps + 2);
}
