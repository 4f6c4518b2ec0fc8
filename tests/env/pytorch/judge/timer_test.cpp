// References timed by themselves, by the real Python and sandbox. No time is asserted.
#include <csignal>
#include <filesystem>

#include <unistd.h>

#include "base/file.hpp"
#include "env/judge/evaluator_options.hpp"
#include "env/lanes/pytorch/module_checker.hpp"
#include "env/task/reference_timer.hpp"
#include "env/task/task_check.hpp"
#include "modules_fixture.hpp"

using namespace quern::test;
using namespace quern::test::modules;

namespace {

const reference_trials few_trials{2, 4, 2, 30};

task_checker& opened_checker() {
  static const auto opened = [] {
    evaluator_options options;
    options.sandbox_required = false;
    return open_module_checker(options).value();
  }();
  return *opened;
}

/// Warm Pythons of this process.
std::vector<pid_t> warm_pythons() {
  std::vector<pid_t> found;
  const std::string parent = fmt::format(" {} ", getpid());
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const auto words = quern::base::read_file(entry.path() / "cmdline");
    const auto stat = quern::base::read_file(entry.path() / "stat");
    if (!words || !stat || !contains(*words, "zygote.py")) continue;
    // "number (name) state parent ..."
    const std::size_t behind = stat->rfind(')') + 3;
    if (stat->compare(behind, parent.size(), parent) == 0)
      found.push_back(std::stoi(entry.path().filename().string()));
  }
  return found;
}

std::string module_of(const char* name) {
  return quern::base::read_file(source_dir() / "tests/modules" / name).value();
}

}  // namespace

TEST_CASE("a reference is timed call by call, also one that no candidate can be compared with") {
  reference_timer& timer = *opened_checker().timer();
  CHECK(timer.device() == "cpu");
  CHECK(contains(timer.settings(), "torch"));
  for (const char* name : {"updates_buffers.py", "draws.py", "keeps_state.py"}) {
    CAPTURE(name);
    const auto times = timer.time(*task_of(module_of(name)), reference_mode::eager, few_trials);
    REQUIRE_MESSAGE(times.has_value(), times.error().message);
    CHECK(times->size() == 4);
    for (const std::int64_t ns : *times)
      CHECK(ns > 0);
  }
}

TEST_CASE("a reference that cannot be timed here says why") {
  reference_timer& timer = *opened_checker().timer();
  const auto why = [&](const std::string& forward, const std::string& inputs) {
    const std::string text =
        "import torch\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        " +
        forward + "\n\ndef get_inputs():\n    return [" + inputs + "]\n";
    const auto times = timer.time(*task_of(text), reference_mode::eager, few_trials);
    REQUIRE_FALSE(times.has_value());
    return times.error();
  };
  // 2 GiB in and 2 GiB out: known before memory is taken.
  const auto large = why("return x + 1", "torch.rand(1 << 29)");
  CHECK(large.code == quern::base::errc::exhausted);
  CHECK(contains(large.message, "4096 MiB"));
  const auto broken = why("raise ValueError('not today')", "torch.rand(8)");
  CHECK(broken.code == quern::base::errc::invalid_argument);
  CHECK(contains(broken.message, "not today"));
}

TEST_CASE("whether a reference lacked memory is decided by its allocations, not by a text") {
  const auto module_with = [](const std::string& forward) {
    return "import torch\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        " +
           forward + "\n\ndef get_inputs():\n    return [torch.rand(8)]\n";
  };
  const auto found = [&](const std::string& forward) {
    const auto report = opened_checker().check(*task_of(module_with(forward)), 7);
    REQUIRE_MESSAGE(report.has_value(), report.error().message);
    REQUIRE_FALSE(report->findings.empty());
    CAPTURE(report->findings[0].text);
    const bool told = contains(report->findings[0].text, "--task-gib allows more");
    CHECK(told == (report->findings[0].rule == "skipped"));
    return report->findings[0];
  };
  const std::string hungry = "return x + torch.ones(1 << 33).sum()";
  const auto torchs = found(hungry);
  CHECK(torchs.rule == "skipped");
  CHECK(found("return x + len(bytearray(1 << 40))").rule == "skipped");
  // The control: a module that raises the very text.
  const std::string begin = "RuntimeError: ";
  const auto at = torchs.text.find(begin) + begin.size();
  const std::string text = torchs.text.substr(at, torchs.text.find(" (line") - at);
  CHECK(contains(text, "can't allocate memory"));
  const auto liar = found("raise RuntimeError(r'''" + text + "''')");
  CHECK(liar.rule == "failed");
  CHECK(contains(liar.text, "can't allocate memory"));
  // No candidate is judged by a reference that no core has the memory for.
  if (judge() == nullptr) return;
  const auto kind_with = [&](const std::string& forward) {
    return name_of(judged(candidate(honest), task_of(module_with(forward))).kind);
  };
  CHECK(kind_with(hungry) == "unsupported");
  CHECK(kind_with("raise RuntimeError(r'''" + text + "''')") == "invalid_reference");
}

TEST_CASE("Ctrl-C, which every process of a terminal gets, ends no reference that is being timed") {
  reference_timer& timer = *opened_checker().timer();
  const auto pythons = warm_pythons();
  REQUIRE_FALSE(pythons.empty());
  for (const pid_t one : pythons)
    kill(one, SIGINT);
  const auto times = timer.time(*task_of(layered), reference_mode::eager, few_trials);
  CHECK_MESSAGE(times.has_value(), times.error().message);
}

TEST_CASE("a core refuses the modes that need a compiler in the sandbox, or a GPU") {
  reference_timer& timer = *opened_checker().timer();
  CHECK(timer.check_mode(reference_mode::eager).has_value());
  CHECK(contains(timer.check_mode(reference_mode::compile).error().message, "compiler"));
  CHECK(contains(timer.check_mode(reference_mode::cudagraphs).error().message, "GPU"));
  const auto asked = timer.time(*task_of(layered), reference_mode::compile, few_trials);
  REQUIRE_FALSE(asked.has_value());
  CHECK(asked.error().code == quern::base::errc::unavailable);
}
