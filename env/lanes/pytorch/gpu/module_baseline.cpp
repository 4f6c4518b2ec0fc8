// The reference as a baseline other than eager.
#include "env/lanes/pytorch/gpu/module_baseline.hpp"

#include <optional>
#include <utility>
#include <vector>

#include "env/gpu/read_difference.hpp"
#include "env/judge/compare.hpp"
#include "env/judge/core_lock.hpp"
#include "env/lanes/pytorch/gpu/module_limits.hpp"

namespace quern::env {
namespace {

constexpr question_limits making_a_baseline = device_limits(make_baseline_s);
constexpr question_limits calling_a_baseline = device_limits(300);
/// Files of compilers and what they make.
constexpr std::int64_t compiling_work_bytes = std::int64_t{2} << 30;

/// What a process that refused, died or took too long means for the baseline.
base::error baseline_error(baseline_choice which, const runner_failure& why) {
  using enum runner_failure::kind;
  if (why.failure_kind == timeout)
    return {base::errc::invalid_argument,
            fmt::format("baseline {}: it was not made of this reference within {:g} s. Choose "
                        "another baseline",
                        name_of(which), make_baseline_s)};
  const bool own = why.failure_kind == refused || why.failure_kind == fault;
  return {
      own ? base::errc::invalid_argument : base::errc::unavailable,
      fmt::format("baseline {} cannot be made of this reference: {}", name_of(which), why.text)};
}

/// Waits for what was asked of it, where nothing is to be found.
base::status context_is_done(device_context& context) {
  if (const auto found = context.wait(); !found) return tl::make_unexpected(found.error());
  return {};
}

/// One call on the content that is there, whose results are copied to `to` where that is not 0.
base::status call_on_poison(device_module& process, baseline_choice which,
                            const device_module_task& of, device_context& context,
                            module_memory& memory, std::uint64_t to) {
  constexpr std::uint32_t not_a_number = 0xFFFFFFFF;
  for (std::size_t o = 0; o < of.places.at.outputs.size(); ++o)
    context.set(memory.reference_outputs() + of.places.outputs.offset(o),
                (static_cast<std::uint64_t>(of.places.at.outputs[o].bytes) + 3) / 4 * 4,
                not_a_number);
  QUERN_CHECK(context_is_done(context));
  if (const auto done = process.run(1, calling_a_baseline); !done)
    return tl::make_unexpected(baseline_error(which, done.error()));
  if (to == 0) return {};
  context.copy(to, memory.reference_outputs(), of.places.outputs.stride());
  return context_is_done(context);
}

/// Where the first result lies that is beyond the limit that is known of a case; none: none does.
base::expected<std::optional<std::size_t>> first_beyond(const device_module_task& of,
                                                        const module_case& one,
                                                        device_context& context,
                                                        const module_memory& memory,
                                                        std::vector<device_finding>& found) {
  const output_limits* limit = limit_of(of, one.family);
  if (limit == nullptr && is_left_out(of, one.family)) return std::nullopt;
  if (limit == nullptr)
    return base::fail(base::errc::unavailable, "{}: there is no limit of its results", one.name);
  for (std::size_t o = 0; o < of.places.at.outputs.size(); ++o)
    context.compare(memory.reference_outputs() + of.places.outputs.offset(o),
                    memory.snapshot() + of.places.outputs.offset(o), of.places.at.outputs[o],
                    limit->at(o));
  QUERN_TRY(found, context.wait());
  for (std::size_t o = 0; o < found.size(); ++o)
    if (!found[o].clean()) return o;
  return std::nullopt;
}

/// Whether it computes what eager does, on every case of the task.
base::status check_against_eager(device_module& process, baseline_choice which,
                                 device_module_task& of, device_context& context,
                                 module_memory& memory) {
  const std::vector<module_case> cases = of.cases;  // one may be left out
  for (const module_case& one : cases) {
    QUERN_CHECK(make_content(of, {&one, 1}, context, memory));
    context.copy(memory.reference_inputs(), memory.staging(), of.places.inputs.stride());
    QUERN_CHECK(
        call_on_poison(*of.processes.reference, which, of, context, memory, memory.snapshot()));
    QUERN_CHECK(call_on_poison(process, which, of, context, memory, 0));
    std::vector<device_finding> found;
    QUERN_TRY(auto beyond, first_beyond(of, one, context, memory, found));
    auto use = device_use::beside_others;
    while (beyond) {
      const auto wider = widen_limits(of, {&one, 1}, context, memory, use, nullptr);
      if (!wider)
        return base::in_context(fmt::format("baseline {}", name_of(which)), wider.error());
      if (!*wider) break;
      QUERN_TRY(beyond, first_beyond(of, one, context, memory, found));
    }
    if (!beyond) continue;
    const std::uint64_t at = of.places.outputs.offset(*beyond);
    const auto difference =
        read_difference(context, of.places.at.outputs[*beyond], memory.reference_outputs() + at,
                        memory.snapshot() + at, found[*beyond].first);
    return base::fail(base::errc::invalid_argument,
                      "baseline {} gives other results than the reference does: {}: {} ({} of {} "
                      "elements). Choose another baseline",
                      name_of(which), one.name, describe(difference), found[*beyond].wrong,
                      of.places.at.outputs[*beyond].elements);
  }
  return {};
}

}  // namespace

base::expected<device_module*> baseline_of(device_module_task& of, baseline_choice which,
                                           python_zygote& zygote, device_context& context,
                                           module_memory& memory, int core) {
  module_processes& processes = of.processes;
  if (processes.baseline && processes.baseline_is == which) return processes.baseline.get();
  processes.baseline.reset();  // first: its memory on the device is needed
  python_start how = device_start(false);
  how.core = core;
  if (is_compiled(which)) {
    how.compilers = true;
    how.core = -1;  // until it is made
    how.work_bytes = compiling_work_bytes;
  }
  QUERN_TRY(auto child, zygote.fork(how));
  auto made = std::make_unique<device_module>(zygote, std::move(child));
  if (const auto lent = memory.lend_to_reference(*made, of.places); !lent)
    return base::fail(base::errc::unavailable, "lending memory to baseline {}: {}", name_of(which),
                      lent.error().text);
  QUERN_TRY(const auto path, made->put("reference.py", of.subject->reference));
  if (const auto loaded = made->child().load(path, making_a_baseline); !loaded)
    return tl::make_unexpected(baseline_error(which, loaded.error()));
  const auto model = made->child().construct(of.making, of.sheet, of.weights, making_a_baseline);
  if (!model) return tl::make_unexpected(baseline_error(which, model.error()));
  // Compilers see values that a call may have.
  QUERN_CHECK(make_content(of, std::span(of.cases).first(1), context, memory));
  for (int slot = 0; slot < of.slots; ++slot)
    context.copy(
        memory.reference_inputs() + static_cast<std::uint64_t>(slot) * of.places.inputs.stride(),
        memory.staging(), of.places.inputs.stride());
  QUERN_CHECK(context_is_done(context));
  const auto called = made->child().call_as(name_of(which), of.slots, making_a_baseline);
  if (!called) return tl::make_unexpected(baseline_error(which, called.error()));
  // Its compilers are done with all others. A process of another user may stay where it is: times
  // are less even then.
  if (core >= 0) (void)pin_to(made->child().pid(), core);
  QUERN_CHECK(check_against_eager(*made, which, of, context, memory));
  processes.baseline = std::move(made);
  processes.baseline_is = which;
  return processes.baseline.get();
}

}  // namespace quern::env
