// An evaluator of modules whose GPU is none (fake_device.cpp): its processes, their sandbox and
// Python are real.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "env/lanes/pytorch/gpu/pytorch_device_state.hpp"
#include "tests/env/pytorch/gpu/fake_share.hpp"
#include "tests/env/pytorch/judge/modules_fixture.hpp"

namespace quern::test::modules {

struct fake_host {
  base::temp_folder share = share_with_a_fake_device();
  pytorch_device_evaluator::state state;
};

/// Null: this machine has no Python with torch, and the case is skipped.
inline pytorch_device_evaluator::state* device_that_is_none() {
  static std::unique_ptr<fake_host> host;
  if (host) return &host->state;
  if (const auto python = find_module_python(); !python) {
    skip(python.error().message);
    return nullptr;
  }
  host = std::make_unique<fake_host>();
  ::setenv("QUERN_SHARE", host->share.path().c_str(), 1);
  auto& s = host->state;
  s.options.input_seed = 7;
  s.options.time_budget_s = 0.3;
  s.options.noise_limit = 0.5;  // three processes on two cores: nothing here is about speed
  s.mode = sandbox_mode::best_effort;
  auto children = spawner::create(s.mode);
  REQUIRE(children);
  s.children = std::move(*children);
  s.builds = std::make_unique<candidate_builds>(*s.children, std::filesystem::path());
  s.recorder = std::make_unique<recording_python>(s.mode);
  s.kernels =
      std::make_unique<candidate_kernels>(*s.children, *s.recorder, std::filesystem::path());
  s.sheets = std::make_unique<task_sheets>(*s.recorder);
  s.null = null_distribution::of_modules_on_gpus();
  s.core = core_choice::choose(-1).value();
  s.gpu.library = program_dir() / "libquern_fake_device.so";
  s.gpu.access.devices = {"/dev/zero"};
  auto context = device_context::open(0, s.gpu.library);
  CAPTURE(context ? "" : context.error().message);
  REQUIRE(context);
  auto care = device_care::begin(s, 0, **context);
  REQUIRE(care);
  s.care.emplace(std::move(*care));
  s.set_up(std::move(*context));
  return &s;
}

/// A timed one is judged again while it is noisy, as a run does: other processes take turns with
/// these on few cores.
inline verdict judged_by_fake(const std::string& source, bool timed = false,
                              const std::shared_ptr<const task>& of = task_of(layered),
                              const measure_name& how = {},
                              std::optional<suite_policy> policy = std::nullopt) {
  evaluation_request request;
  request.subject = of;
  request.source = source;
  request.verify_only = !timed;
  request.policy = policy;
  verdict v;
  for (int times = 0; times < 4; ++times) {
    v = {};
    pytorch_device_evaluation one(*device_that_is_none(), request, how, v);
    one.run();
    if (v.kind != verdict_kind::noisy) break;
  }
  return v;
}

}  // namespace quern::test::modules
