// The evaluator of lane `cpp` in trouble: found out, left alone, tried again with everything made
// anew.
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
  if (options.restart_reference) care.look_after(v);
}

std::optional<device_trouble> cpp_evaluator::trouble() const {
  return state_->care.trouble();
}

void cpp_evaluator::recover() {
  state_->care.recover([this] { return state_->self_test(); });
}

}  // namespace quern::env
