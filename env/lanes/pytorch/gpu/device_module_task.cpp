// What does not depend on the candidate.
#include "env/lanes/pytorch/gpu/device_module_task.hpp"

#include <algorithm>
#include <cmath>

#include "base/random.hpp"
#include "env/gpu/device_peak.hpp"
#include "env/judge/core_lock.hpp"
#include "env/lanes/pytorch/tasks/pytorch_body.hpp"
#include "env/measure/stats.hpp"

namespace quern::env {
namespace {

/// A reference on tensors of gigabytes, described and in f64.
constexpr question_limits of_reference = device_limits(300);
/// Host memory of a process: what modules and libraries take, and weights on their way.
constexpr std::int64_t host_bytes = std::int64_t{24} << 30;
/// Share of the device that the evaluator's memory for one call may take; the rest is for what the
/// two modules allocate.
constexpr double most_of_device = 0.6;
/// The evaluator's, the candidate's, and those of the reference's model.
constexpr double copies_of_weights = 3;
constexpr std::uint64_t bandwidth_footprint = std::uint64_t{1} << 30;
/// Calls of a window as long as a run's.
constexpr double most_slots = 32;
/// Share of the device that the contents and results of one window may take.
constexpr double most_of_device_for_window = 0.35;
/// Windows whose contents are made by one question, so that the device goes from one context to
/// another less often, and their bytes at most.
constexpr std::uint64_t windows_in_a_row = 8, most_row_bytes = std::uint64_t{1} << 30;

/// Where results are whole numbers, equal inputs make ties, of which each may be right.
bool family_makes_ties(std::string_view family) {
  return family == "constant" || family == "sparse";
}

bool gives_whole_numbers(const task_instance& at) {
  return std::ranges::any_of(at.outputs,
                             [](const tensor_layout& one) { return !is_floating(one.type); });
}

std::vector<module_case> cases_of(const device_module_task& of, std::uint64_t key) {
  base::random_stream seeds(key, "content of a module on a device");
  const auto seed = [&] { return seeds.next_u64() >> 2; };  // what Python's generators take
  std::vector<module_case> cases;
  const std::uint64_t nominal = seed();
  cases.push_back({"as get_inputs makes them", nominal, "nominal", false, {}, {}});
  cases.push_back({"once more", seed(), "nominal", false, {}, {}});
  if (of.places.at.inputs.empty()) return cases;
  cases.push_back({"one element changed", nominal, "nominal", true, {}, {}});
  for (const std::string_view family : module_families)
    if (!family_makes_ties(family) || !gives_whole_numbers(of.places.at))
      cases.push_back({std::string(family), seed(), family, false, {}, {}});
  return cases;
}

/// Waits for what was asked of the device, where nothing is to be found.
base::status waited(device_context& context) {
  if (const auto found = context.wait(); !found) return tl::make_unexpected(found.error());
  return {};
}

/// Whether the two contents are one: a stored result would be right.
base::status check_contents_differ(device_module_task& of, device_context& context,
                                   module_memory& memory) {
  if (of.places.at.inputs.empty() || of.subject->degenerate) return {};
  QUERN_CHECK(make_content(of, std::span(of.cases).first(1), context, memory));
  context.copy(memory.candidate_inputs(), memory.staging(), of.places.inputs.stride());
  QUERN_CHECK(make_content(of, std::span(of.cases).subspan(1, 1), context, memory));
  for (std::size_t i = 0; i < of.places.at.inputs.size(); ++i)
    context.same_bits(memory.candidate_inputs() + of.places.inputs.offset(i),
                      memory.staging() + of.places.inputs.offset(i), of.places.at.inputs[i]);
  QUERN_TRY(const auto found, context.wait());
  if (std::ranges::any_of(found, [](const device_finding& one) { return !one.clean(); })) return {};
  return base::fail(base::errc::invalid_argument,
                    "get_inputs gives the same tensors under two seeds, so that a stored result "
                    "would be right. Draw them by torch's generator, and set no seed there");
}

base::status check_fits_device(const module_sheet& sheet, const task_instance& at,
                               const quern_context_facts& device) {
  QUERN_TRY(const auto weights, weight_layouts(sheet));
  const module_places places(at);
  double bytes = static_cast<double>(places.slot_bytes());
  for (const tensor_layout& one : weights)
    bytes += copies_of_weights * static_cast<double>(one.bytes);
  const double most = most_of_device * static_cast<double>(device.memory_bytes);
  if (bytes <= most) return {};
  constexpr double mib = 1 << 20;
  return base::fail(base::errc::exhausted,
                    "inputs, results and weights of its calls, three times, have {:.0f} MiB, on "
                    "this device at most {:.0f}",
                    bytes / mib, most / mib);
}

/// Of tensors without memory; none: the module cannot be described so.
std::optional<module_sheet> sheet_ahead(python_child& reference, const module_making& making,
                                        const module_terms& terms) {
  if (terms.ahead) return terms.ahead;
  const auto text = reference.describe_without_values(making, of_reference);
  if (!text) return std::nullopt;
  auto sheet = parse_module_sheet(*text);
  return sheet ? std::optional(std::move(*sheet)) : std::nullopt;
}

/// With the module loaded. `left`: a process that has none; null: one is started.
base::expected<std::unique_ptr<device_module>> reference_process(
    std::unique_ptr<device_module> left, python_zygote& zygote, const std::string& text, int core) {
  if (!left) {
    python_start how = device_start(false);
    how.core = core;
    QUERN_TRY(auto child, zygote.fork(how));
    left = std::make_unique<device_module>(zygote, std::move(child));
  }
  QUERN_TRY(const auto path, left->put("reference.py", text));
  if (const auto loaded = left->child().load(path, of_reference); !loaded)
    return tl::make_unexpected(reference_error(loaded.error()));
  return left;
}

/// The same for content alone: no model is made there.
base::expected<std::unique_ptr<device_module>> content_process(std::unique_ptr<device_module> left,
                                                               python_zygote& zygote,
                                                               const device_module_task& of) {
  QUERN_TRY(auto process, reference_process(std::move(left), zygote, of.subject->reference, -1));
  if (const auto told = process->child().take_arguments(of.making, of.sheet, of_reference); !told)
    return tl::make_unexpected(reference_error(told.error()));
  return process;
}

/// Null where it cannot go on with another module.
std::unique_ptr<device_module> without_its_module(std::unique_ptr<device_module> process) {
  if (process && process->child().forget(of_reference).value_or(false)) return process;
  return nullptr;
}

/// What a call of the reference takes, less what stands around it. By the shortest of some: others
/// may be several times as long, while the driver makes contexts for candidates to come.
base::expected<double> time_of_a_call(device_module_task& of, device_context& context,
                                      module_memory& memory, int core) {
  constexpr int warm_ups = 3, measured = 5;
  constexpr double least_ns = 20'000, longest_wait_s = 60;
  QUERN_CHECK(make_content(of, std::span(of.cases).first(1), context, memory));
  context.copy(memory.reference_inputs(), memory.staging(), of.places.inputs.stride());
  QUERN_CHECK(waited(context));
  std::optional<core_lease> lease;
  if (core >= 0) {
    QUERN_TRY(auto taken, core_lease::take(core, longest_wait_s));
    lease.emplace(std::move(taken));
  }
  std::vector<double> calls, deliveries;
  for (int i = 0; i < warm_ups + measured; ++i) {
    const auto call = call_reference(of, 1);
    if (!call) return tl::make_unexpected(reference_error(call.error()));
    const auto delivery = of.processes.reference->deliver(1, of_reference);
    if (!delivery) return tl::make_unexpected(reference_error(delivery.error()));
    if (i < warm_ups) continue;
    calls.push_back(static_cast<double>(*call));
    deliveries.push_back(static_cast<double>(*delivery));
  }
  return std::max(least_ns, std::ranges::min(calls) - std::ranges::min(deliveries));
}

/// `asked_ns`: what a window lasts; 0: as in a run.
int slots_of(const device_module_task& of, const quern_context_facts& device, double asked_ns) {
  // So long, in calls of the reference, that what stands around it says little: a wake, the reading
  // of the cache, a first call that finds cold caches.
  constexpr double window_of_runs_ns = 1e6;
  const double window_ns = asked_ns > 0 ? asked_ns : window_of_runs_ns;
  const double room = most_of_device_for_window * static_cast<double>(device.memory_bytes) /
                      static_cast<double>(of.places.slot_bytes());
  // At least two, where there is room: inputs of a window lie at two addresses, and a module that
  // always reads the first is wrong. And four, where that is no more than 4 ms: the first call of a
  // window finds cold caches, and takes more or less than another first one.
  constexpr double first_call_matters = 4, window_of_few_calls_ns = 4e6;
  const double few =
      std::min(first_call_matters, std::ceil(window_of_few_calls_ns / of.baseline_ns));
  const double wanted = std::max({2.0, std::ceil(window_ns / of.baseline_ns), few});
  const double most = most_slots * std::max(1.0, window_ns / window_of_runs_ns);
  return static_cast<int>(std::clamp(std::min(wanted, room), 1.0, most));
}

/// Contents that are drawn in a row; 0: those of two windows are too large.
int row_of(const device_module_task& of) {
  if (of.places.at.inputs.empty()) return 0;
  const auto slots = static_cast<std::uint64_t>(of.slots);
  const std::uint64_t room = most_row_bytes / (of.places.inputs.stride() * slots);
  const std::uint64_t windows = std::min(windows_in_a_row, room);
  return windows < 2 ? 0 : static_cast<int>(windows * slots);
}

base::error lending_error(const runner_failure& why) {
  return {base::errc::unavailable, "lending memory to a module's process: " + why.text};
}

/// An element of the content gets the value of another one of its tensor, as long as neither or
/// both are zero: a kernel may rely on the zeros of a triangle.
base::status change_an_element(const device_module_task& of, std::uint64_t seed,
                               device_context& context, std::uint64_t base) {
  constexpr int tries = 24;
  base::random_stream places(seed, "the element that is changed");
  const auto& inputs = of.places.at.inputs;
  for (int t = 0; t < tries; ++t) {
    const auto i = static_cast<std::size_t>(places.below(inputs.size()));
    const std::size_t width = size_of(inputs[i].type);
    const auto elements = static_cast<std::uint64_t>(inputs[i].elements);
    const std::uint64_t start = base + of.places.inputs.offset(i);
    const std::uint64_t to = start + places.below(elements) * width;
    const std::uint64_t from = start + places.below(elements) * width;
    std::array<std::byte, 8> old{}, other{};
    QUERN_CHECK(context.read(std::span(old).first(width), to));
    QUERN_CHECK(context.read(std::span(other).first(width), from));
    constexpr std::array<std::byte, 8> zero{};
    if (old == other || (old == zero) != (other == zero)) continue;
    return context.write(to, std::span(other).first(width));
  }
  return {};
}

}  // namespace

python_start device_start(bool with_extensions) {
  python_start how;
  how.memory_bytes = host_bytes;
  how.work_bytes = std::int64_t{256} << 20;
  if (with_extensions) {
    how.classes = {"ModelNew", "Model"};
    how.extensions = "its own folder";
  }
  return how;
}

base::status make_content(device_module_task& of, std::span<const module_case> window,
                          device_context& context, module_memory& memory) {
  if (of.places.at.inputs.empty()) return {};
  // Another process writes it, and waits for nothing that is queued here: a copy of the content
  // before it would get this one.
  QUERN_CHECK(waited(context));
  for (std::size_t first = 0, end = 0; first < window.size(); first = end) {
    std::vector<std::uint64_t> seeds;
    for (; end < window.size() && window[end].family == window[first].family; ++end)
      seeds.push_back(window[end].seed);
    const auto made = of.processes.content->child().content(static_cast<std::int64_t>(first), seeds,
                                                            window[first].family, of_reference);
    if (!made) return tl::make_unexpected(reference_error(made.error()));
  }
  for (std::size_t i = 0; i < window.size(); ++i)
    if (window[i].changed)
      QUERN_CHECK(change_an_element(of, window[i].seed, context,
                                    memory.staging() + i * of.places.inputs.stride()));
  return {};
}

base::status make_row(device_module_task& of, const module_case& of_row, device_context& context) {
  QUERN_CHECK(waited(context));
  base::random_stream random(of_row.seed, "contents of a row");
  std::vector<std::uint64_t> seeds(of_row.row);
  for (std::uint64_t& seed : seeds)
    seed = random.next_u64() >> 2;
  const auto made =
      of.processes.content->child().content(of.slots, seeds, of_row.family, of_reference, true);
  if (!made) return tl::make_unexpected(reference_error(made.error()));
  return {};
}

answered<base::nanoseconds_t> call_reference(device_module_task& of, int calls) {
  return of.processes.reference->run(calls, of_reference);
}

base::status lend_again(device_module_task& of, module_memory& memory) {
  QUERN_CHECK(memory.reserve(of.places, of.slots, of.row, of.weights.bytes));
  if (of.processes.lent == memory.making()) return {};
  of.processes.baseline.reset();  // what it compiled or captured is for memory that is gone
  if (auto done = memory.lend_to_content(*of.processes.content, of.places); !done)
    return tl::make_unexpected(lending_error(done.error()));
  if (auto done = memory.lend_to_reference(*of.processes.reference, of.places); !done)
    return tl::make_unexpected(lending_error(done.error()));
  of.processes.lent = memory.making();
  // Its memory was made anew, maybe.
  if (const auto written = of.processes.reference->child().write_weights(of.weights, of_reference);
      !written)
    return tl::make_unexpected(reference_error(written.error()));
  return {};
}

module_processes leave(device_module_task& of) {
  module_processes left;
  left.content = without_its_module(std::move(of.processes.content));
  left.reference = without_its_module(std::move(of.processes.reference));
  of.processes = {};
  return left;
}

base::status resume(device_module_task& of, module_processes left, python_zygote& zygote,
                    module_memory& memory, const module_terms& terms) {
  const std::string& text = of.subject->reference;
  step_clock step(terms.steps, "task: its processes load the module");
  QUERN_TRY(of.processes.content, content_process(std::move(left.content), zygote, of));
  QUERN_TRY(of.processes.reference,
            reference_process(std::move(left.reference), zygote, text, terms.core));
  // Its weights are written from its model when memory is lent.
  const auto made =
      of.processes.reference->child().construct_again(of.making, of.sheet, of_reference);
  if (!made) return tl::make_unexpected(reference_error(made.error()));
  return lend_again(of, memory);
}

base::expected<std::unique_ptr<device_module_task>> prepare_device_module(
    std::shared_ptr<const task> subject, module_processes left, python_zygote& zygote,
    device_context& context, module_memory& memory, const module_terms& terms) {
  QUERN_CHECK(validate(*subject));
  QUERN_CHECK(check_needs_of(*subject));
  base::random_stream numbers(terms.input_seed, "weights of a module");
  module_making making{std::string(name_of(pytorch_of(*subject).precision)),
                       numbers.next_u64() >> 2, terms.draws_on_core};
  step_clock step(terms.steps, "task: its processes load the module");
  QUERN_TRY(auto reference,
            reference_process(std::move(left.reference), zygote, subject->reference, terms.core));
  step.next("task: description without values");
  // Before memory is taken. Where a module cannot be described so, it is found out below.
  if (const auto sizes = sheet_ahead(reference->child(), making, terms)) {
    const auto at = instance_of(*sizes);
    if (at) QUERN_CHECK(check_fits_device(*sizes, *at, context.facts()));
  }
  // The model that it is described by stays, and is called.
  step.next("task: description");
  const auto text = reference->child().describe(making, of_reference);
  if (!text) return tl::make_unexpected(reference_error(text.error()));
  QUERN_TRY(auto sheet, parse_module_sheet(*text));
  QUERN_CHECK(check_use_of(sheet, subject->degenerate));
  if (sheet.keeps_state)
    return base::fail(base::errc::exhausted,
                      "the reference keeps state from call to call, which is followed on a core "
                      "alone: judge it there, without --gpu");
  QUERN_TRY(auto at, instance_of(sheet));
  QUERN_CHECK(check_fits_device(sheet, at, context.facts()));
  making.draws_on_core = terms.draws_on_core || sheet.drawn_on_core;
  QUERN_TRY(auto weights, places_of_weights(sheet, weights_region));

  auto made = std::make_unique<device_module_task>(std::move(weights), std::move(at));
  made->subject = std::move(subject);
  made->id = task_id(*made->subject);
  made->sheet = std::move(sheet);
  if (made->sheet.draws) made->in_f64 = false;  // other numbers would be drawn
  made->making = making;
  made->processes.reference = std::move(reference);
  step.next("task: its processes load the module");
  QUERN_TRY(made->processes.content, content_process(std::move(left.content), zygote, *made));
  step.next("task: lending memory");
  QUERN_CHECK(lend_again(*made, memory));
  step.next("task: two contents differ");
  made->cases = cases_of(*made, base::hasher().add(terms.input_seed).add(made->id).digest().low);
  QUERN_CHECK(check_contents_differ(*made, context, memory));
  step.next("task: time of a call");
  QUERN_TRY(made->baseline_ns, time_of_a_call(*made, context, memory, terms.core));
  made->slots = slots_of(*made, context.facts(), terms.window_ns);
  made->row = row_of(*made);
  step.next("task: lending memory");
  QUERN_CHECK(lend_again(*made, memory));
  step.next("task: bandwidth of the device");
  QUERN_TRY(const double bandwidth, context.bandwidth(bandwidth_footprint));
  made->floor_ns = static_cast<double>(made->places.at.cost_bytes) / bandwidth * 1e9;
  return made;
}

}  // namespace quern::env
