// Evaluator hosts that offer lane pytorch on GPUs: a real process of `quern evaluator` at a
// gateway, with devices that are none. Processes, sandbox and Python are the real ones.
#include <csignal>

#include <fmt/ranges.h>
#include <sys/prctl.h>

#include "base/subprocess.hpp"
#include "e2e/module_fixture.hpp"
#include "e2e/run_fixture.hpp"
#include "env/judge/device_lock.hpp"
#include "env/judge/device_turn.hpp"
#include "env/verdict/verdict.hpp"
#include "lanes/fake_gpu/fake_gpu_programs.hpp"
#include "tests/actors/gateway/run_fixture.hpp"

using namespace quern;
using namespace quern::test;
using base::operator""_s;

namespace {

const char* const toy_task = R"(quern_task: 1
name: doubling
lane: toy_gpu
family: elementwise
word: kernel
tolerance: {atol: 0, rtol: 0}
baseline: reference
lines: 40
reference: |
  Twice the number.
)";

std::string what_is_offered(const env::hello_message& hello) {
  std::vector<std::string> texts;
  for (const env::host_device& device : hello.devices)
    texts.push_back(
        fmt::format("{} {}: {}", device.id, device.device_class, fmt::join(device.lanes, ",")));
  return fmt::format("{}", fmt::join(texts, "; "));
}

bool is_free(const env::device_lock& lock) {
  if (!lock.try_take()) return false;
  lock.give_back();
  return true;
}

struct module_hosts {
  base::temp_folder folder = base::temp_folder::make().value();
  fake_gpu_programs programs{"module_hosts"};
  looped_module module = sleeping_modules(400, 40).front();
  // A host that starts has imported torch before it is there; an evaluation waits for its task.
  actors::test::run_fixture run{1, 300'000'000'000};
  std::string endpoint = "ipc://" + (folder.path() / "hosts").string();

  module_hosts() {
    run.tasks["pytorch"] = module.task_file();
    run.tasks["toy_gpu"] = toy_task;
    run.terms.deadline_ms = 300'000;
    take(module.times / 10);
    actors::gateway_options options;
    options.endpoints = {endpoint};
    options.incarnation = 1;
    options.heartbeat_ms = 200;
    REQUIRE(run.open(options));
  }
  /// Of the next jobs: right with any number of rounds, in the toy lane, too.
  void take(int rounds, const std::string& result = "y") {
    run.source = "# A kernel.\n" + module.model("ModelNew", rounds, result);
  }

  std::vector<std::string> command(std::vector<std::string> words) const {
    words.insert(words.begin(),
                 {programs.quern(), "evaluator", "--connect", endpoint, "--sandbox", "best_effort",
                  "--time-budget", "2", "--precision", "0.06", "--noise-limit", "0.5"});
    return words;
  }
  template <class F>
  bool wait(F so_far) {
    for (int minutes = 0; minutes < 5; ++minutes)
      if (run.wait(so_far)) return true;
    return false;
  }
  base::subprocess join(std::vector<std::string> words) {
    auto started = base::subprocess::start({.argv = command(std::move(words)),
                                            .environment = programs.environment(),
                                            .log = folder.path() / "host"});
    REQUIRE(started);
    const bool joined = wait([&] { return !run.joined.empty(); });
    CAPTURE(said());
    REQUIRE(joined);
    return std::move(*started);
  }
  std::string said() const { return base::read_file(folder.path() / "host").value_or(""); }

  base::json verdict_on(actors::sample_id sample) {
    const bool came = wait([&] { return run.verdicts.contains(sample); });
    CAPTURE(said());
    REQUIRE(came);
    return base::parse_json(run.verdicts.at(sample)).value();
  }
  base::json judged(actors::sample_id sample, const std::string& lane, const std::string& on) {
    run.submit(sample, on, lane);
    return verdict_on(sample);
  }
  /// A verdict on a candidate that is twice as fast, which a machine with other work was able to
  /// measure. Each try is another text, which no cache knows.
  base::json measured(actors::sample_id& sample) {
    base::json v;
    for (int tries = 0; tries < 10; ++tries) {
      ++sample;
      take(module.times / 2 - static_cast<int>(sample));
      v = judged(sample, "pytorch", "none-torch");
      const bool uneven = contains(v.value("detail", std::string()), "uneven");
      if (v["verdict"] != "noisy" && !uneven) break;
    }
    return v;
  }
};

}  // namespace

TEST_CASE("a host offers two lanes on one GPU; one evaluation at a time has it") {
  if (!has_module_python()) return;
  module_hosts w;
  auto host = w.join({"--lanes", "toy_gpu,pytorch", "--gpus", "0"});
  CHECK(what_is_offered(w.run.hello) == "0 none-torch: pytorch; 1 toy-gpu-0: toy_gpu");

  // Another process has the device.
  auto turn = env::device_turn::open(w.programs.bus_id());
  REQUIRE(turn);
  REQUIRE(turn->wait(30));
  const auto queue = env::device_lock::open(w.programs.bus_id(), env::device_lock::use::queue);
  REQUIRE(queue);
  const auto somebody_waits = [&] { return !is_free(*queue); };
  CHECK_FALSE(somebody_waits());
  w.run.submit(1, "none-torch", "pytorch");
  const base::json toy = w.judged(2, "toy_gpu", "toy-gpu-0");
  CHECK(toy["verdict"] == "ok");
  const bool waits = wait_until(120_s, somebody_waits);
  CAPTURE(w.said());
  CHECK(waits);
  CHECK(w.run.wait([&] { return !w.run.verdicts.contains(1); }));
  turn->give_back();

  const base::json v = w.verdict_on(1);
  CAPTURE(base::dump(v));
  CHECK((v["verdict"] == "ok" || v["verdict"] == "noisy"));
  CHECK(v["device_class"] == "none-torch");
  CHECK(w.run.sent_to.at(1).device == 0);
  w.take(1, "y * 1.5");
  const base::json wrong = w.judged(3, "pytorch", "none-torch");
  CAPTURE(base::dump(wrong));
  CHECK(wrong["verdict"] == "wrong_value");

  w.run.door().drain_hosts();
  const auto end = host.wait(60_s);
  REQUIRE(end);
  CHECK(end->code == 0);
}

TEST_CASE("a device that no evaluation uses is given free, with children that stand ready") {
  if (!has_module_python()) return;
  module_hosts w;
  auto host = w.join({"--lanes", "pytorch", "--gpus", "0"});
  CHECK(what_is_offered(w.run.hello) == "0 none-torch: ");
  // As an evaluator of another process has it while it measures.
  const auto quiet = env::device_lock::open(w.programs.bus_id(), env::device_lock::use::quiet);
  REQUIRE(quiet);
  const auto is_quiet = [&] { return is_free(*quiet); };
  CHECK(wait_until(60_s, is_quiet));
  CHECK(w.judged(1, "pytorch", "none-torch")["device_class"] == "none-torch");
  CHECK(wait_until(60_s, is_quiet));
}

TEST_CASE("a host that is asked to end leaves no process, while it judges or has nothing to do") {
  if (!has_module_python()) return;
  for (const bool judges : {true, false}) {
    CAPTURE(judges);
    module_hosts w;
    auto host = w.join({"--lanes", "pytorch", "--gpus", "0"});
    // Its evaluation waits for the device, which another process has.
    auto turn = env::device_turn::open(w.programs.bus_id());
    REQUIRE(turn);
    REQUIRE(turn->wait(30));
    const auto queue = env::device_lock::open(w.programs.bus_id(), env::device_lock::use::queue);
    REQUIRE(queue);
    if (judges) w.run.submit(1, "none-torch", "pytorch");
    REQUIRE(wait_until(120_s, [&] { return !judges || !is_free(*queue); }));
    std::vector<pid_t> below;
    REQUIRE(wait_until(120_s, [&] {
      below.clear();
      for (const pid_t warm : find_children(host.pid(), {"zygote.py"})) {
        const auto children = find_children(warm, {"zygote.py"});
        below.push_back(warm);
        below.insert(below.end(), children.begin(), children.end());
      }
      return below.size() >= 3;
    }));
    // What it leaves becomes a child of this process, which reaps nobody.
    REQUIRE(::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0);
    host.send_signal(SIGTERM);
    const auto end = host.wait(60_s);
    ::prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0);
    CAPTURE(w.said());
    REQUIRE(end);
    CHECK(end->code == 0);
    for (const pid_t one : below)
      CHECK(::kill(one, 0) != 0);
    turn->give_back();
  }
}

TEST_CASE("a large claim on a GPU is capped, and borne out or not by another measurement") {
  if (!has_module_python()) return;
  module_hosts w;
  auto host = w.join({"--lanes", "pytorch", "--gpus", "0"});
  actors::sample_id sample = 0;
  // The control: below what the run rechecks it is no claim.
  w.run.terms.recheck_above_e2 = 1'000'000;
  const base::json small = w.measured(sample);
  CAPTURE(base::dump(small));
  REQUIRE(small["verdict"] == "ok");
  CHECK_FALSE(small.contains("claim_e2"));
  CHECK(small["speedup_e2"].get<std::int64_t>() > 110);

  w.run.terms.recheck_above_e2 = 110;
  const base::json large = w.measured(sample);
  CAPTURE(base::dump(large));
  REQUIRE(large["verdict"] == "ok");
  REQUIRE(large.contains("claim_e2"));
  CHECK(large["speedup_e2"] == 110);
  const auto claim_e2 = large["claim_e2"].get<std::int64_t>();
  CHECK(claim_e2 > 110);

  w.run.terms.recheck = 1;
  w.run.terms.claim_e2 = claim_e2;
  const base::json again = w.measured(sample);
  CAPTURE(base::dump(again));
  const bool borne_out = again["verdict"] == "ok" && again.value("confirmed", false);
  CHECK((borne_out || again["verdict"] == "unconfirmed"));
  // What nobody measures again is never borne out.
  w.run.terms.claim_e2 = 20 * claim_e2;
  CHECK(w.measured(sample)["verdict"] == "unconfirmed");
}

TEST_CASE("GPUs and lanes that do not go together are refused, with what to do") {
  const fake_gpu_programs programs("module_refusals");
  const auto folder = std::move(base::temp_folder::make().value());
  int commands = 0;
  const auto refused = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {programs.quern(), "evaluator", "--connect", "ipc:///nowhere"});
    const finished end =
        run_to_end(std::move(words), folder.path() / ("log" + std::to_string(++commands)));
    CHECK(end.code != 0);
    return end.output;
  };
  const std::string of_cores = refused({"--lanes", "cpp", "--gpus", "0"});
  CHECK(contains(of_cores, "--gpus names GPUs, but --lanes has no lane that uses them (cpp)"));
  CHECK(contains(of_cores, "add one of cuda, pytorch, toy_gpu"));
  CHECK(contains(refused({"--lanes", "cuda,pytorch"}),
                 "--lanes names cuda, but no GPU is named: add --gpus"));
}
