// Contents of a module's calls, and what its reference gives on them.
#include "env/lanes/pytorch/module_expectations.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "env/lanes/pytorch/calibration.hpp"

namespace quern::env {
namespace {

/// Runs a described reference on contents, in its precision or in f64.
class module_oracle {
 public:
  module_oracle(python_child& process, const task_instance& at) : process_(process), at_(at) {}

  /// For so many calls of one question.
  base::status open(bool in_f64, std::int64_t calls = 1);
  base::expected<std::vector<tensor_bytes>> run(const std::vector<tensor_bytes>& inputs);
  /// All calls as one question; open() was told how many there are.
  base::expected<std::vector<std::vector<tensor_bytes>>> run_in_a_row(
      std::span<const expected_case> calls);

 private:
  python_child& process_;
  const task_instance& at_;
  std::optional<tensor_arena> inputs_, outputs_;
  std::vector<tensor_layout> results_;
};

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
  auto step = link.map(inputs.request(0), inputs.fd(), reference_limits);
  if (step) step = link.map(outputs.request(1), outputs.fd(), reference_limits);
  if (step) step = link.plan(plan, reference_limits);
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
  if (const auto ran = process_.link().run(0, count, reference_limits); !ran)
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

/// Numbers of contents, so that none is drawn twice: those of timed calls begin behind them.
constexpr std::uint64_t nominal_call = 0, second_call = 1, first_family_call = 2,
                        first_call_in_a_row = first_family_call + module_families.size();
/// Calls that a state is followed through.
constexpr std::uint64_t calls_in_a_row = 4;

bool has_whole_numbers(const task_instance& at) {
  return std::any_of(at.outputs.begin(), at.outputs.end(),
                     [](const tensor_layout& one) { return !is_floating(one.type); });
}

/// Where results are whole numbers, equal inputs make ties, of which each may be right.
bool makes_ties(std::string_view family) {
  return family == "constant" || family == "sparse";
}

/// Whether a floating element is zero in one of two contents and not in the other.
bool zeros_differ(const task_instance& at, const std::vector<tensor_bytes>& one,
                  const std::vector<tensor_bytes>& other) {
  for (std::size_t i = 0; i < at.inputs.size(); ++i) {
    if (!is_floating(at.inputs[i].type)) continue;
    const auto found = std::ranges::mismatch(one[i], other[i]);
    if (found.in1 == one[i].end()) continue;
    const auto width = static_cast<std::ptrdiff_t>(size_of(at.inputs[i].type));
    const auto element = (found.in1 - one[i].begin()) / width * width;
    const auto is_zero = [&](const tensor_bytes& bytes) {
      return std::all_of(bytes.begin() + element, bytes.begin() + element + width,
                         [](std::byte b) { return b == std::byte{0}; });
    };
    return is_zero(one[i]) != is_zero(other[i]);
  }
  return false;
}

/// One element changed, and zeros kept: a kernel may rely on those of a triangular input. Of inputs
/// that are hardly anything but zeros, one changes all the same.
std::vector<tensor_bytes> with_one_change(const task_instance& at,
                                          const std::vector<tensor_bytes>& inputs,
                                          std::uint64_t seed) {
  constexpr std::uint64_t tries = 24;
  std::vector<tensor_bytes> changed;
  for (std::uint64_t t = 0; t < tries; ++t) {
    changed = inputs;
    change_one_element(at, changed, seed + t);
    if (!zeros_differ(at, inputs, changed)) break;
  }
  return changed;
}

base::status draw_cases(module_task& to) {
  const task_instance& at = to.timed.instance;
  auto& cases = to.timed.cases;
  const auto add = [&](std::string name, std::uint64_t call,
                       std::string_view family) -> base::status {
    QUERN_TRY(auto inputs, to.content->draw(call, family));
    cases.push_back({std::move(name), std::move(inputs), {}});
    return {};
  };
  QUERN_CHECK(add("as get_inputs makes them", nominal_call, "nominal"));
  QUERN_CHECK(add("once more", second_call, "nominal"));
  if (at.inputs.empty()) return {};
  if (cases[0].inputs == cases[1].inputs && !to.subject->degenerate)
    return base::fail(base::errc::invalid_argument,
                      "get_inputs gives the same tensors under two seeds, so that a stored result "
                      "would be right. Draw them by torch's generator, and set no seed there");
  cases.push_back(
      {"one element changed", with_one_change(at, cases.front().inputs, to.making.seed), {}});
  for (std::size_t f = 0; f < module_families.size(); ++f) {
    const std::string_view family = module_families[f];
    if (makes_ties(family) && has_whole_numbers(at)) continue;
    QUERN_CHECK(add(std::string(family), first_family_call + f, family));
  }
  return {};
}

/// The results of the reference in f64 on every case; none where it does not run in f64.
std::vector<std::vector<tensor_bytes>> results_in_f64(module_oracle& oracle,
                                                      std::span<const expected_case> cases) {
  std::vector<std::vector<tensor_bytes>> wide;
  if (!oracle.open(true)) return {};
  for (const expected_case& one : cases) {
    auto results = oracle.run(one.inputs);
    if (!results) return {};
    wide.push_back(std::move(*results));
  }
  return wide;
}

bool are_finite(std::span<const result_scale> scales) {
  return std::ranges::all_of(scales, [](const result_scale& one) { return one.finite; });
}

/// Largest share of its limit that the reference's own error takes in an output.
double largest_share(std::span<const result_scale> scales, const output_limits& limits) {
  double most = 0;
  for (std::size_t o = 0; o < scales.size(); ++o)
    if (limits.at(o).atol > 0) most = std::max(most, scales[o].worst_error / limits.at(o).atol);
  return most;
}

/// Contents of calls through which a state is followed.
base::status draw_calls_in_a_row(module_task& to) {
  for (std::uint64_t c = 0; to.sheet.keeps_state && c < calls_in_a_row; ++c) {
    QUERN_TRY(auto inputs, to.content->draw(first_call_in_a_row + c, "nominal"));
    to.timed.in_a_row.push_back({fmt::format("call {} in a row", c + 1), std::move(inputs), {}});
  }
  return {};
}

/// What the reference gives on every case, and how far from it a candidate may be. Hidden cases on
/// which it cannot judge are left out.
base::status expect_cases(module_task& to, python_child& process) {
  const task_instance& at = to.timed.instance;
  module_oracle oracle(process, at);
  QUERN_CHECK(oracle.open(false));
  for (expected_case& one : to.timed.cases) {
    auto want = oracle.run(one.inputs);
    if (!want) return base::in_context(one.name, want.error());
    one.want = std::move(*want);
  }
  // In f64 other numbers are drawn.
  std::vector<std::vector<tensor_bytes>> wide;
  if (!to.sheet.draws) wide = results_in_f64(oracle, to.timed.cases);
  to.compared_with_f64 = !wide.empty();
  std::vector<expected_case> kept;
  for (std::size_t c = 0; c < to.timed.cases.size(); ++c) {
    expected_case& one = to.timed.cases[c];
    const auto scales =
        scales_of(at.outputs, one.want, wide.empty() ? std::span<const tensor_bytes>() : wide[c]);
    auto limits = limits_of(at, to.subject->tolerance, scales);
    if (c == 0) {
      QUERN_TRY(to.limit, limits);
      to.share_of_limit = largest_share(scales, to.limit);
    } else if (!limits || !are_finite(scales)) {
      continue;
    }
    one.limit = std::move(*limits);
    kept.push_back(std::move(one));
  }
  to.timed.cases = std::move(kept);
  return {};
}

/// The same of calls in a row. Of each the reference must be able to judge: nothing else tells that
/// a state is kept as it should be.
base::status expect_in_a_row(module_task& to, python_child& process) {
  auto& calls = to.timed.in_a_row;
  if (calls.empty()) return {};
  const task_instance& at = to.timed.instance;
  module_oracle oracle(process, at);
  std::vector<std::vector<tensor_bytes>> wide;
  if (to.compared_with_f64) {
    QUERN_CHECK(oracle.open(true, std::ssize(calls)));
    QUERN_TRY(wide, oracle.run_in_a_row(calls));
  }
  QUERN_CHECK(oracle.open(false, std::ssize(calls)));
  QUERN_TRY(auto want, oracle.run_in_a_row(calls));
  for (std::size_t c = 0; c < calls.size(); ++c) {
    calls[c].want = std::move(want[c]);
    const auto scales = scales_of(at.outputs, calls[c].want,
                                  wide.empty() ? std::span<const tensor_bytes>() : wide[c]);
    auto limits = limits_of(at, to.subject->tolerance, scales);
    if (!limits)
      return base::fail(base::errc::invalid_argument,
                        "the reference keeps state, and in {} {}: no candidate can be compared "
                        "with it. Give the task fewer or smaller steps between calls",
                        calls[c].name, limits.error().message);
    calls[c].limit = std::move(*limits);
  }
  return {};
}

}  // namespace

base::status draw_contents(module_task& to) {
  QUERN_CHECK(draw_cases(to));
  return draw_calls_in_a_row(to);
}

base::status expect(module_task& to, python_child& process) {
  QUERN_CHECK(expect_cases(to, process));
  return expect_in_a_row(to, process);
}

}  // namespace quern::env
