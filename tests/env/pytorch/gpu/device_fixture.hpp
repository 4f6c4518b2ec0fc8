// What tests of modules on a GPU share: one evaluator, a task, and how a candidate is judged.
#pragma once

#include <memory>
#include <string>

#include "env/device/gpu_probe.hpp"
#include "env/lanes/pytorch/gpu/pytorch_device_evaluator.hpp"
#include "support/gpu.hpp"
#include "tests/env/pytorch/judge/modules_fixture.hpp"

namespace quern::test::modules {

inline evaluator_options device_options() {
  evaluator_options o;
  o.runner_program = program_dir() / "quern-runner";
  o.reference_program = program_dir() / "quern-torch";
  o.sandbox_required = false;
  o.time_budget_s = 0.3;
  o.input_seed = 7;
  o.on_gpu = true;
  o.gpu = the_gpu();
  return o;
}

/// Null: there is no device, and the case is skipped.
inline pytorch_device_evaluator* device_judge() {
  // Not taken down at exit: the driver is, before it.
  static auto& opened = *new std::unique_ptr<pytorch_device_evaluator>;
  static std::string problem;
  if (!opened && problem.empty()) {
    auto made = pytorch_device_evaluator::open(device_options());
    if (made)
      opened = std::move(*made);
    else
      problem = made.error().message;
  }
  return go_on_with_gpu(opened != nullptr, problem) ? opened.get() : nullptr;
}

/// As large as a task whose call takes some 100 us; of more rows, in proportion.
inline std::string wide(int rows = 8192) {
  std::string text = layered;
  const auto put = [&](std::string_view from, std::string_view to) {
    text.replace(text.find(from), from.size(), to);
  };
  put("torch.rand(24, 32)", fmt::format("torch.rand({}, 512)", rows));
  put("return [32]", "return [512]");
  return text;
}

/// Asked again where the clock says nothing of the candidate.
inline verdict judged_on_device(const std::string& source, bool timed = false,
                                std::shared_ptr<const task> of = task_of(layered),
                                const std::string& protocol = "paired/1") {
  evaluation_request request;
  request.protocol = protocol;
  request.subject = std::move(of);
  request.source = source;
  request.verify_only = !timed;
  request.recheck = true;  // no verdict is taken from another case
  constexpr std::uint64_t tries = 3;
  verdict v;
  for (request.seed = 0; request.seed < tries; ++request.seed) {
    v = device_judge()->evaluate(request);
    if (v.kind != verdict_kind::noisy) break;
  }
  return v;
}

}  // namespace quern::test::modules
