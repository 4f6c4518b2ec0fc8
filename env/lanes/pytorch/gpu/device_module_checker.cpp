// The checks of tasks on a GPU.
#include "env/lanes/pytorch/gpu/device_module_checker.hpp"

#include <algorithm>
#include <cmath>

#include "env/lanes/pytorch/gpu/module_limits.hpp"
#include "env/lanes/pytorch/module_checker.hpp"
#include "env/lanes/pytorch/module_content.hpp"

namespace quern::env {
namespace {

/// For the device: evaluators have it for an evaluation each.
constexpr double longest_wait_to_check_s = 300;

void add_finding(task_report& report, bool fatal, std::string rule, std::string text) {
  report.findings.push_back({fatal, std::move(rule), std::move(text)});
}

/// Says that the task is not judged here, unless the host is to blame.
base::status report_task(task_report& report, const base::error& why) {
  if (why.code == base::errc::unavailable) return tl::make_unexpected(why);
  add_finding(report, true, why.code == base::errc::exhausted ? "skipped" : "failed", why.message);
  return {};
}

bool all_clean(const std::vector<device_finding>& found) {
  return std::ranges::all_of(found, [](const device_finding& one) { return one.clean(); });
}

}  // namespace

base::expected<task_report> device_module_checker::check(const task& what, std::uint64_t /*seed*/) {
  return look(what, true);
}

base::expected<task_report> device_module_checker::check_quickly(const task& what,
                                                                 std::uint64_t /*seed*/,
                                                                 plain_baselines /*plain*/) {
  return look(what, false);
}

base::expected<task_report> device_module_checker::look(const task& what, bool whole) {
  QUERN_CHECK(validate(what));
  task_report report;
  report.findings = what.body->check_texts(what);
  QUERN_TRY(auto turn, device_turn::open(with_.care->watch().bus_id()));
  if (!turn.wait(longest_wait_to_check_s))
    return base::fail(base::errc::timeout,
                      "the GPU was used by others for {:g} s: try again when they have ended",
                      longest_wait_to_check_s);
  QUERN_CHECK(with_.care->take_up());
  const auto prepared = with_.manager->get(std::make_shared<const task>(what));
  if (!prepared) {
    QUERN_CHECK(report_task(report, prepared.error()));
    return report;
  }
  device_module_task& of = **prepared;
  auto use = device_use::alone;
  const auto found =
      find_limit(of, 0, with_.manager->context(), with_.manager->memory(), use, nullptr);
  if (!found) {
    QUERN_CHECK(report_task(report, found.error()));
    return report;
  }
  report.facts = facts_of(of.sheet, of.places.at);
  report.facts.push_back(fmt::format("{} calls in a timed window on this GPU", of.slots));
  report.baseline_ns = std::llround(of.baseline_ns);
  report.floor_ns = std::llround(of.floor_ns);
  report.worst_error = of.share_of_limit;
  if (of.in_f64 == false && !of.sheet.draws)
    add_finding(report, false, "tolerance",
                "the reference does not run in f64: limits are those of its type");
  if (of.sheet.is_constant)
    add_finding(report, !what.degenerate, "constant_output",
                "every output has one value everywhere: a kernel that computes nothing would be "
                "right");
  if (whole) QUERN_CHECK(look_at_results(of, report));
  if (report.baseline_ns < what.lane->least_baseline_ns)
    add_finding(
        report, false, "baseline",
        fmt::format("a call takes {:.1f} us, at least {:.1f} can be measured well: larger "
                    "inputs",
                    of.baseline_ns / 1e3, static_cast<double>(what.lane->least_baseline_ns) / 1e3));
  return report;
}

base::status device_module_checker::call_on_inputs(device_module_task& of) {
  auto& context = with_.manager->context();
  QUERN_CHECK(context.wait());
  if (const auto called = call_reference(of, 1); !called)
    return tl::make_unexpected(reference_error(called.error()));
  return {};
}

base::status device_module_checker::look_at_results(device_module_task& of, task_report& report) {
  auto& context = with_.manager->context();
  auto& memory = with_.manager->memory();
  const task& what = *of.subject;
  // A candidate comes to all of them: what goes wrong there is to show here.
  if (const auto widened = widen_limit(of, context, memory); !widened) {
    QUERN_CHECK(report_task(report, widened.error()));
  }
  report.worst_error = of.share_of_limit;
  for (std::size_t place = 1; place < of.cases.size();) {
    auto use = device_use::alone;
    const auto judges = find_limit(of, place, context, memory, use, nullptr);
    if (!judges) {
      QUERN_CHECK(report_task(report, judges.error()));
    }
    place += judges.value_or(true) ? 1 : 0;
  }
  QUERN_TRY(const auto unused, inputs_without_use(of));
  for (const std::size_t i : unused)
    add_finding(report, !what.degenerate, "ignored_input",
                fmt::format("the results do not depend on {}: a kernel need not read it",
                            of.places.at.inputs[i].name));
  QUERN_CHECK(make_content(of, std::span(of.cases).first(1), context, memory));
  context.copy(memory.reference_inputs(), memory.staging(), of.places.inputs.stride());
  QUERN_CHECK(call_on_inputs(of));
  context.set(memory.snapshot(), of.places.outputs.stride(), 0);
  for (std::size_t o = 0; o < of.places.at.outputs.size(); ++o)
    context.compare(memory.snapshot() + of.places.outputs.offset(o),
                    memory.reference_outputs() + of.places.outputs.offset(o),
                    of.places.at.outputs[o], what.tolerance);
  QUERN_TRY(const auto found, context.wait());
  if (all_clean(found))
    add_finding(report, false, "zeros",
                "zeros are within the task's tolerance where that is not relative to the results' "
                "scale, as in KernelBench: it is relative here");
  return {};
}

base::expected<std::vector<std::size_t>> device_module_checker::inputs_without_use(
    device_module_task& of) {
  std::vector<std::size_t> unused;
  // Other inputs would have other random numbers.
  if (of.cases.size() < 2 || of.sheet.draws || of.places.at.inputs.empty()) return unused;
  auto& context = with_.manager->context();
  auto& memory = with_.manager->memory();
  const module_places& places = of.places;
  // One content stays where a candidate's inputs would be, its results in the snapshot; the other
  // one is in the staging.
  QUERN_CHECK(make_content(of, std::span(of.cases).first(1), context, memory));
  context.copy(memory.candidate_inputs(), memory.staging(), places.inputs.stride());
  context.copy(memory.reference_inputs(), memory.staging(), places.inputs.stride());
  QUERN_CHECK(call_on_inputs(of));
  context.copy(memory.snapshot(), memory.reference_outputs(), places.outputs.stride());
  QUERN_CHECK(context.wait());
  QUERN_CHECK(make_content(of, std::span(of.cases).subspan(1, 1), context, memory));
  for (std::size_t i = 0; i < places.at.inputs.size(); ++i) {
    const std::uint64_t from = places.inputs.offset(i);
    context.copy(memory.reference_inputs(), memory.candidate_inputs(), places.inputs.stride());
    context.copy(memory.reference_inputs() + from, memory.staging() + from,
                 static_cast<std::uint64_t>(places.at.inputs[i].bytes));
    QUERN_CHECK(call_on_inputs(of));
    for (std::size_t o = 0; o < places.at.outputs.size(); ++o)
      context.same_bits(memory.reference_outputs() + places.outputs.offset(o),
                        memory.snapshot() + places.outputs.offset(o), places.at.outputs[o]);
    QUERN_TRY(const auto found, context.wait());
    if (all_clean(found)) unused.push_back(i);
  }
  return unused;
}

base::expected<std::unique_ptr<task_checker>> open_device_module_checker(
    const evaluator_options& options) {
  QUERN_TRY(auto with, open_device_state(options, false));
  return std::make_unique<device_module_checker>(std::move(with));
}

}  // namespace quern::env
