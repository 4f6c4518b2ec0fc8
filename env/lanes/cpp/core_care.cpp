// The evaluator of lane `cpp` in trouble: found out, left alone, tried again with everything made
// anew.
#include "base/log.hpp"
#include "env/lanes/cpp/cpp_state.hpp"
#include "env/task/task_codec.hpp"

namespace quern::env {
namespace {

constexpr const char* test_task = R"(quern_task: 1
name: self_test
lane: cpp
family: elementwise
sizes: {n: 256}
hidden_sizes: [{n: 7}]
inputs:
  - {name: x, dtype: f32, shape: [n], dist: [normal, large]}
outputs:
  - {name: y, dtype: f32, shape: [n]}
tolerance: {atol: 1.0e-6, rtol: 1.0e-5}
baseline: reference
cost: {bytes: 8*n, flops: n}
reference: |
  def forward(x):
      return x * 2
)";

/// Different each time, so that it is compiled and not remembered.
std::string test_kernel(std::uint64_t number) {
  return fmt::format(
      "extern \"C\" void kernel(const float* x, float* y, int64_t n, void*, void*) {{\n"
      "  const float test_{} = 2;\n"
      "  for (int64_t i = 0; i < n; ++i) y[i] = test_{} * x[i];\n"
      "}}\n",
      number, number);
}

}  // namespace

std::optional<std::string> cpp_evaluator::state::self_test() {
  auto subject = parse_task(test_task);
  if (!subject) return subject.error().message;
  tasks->renew();
  evaluation_request request;
  request.subject = std::make_shared<const task>(std::move(*subject));
  request.source = test_kernel(++self_tests);
  request.verify_only = true;
  verdict v;
  const measure_name how;
  cpp_evaluation one(*this, request, how, v);
  one.run();
  if (v.kind != verdict_kind::ok) return fmt::format("{}: {}", name_of(v.kind), v.detail);
  // The task may have been prepared by an earlier test.
  const auto prepared = tasks->get(request.subject);
  if (!prepared) return prepared.error().message;
  if (const auto reference = tasks->fresh_reference(**prepared); !reference)
    return reference.error().message;
  return std::nullopt;
}

void cpp_evaluator::state::look_after(const verdict& v) {
  if (!options.restart_reference) return;
  if (v.kind != verdict_kind::infra_error) return quarantine.worked();
  const bool was_out = quarantine.entry().has_value();
  quarantine.failed(v.task, v.detail, clock.now_ns());
  if (const auto& out = quarantine.entry(); out && !was_out)
    base::log_error("evaluator", "core {} is in quarantine ({}): {}", core.core(),
                    name_of(out->cause), out->reason);
}

std::optional<device_trouble> cpp_evaluator::trouble() const {
  const auto& out = state_->quarantine.entry();
  if (!out) return std::nullopt;
  return device_trouble{fmt::format("{}: {}", name_of(out->cause), out->reason), out->since};
}

void cpp_evaluator::recover() {
  auto& s = *state_;
  if (!s.quarantine.test_due(s.clock.now_ns())) return;
  const auto problem = s.self_test();
  s.quarantine.tested(problem, s.clock.now_ns());
  if (problem) {
    base::log_warn("evaluator", "core {} stays in quarantine: {}", s.core.core(), *problem);
  } else {
    base::log_info("evaluator", "core {} passed its self-test and takes work again", s.core.core());
  }
}

}  // namespace quern::env
