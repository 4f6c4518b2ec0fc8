// Results of a reference.
#include "env/lanes/pytorch/module_oracle.hpp"

#include <algorithm>

#include "env/lanes/pytorch/module_content.hpp"

namespace quern::env {
namespace {

constexpr question_limits oracle_limits{120, 480};

}  // namespace

base::status module_oracle::open(bool in_f64, std::int64_t calls) {
  results_ = at_.outputs;
  if (in_f64)
    for (tensor_layout& one : results_)
      if (is_floating(one.type)) {
        one.type = dtype::f64;
        one.bytes = one.elements * static_cast<std::int64_t>(sizeof(double));
      }
  QUERN_TRY(auto inputs, make_input_arena(at_, calls));
  QUERN_TRY(auto outputs, tensor_arena::create(memory_use::outputs, results_, calls));
  QUERN_TRY(auto plan, make_plan(at_, inputs, outputs));
  plan.in_f64 = in_f64 ? 1 : 0;
  auto& link = process_.link();
  auto step = link.map(inputs.request(0), inputs.fd(), oracle_limits);
  if (step) step = link.map(outputs.request(1), outputs.fd(), oracle_limits);
  if (step) step = link.plan(plan, oracle_limits);
  if (!step) return tl::make_unexpected(reference_error(step.error()));
  inputs_.emplace(std::move(inputs));
  outputs_.emplace(std::move(outputs));
  return {};
}

base::expected<std::vector<tensor_bytes>> module_oracle::run(
    const std::vector<tensor_bytes>& inputs) {
  const expected_case call{"", inputs, {}};
  QUERN_TRY(auto results, run_in_a_row(std::span(&call, 1)));
  return std::move(results.front());
}

base::expected<std::vector<std::vector<tensor_bytes>>> module_oracle::run_in_a_row(
    std::span<const expected_case> calls) {
  const auto count = std::ssize(calls);
  for (std::int64_t c = 0; c < count; ++c)
    for (std::size_t i = 0; i < at_.inputs.size(); ++i)
      std::ranges::copy(calls[static_cast<std::size_t>(c)].inputs[i], inputs_->at(i, c).begin());
  if (const auto ran = process_.link().run(0, count, oracle_limits); !ran)
    return tl::make_unexpected(reference_error(ran.error()));
  std::vector<std::vector<tensor_bytes>> all;
  for (std::int64_t c = 0; c < count; ++c) {
    auto& results = all.emplace_back();
    for (std::size_t o = 0; o < results_.size(); ++o) {
      const auto bytes = outputs_->at(o, c);
      results.emplace_back(bytes.begin(), bytes.end());
    }
  }
  return all;
}

}  // namespace quern::env
