// What tests of this lane's judge share: one evaluator, a task as KernelBench has them, and how a
// candidate is judged.
#pragma once

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

#include "env/lanes/pytorch/process/python_zygote.hpp"
#include "env/lanes/pytorch/pytorch_evaluator.hpp"
#include "env/lanes/pytorch/tasks/pytorch_body.hpp"
#include "env/task/task.hpp"
#include "support/test.hpp"

namespace quern::test::modules {

using namespace quern::env;

/// Weights, a buffer and a tensor that state_dict leaves out; two inputs, the second a number.
inline const char* const layered = R"(
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.register_buffer("scale", torch.rand(features) + 1)
        self.shift = torch.rand(features)

    def forward(self, x, factor):
        return torch.relu(self.linear(x)) * self.scale * factor + self.shift

def get_inputs():
    return [torch.rand(24, 32), 0.5]

def get_init_inputs():
    return [32]
)";

inline std::shared_ptr<const task> task_of(const std::string& reference,
                                           torch_precision precision = torch_precision::fp32) {
  auto made = std::make_shared<task>();
  made->name = "module_under_test";
  made->lane = &pytorch_lane;
  made->family = "test";
  made->tolerance = usual_tolerance(precision);
  made->reference = reference;
  auto body = std::make_shared<pytorch_body>();
  body->precision = precision;
  made->body = body;
  return made;
}

/// The reference with another class name and, in the place of its forward's last line, `body`.
inline std::string candidate(const std::string& result, const std::string& before = {},
                             const std::string& in_forward = {}) {
  std::string text = layered;
  const auto put = [&](const std::string& from, const std::string& to) {
    const auto at = text.find(from);
    if (at == std::string::npos) throw std::logic_error("not in the module: " + from);
    text.replace(at, from.size(), to);
  };
  put("class Model(", before + "\nclass ModelNew(");
  put("        return torch.relu(self.linear(x)) * self.scale * factor + self.shift",
      in_forward + "        return " + result);
  return text;
}

inline const char* const honest = "torch.relu(self.linear(x)) * self.scale * factor + self.shift";

inline pytorch_evaluator_options options() {
  pytorch_evaluator_options o;
  o.runner_program = program_dir() / "quern-runner";
  o.reference_program = program_dir() / "quern-torch";
  o.sandbox_required = false;
  o.time_budget_s = 0.3;
  o.call_cpu_s = 8;  // what imports a compiler first takes two on a busy machine
  o.load_cpu_s = 20;
  o.input_seed = 7;
  return o;
}

/// Null: this machine has no Python with torch, and the case is skipped.
inline pytorch_evaluator* judge() {
  static std::unique_ptr<pytorch_evaluator> opened;
  if (!opened) {
    if (const auto python = find_module_python(); !python) {
      skip(python.error().message);
      return nullptr;
    }
    auto made = pytorch_evaluator::open(options());
    CAPTURE(made ? "" : made.error().message);
    REQUIRE(made);
    opened = std::move(*made);
  }
  return opened.get();
}

/// Right or wrong, without a clock unless `timed`.
inline verdict judged(const std::string& source, std::shared_ptr<const task> of = task_of(layered),
                      bool timed = false) {
  evaluation_request request;
  request.subject = std::move(of);
  request.source = source;
  request.verify_only = !timed;
  request.recheck = true;  // no verdict is taken from another case
  return judge()->evaluate(request);
}

}  // namespace quern::test::modules
