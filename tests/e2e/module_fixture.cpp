// Modules with a loop.
#include "e2e/module_fixture.hpp"

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/text.hpp"
#include "env/lanes/pytorch/process/python_zygote.hpp"
#include "support/test.hpp"

namespace quern::test {

namespace fs = std::filesystem;

std::string looped_module::model(const std::string& as, int rounds,
                                 const std::string& result) const {
  const bool sleeps = pause_ms > 0;
  return fmt::format(
      R"({}import torch
import torch.nn as nn


class {}(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x):
{}        y = self.linear(x)
        for _ in range({}):
            y = {}
        return {}
)",
      sleeps ? "import time\n" : "", as,
      sleeps ? fmt::format("        time.sleep({:.6f})\n", pause_ms * rounds / 1000) : "", rounds,
      step, result);
}

std::string looped_module::reference() const {
  return model("Model", times, "y") + fmt::format(R"(

def get_inputs():
    return [torch.rand(64, {0})]


def get_init_inputs():
    return [{0}]
)",
                                                  width);
}

std::string looped_module::task_file() const {
  std::string text = "quern_task: 1\nname: " + name +
                     "\nlane: pytorch\nfamily: modules\nprecision: fp32\n"
                     "tolerance: {atol: 1.0e-4, rtol: 1.0e-4}\nbaseline: reference\n"
                     "reference: |\n";
  const std::string module = reference();
  for (const std::string_view line : base::split(module, '\n'))
    text += line.empty() ? "\n" : "  " + std::string(line) + "\n";
  return text;
}

std::vector<looped_module> looped_modules(int times) {
  return {{"clamped_linear", "torch.maximum(torch.relu(y), x)", 128, times},
          {"bounded_linear", "torch.minimum(torch.relu(y), x)", 96, times}};
}

std::vector<looped_module> sleeping_modules(int times, double call_ms) {
  auto modules = looped_modules(times);
  for (looped_module& one : modules)
    one.pause_ms = call_ms / times;
  return modules;
}

void write_suite(const fs::path& folder, const std::vector<looped_module>& modules) {
  fs::create_directory(folder);
  for (const looped_module& one : modules)
    REQUIRE(base::write_file_atomic(folder / (one.name + ".py"), one.reference()));
}

std::string module_completion(const std::string& code, const std::string& analysis,
                              const std::string& design) {
  return "## Performance Analysis\n" + analysis + "\n\n## Algorithm Design\n" + design +
         "\n\n## Code\n```python\n" + code + "```\n";
}

std::vector<std::string> module_settings(const fs::path& suite) {
  return {"env.lane=pytorch",          "tasks.source=suite",    "tasks.suite=" + suite.string(),
          "policy.max_new_tokens=420", "env.time_budget_s=0.3", "env.precision=0.06",
          "env.noise_limit=0.5"};
}

bool has_module_python() {
  const auto python = env::find_module_python();
  if (!python) skip(python.error().message);
  return python.has_value();
}

}  // namespace quern::test
