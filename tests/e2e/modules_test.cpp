// A run of lane pytorch from task to weights: recorded modules are judged by real processes, their
// verdicts are in the ledger, and what no host can run has no reward.
#include <csignal>
#include <map>

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/subprocess.hpp"
#include "e2e/recorded_fixture.hpp"
#include "e2e/run_fixture.hpp"
#include "env/lanes/pytorch/process/python_zygote.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::test;
namespace fs = std::filesystem;
using base::operator""_s;

namespace {

/// A task whose module does a step of a loop again and again: there is something to save.
struct module_text {
  std::string name, step;
  int width, times;

  [[nodiscard]] std::string model(const std::string& as, int rounds,
                                  const std::string& result) const {
    return fmt::format(R"(import torch
import torch.nn as nn


class {}(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        y = self.linear(x)
        for _ in range({}):
            y = {}
        return {}
)",
                       as, rounds, step, result);
  }
  [[nodiscard]] std::string reference() const {
    return model("Model", times, "y") + fmt::format(R"(

def get_inputs():
    return [torch.rand(64, {0})]


def get_init_inputs():
    return [{0}]
)",
                                                    width);
  }
};

const std::vector<module_text> module_texts{
    // A second round changes nothing, so that one is enough.
    {"clamped_linear", "torch.maximum(torch.relu(y), x)", 128, 12},
    {"bounded_linear", "torch.minimum(torch.relu(y), x)", 96, 12}};

std::string module_completion(const std::string& code) {
  return "## Performance Analysis\nOne loop.\n\n## Algorithm Design\nFewer rounds.\n\n"
         "## Code\n```python\n" +
         code + "```\n";
}

/// A completion and the verdict that is right for it.
struct recorded_module {
  std::string task, text, verdict;
};

std::vector<recorded_module> recorded_modules() {
  std::vector<recorded_module> all;
  for (const module_text& of : module_texts) {
    const auto add = [&](const std::string& code, const std::string& verdict) {
      all.push_back({of.name, module_completion(code), verdict});
    };
    const std::string same = of.model("ModelNew", of.times, "y");
    add(same, "ok");
    add(of.model("ModelNew", 1, "y"), "ok");  // faster
    add(of.model("ModelNew", of.times, "y * 1.5"), "wrong_value");
    add(of.model("ModelNew", of.times, "y[:3]"), "wrong_shape");
    add("import triton\n\n\n@triton.jit\ndef k(x):\n    pass\n\n\n" +
            of.model("ModelNew", of.times, "k[(1,)](y)"),
        "unsupported");
  }
  return all;
}

/// What is right for a module that is recorded for a task.
using right_verdicts = std::map<std::pair<std::string, std::string>, std::string>;

struct modules_world {
  base::temp_folder folder = std::move(base::temp_folder::make().value());
  fs::path suite = folder.path() / "suite";
  fs::path recorded = folder.path() / "recorded.jsonl";

  modules_world() {
    fs::create_directory(suite);
    for (const module_text& one : module_texts)
      REQUIRE(base::write_file_atomic(suite / (one.name + ".py"), one.reference()));
  }

  right_verdicts record(const std::vector<recorded_module>& modules) const {
    std::string text;
    right_verdicts right;
    for (const recorded_module& one : modules) {
      text += base::dump(base::json{{"task", one.task}, {"completion", one.text}}) + "\n";
      right[{one.task, one.text}] = one.verdict;
    }
    REQUIRE(base::write_file_atomic(recorded, text));
    return right;
  }

  /// Coarsely measured, so that a busy machine gives a verdict, too.
  [[nodiscard]] std::vector<std::string> command(const fs::path& run, std::int64_t steps) const {
    return train_command(
        run, steps,
        {"env.lane=pytorch", "tasks.source=suite", "tasks.suite=" + suite.string(),
         "policy.engine=recorded", "policy.recorded=" + recorded.string(),
         "policy.max_new_tokens=420", "algorithm.group_size=5", "algorithm.groups_per_step=1",
         "env.time_budget_s=0.3", "env.precision=0.06", "env.noise_limit=0.5",
         "storage.checkpoint_every_steps=1", "observe.panel=false"});
  }

  /// Samples by their verdicts, each of which is right and has the reward of its kind.
  static std::map<std::string, int> judged_in(const fs::path& run, const right_verdicts& right) {
    std::map<std::string, int> kinds;
    for (const played_sample& one : played_in(run)) {
      CAPTURE(one.task);
      CAPTURE(one.text);
      CAPTURE(one.verdict);
      CAPTURE(one.state);
      CAPTURE(one.drop_reason);
      const auto known = right.find({one.task.substr(0, one.task.find('@')), one.text});
      REQUIRE(known != right.end());
      if (one.verdict.empty()) {  // the run had made all its steps
        CHECK(one.state == "dropped");
        continue;
      }
      ++kinds[one.verdict];
      // A host that is too busy to measure at all says so, and nothing about the module.
      const bool unmeasured = one.verdict == "noisy" || one.verdict == "unconfirmed";
      CHECK((one.verdict == known->second || (unmeasured && known->second == "ok")));
      if (one.verdict == "unsupported") {
        CHECK(one.state == "dropped");
        CHECK(one.drop_reason == "unsupported");
        CHECK_FALSE(one.reward.has_value());
      } else if (one.state == "trained") {
        REQUIRE(one.reward.has_value());
        CHECK((*one.reward > 0) == (one.verdict == "ok"));
      }
    }
    return kinds;
  }
};

/// Without a Python with torch the case is skipped.
bool has_module_python() {
  const auto python = env::find_module_python();
  if (!python) skip(python.error().message);
  return python.has_value();
}

}  // namespace

TEST_CASE("modules: from task to steps, through a pause; what cannot run here has no reward") {
  if (!has_module_python()) return;
  const modules_world w;
  const right_verdicts right = w.record(recorded_modules());
  const fs::path run = w.folder.path() / "run", log = w.folder.path() / "log";
  const auto command = w.command(run, 400);
  auto control = base::subprocess::start({.argv = command, .log = log});
  REQUIRE(control);
  wait_until(300_s, [&] { return version_of(run) >= 2 || control->poll(); });
  control->send_signal(SIGTERM);
  const auto paused = control->wait(120_s);
  CAPTURE(base::read_file(log).value_or(""));
  REQUIRE(paused);
  CHECK(paused->code == 3);
  const std::int64_t version = version_of(run);
  CHECK(version >= 2);
  CHECK(counts_of(run).law_holds());

  const finished resumed = run_to_end({program("quern"), "resume", run.string(), "--set",
                                       "learner.steps=" + std::to_string(version + 2)},
                                      w.folder.path() / "resumed");
  CAPTURE(resumed.output);
  REQUIRE(resumed.code == 0);
  check_law(run);
  CHECK(version_of(run) == version + 2);
  check_played(run, config_of(command));
  const auto kinds = modules_world::judged_in(run, right);
  for (const char* kind : {"ok", "wrong_value", "wrong_shape", "unsupported"}) {
    CAPTURE(kind);
    CHECK(kinds.contains(kind));
  }
  CHECK(drop_reasons_of(run).contains("unsupported"));
}

// The control: verdicts belong to modules and tasks, not to places in a file.
TEST_CASE("modules that are recorded for another task are never right") {
  if (!has_module_python()) return;
  const modules_world w;
  auto modules = recorded_modules();
  for (recorded_module& one : modules) {
    one.task = one.task == module_texts[0].name ? module_texts[1].name : module_texts[0].name;
    if (one.verdict == "ok") one.verdict = "wrong_value";
  }
  const right_verdicts right = w.record(modules);
  const fs::path run = w.folder.path() / "run";
  const finished ended = run_to_end(w.command(run, 1), w.folder.path() / "log");
  CAPTURE(ended.output);
  REQUIRE(ended.code == 0);
  check_law(run);
  const auto kinds = modules_world::judged_in(run, right);
  CHECK_FALSE(kinds.contains("ok"));
  CHECK(kinds.contains("wrong_value"));
}
