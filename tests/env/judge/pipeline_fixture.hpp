// What tests of the whole pipeline share: evaluators, a small task, and how a candidate is judged.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/file.hpp"
#include "env/lanes/cpp/cpp_evaluator.hpp"
#include "env/task/task_codec.hpp"
#include "support/test.hpp"

namespace quern::test::pipeline {

using namespace quern::env;

/// Short budgets; the programs are those of this build.
inline cpp_evaluator_options options() {
  cpp_evaluator_options o;
  o.runner_program = quern::test::program_dir() / "quern-runner";
  o.reference_program = quern::test::program_dir() / "quern-torch";
  o.sandbox_required = false;
  o.time_budget_s = 0.3;
  o.call_cpu_s = 0.3;
  return o;
}

inline cpp_evaluator& judge() {
  static auto opened = cpp_evaluator::open(options()).value();
  return *opened;
}

/// Measures for longer where the machine is not quiet, to the same limits.
inline cpp_evaluator& patient() {
  static auto opened = [] {
    auto o = options();
    o.time_budget_s = 3;
    return cpp_evaluator::open(o).value();
  }();
  return *opened;
}

/// Without the static screen: what the sandbox and the checks say alone.
inline cpp_evaluator& unscreened() {
  static auto opened = [] {
    auto o = options();
    o.static_screen = false;
    return cpp_evaluator::open(o).value();
  }();
  return *opened;
}

inline const char* const twice = R"(quern_task: 1
name: twice
lane: cpp
family: elementwise
sizes: {n: 65536}
hidden_sizes: [{n: 7}, {n: 1000}]
inputs:
  - {name: x, dtype: f32, shape: [n], dist: [normal, large, sparse, uniform]}
outputs:
  - {name: y, dtype: f32, shape: [n]}
tolerance: {atol: 1.0e-6, rtol: 1.0e-5}
baseline: plain
cost: {bytes: 8*n, flops: n}
reference: |
  def forward(x):
      return x * 2
plain: |
  extern "C" void kernel(const float* x, float* y, int64_t n, void*, void*) {
    for (int r = 0; r < 8; ++r) {
      for (int64_t i = 0; i < n; ++i) y[i] = x[i] * 2;
      asm volatile("" ::: "memory");
    }
  }
)";

inline std::shared_ptr<const task> task_of(std::string text) {
  return std::make_shared<const task>(parse_task(text).value());
}

inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

/// A candidate for `twice` with this body; n, x and y are in scope.
inline std::string kernel(const std::string& body, const std::string& before = "") {
  return before +
         "\nextern \"C\" void kernel(const float* x, float* y, int64_t n, void* workspace, void*) "
         "{\n" +
         body + "\n}\n";
}

inline const std::string loop = "for (int64_t i = 0; i < n; ++i) y[i] = x[i] * 2;";

inline verdict verify(cpp_evaluator& with, const std::string& source,
                      const std::string& text = twice) {
  evaluation_request r;
  r.subject = task_of(text);
  r.source = source;
  r.verify_only = true;
  return with.evaluate(r);
}

/// Measures until the machine lets it, so that a busy one does not decide the test.
inline verdict measure(cpp_evaluator& with, const std::string& source,
                       const std::string& text = twice,
                       const std::function<void(evaluation_request&)>& change = {}) {
  verdict v;
  for (int attempt = 0; attempt < 40; ++attempt) {
    evaluation_request r;
    r.subject = task_of(text);
    r.source = source;
    r.seed = static_cast<std::uint64_t>(attempt);
    if (change) change(r);
    v = with.evaluate(r);
    if (v.kind != verdict_kind::noisy) break;
  }
  return v;
}

inline void honest_one_passes(cpp_evaluator& with) {
  const auto v = verify(with, kernel(loop));
  CAPTURE(v.detail);
  CHECK(v.kind == verdict_kind::ok);
}

/// A file of tests/hostile/cpp.
inline std::string hostile(const std::string& name) {
  return base::read_file(source_dir() / "tests/hostile/cpp" / name).value();
}

/// The task that the hostile candidates pretend to solve.
inline std::string affine() {
  return hostile("affine.task.yaml");
}

}  // namespace quern::test::pipeline
