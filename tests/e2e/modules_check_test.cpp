// `quern tasks check` of a folder of modules, some of which cannot be checked: it goes on, and says
// at the end what became of each.
#include "base/file.hpp"
#include "e2e/run_fixture.hpp"
#include "env/lanes/pytorch/process/python_zygote.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::test;
namespace fs = std::filesystem;

namespace {

std::string module_with(const std::string& forward,
                        const std::string& input = "torch.rand(16, 32)") {
  return "import torch\n\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        " +
         forward + "\n\n\ndef get_inputs():\n    return [" + input + "]\n";
}

}  // namespace

TEST_CASE("tasks check goes on behind modules that take too long, too much or fail") {
  if (const auto python = env::find_module_python(); !python) return skip(python.error().message);
  const auto folder = std::move(base::temp_folder::make().value());
  const fs::path tasks = folder.path() / "tasks";
  fs::create_directory(tasks);
  const auto write = [&](const std::string& name, const std::string& text) {
    REQUIRE(base::write_file_atomic(tasks / (name + ".py"), text));
  };
  write("a_good_one", module_with("return torch.relu(x - 0.5)"));
  write("b_broken", module_with("return undefined_name"));
  write("d_large", module_with("return x + 1", "torch.rand(1 << 14, 1 << 14)"));
  write("e_hungry", module_with("return x + torch.ones(1 << 33).sum()"));
  write("f_constant", module_with("return x * 0"));
  write("g_draws", module_with("return torch.nn.functional.dropout(x, 0.25)"));
  write("h_one_number", module_with("return (x * x).mean()"));
  int commands = 0;
  const auto check = [&](std::vector<std::string> more, const std::string& task_s = "60") {
    more.insert(more.begin(), {program("quern"), "tasks", "check"});
    more.insert(more.end(), {"--sandbox", "best_effort", "--task-s", task_s});
    return run_to_end(std::move(more), folder.path() / ("log" + std::to_string(++commands)));
  };
  const finished whole = check({tasks.string()});
  CAPTURE(whole.output);
  CHECK(whole.code == 1);
  CHECK(contains(whole.output, "7 tasks, 2 refused, 2 skipped, 3 as they should be"));
  const auto summary = whole.output.find("refused:\n");
  REQUIRE(summary != std::string::npos);
  const std::string end = whole.output.substr(summary);
  CHECK(contains(end, "  b_broken: "));
  CHECK(contains(end, "undefined_name"));
  CHECK(contains(end, "  f_constant: every output has one value"));
  CHECK(contains(end,
                 "  d_large: inputs, results and weights have 2048 MiB, on a core at most 1024"));
  CHECK(contains(end, "  e_hungry: "));
  CHECK(contains(end, "--task-gib allows more"));
  CHECK_FALSE(contains(end, "a_good_one"));

  // One that never ends, and behind it one that fails in a process of its own.
  const fs::path slow = folder.path() / "slow";
  fs::create_directory(slow);
  REQUIRE(base::write_file_atomic(slow / "a_endless.py", module_with("while True: pass")));
  fs::copy(tasks / "b_broken.py", slow);
  const finished late = check({slow.string()}, "25");
  CAPTURE(late.output);
  CHECK(late.code == 1);
  CHECK(contains(late.output, "2 tasks, 1 refused, 1 skipped"));
  CHECK(contains(late.output, "  a_endless: it took more than 25 s: --task-s allows more"));
  CHECK(contains(late.output, "  b_broken: "));

  const std::string broken = (tasks / "b_broken.py").string();
  CHECK(check({broken}).code == 1);
  CHECK(check({broken, "--best-effort"}).code == 0);
  CHECK(check({"/nonexistent.py", "--best-effort"}).code != 0);
  const finished limit = check({broken, "--task-gib", "99"});
  CHECK(limit.code == 2);
  CHECK(contains(limit.output, "--task-gib"));
}
