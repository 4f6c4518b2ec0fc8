// Calls of both sides on the same contents.
#include "env/lanes/pytorch/gpu/device_module_calls.hpp"

#include <algorithm>

#include "base/clock.hpp"
#include "env/core/candidate_checks.hpp"
#include "env/gpu/check_layer.hpp"
#include "env/gpu/read_difference.hpp"
#include "env/judge/compare.hpp"

namespace quern::env {
namespace {

finding of_host(std::string text) {
  return {verdict_kind::infra_error, "", std::move(text), std::nullopt};
}

/// The candidate may have so much of it that the reference has too little.
finding of_memory(const std::string& said) {
  return {verdict_kind::unsupported, "",
          "the device has too little memory for the reference beside the candidate: " + said +
              ". Let the candidate keep less of it",
          std::nullopt, runner::cause::memory};
}

finding of_error(const base::error& e) {
  if (e.code == base::errc::exhausted) return of_memory(e.message);
  const bool task = e.code == base::errc::invalid_argument;
  return {task ? verdict_kind::invalid_reference : verdict_kind::infra_error, "", e.message,
          std::nullopt};
}

/// NaN, or -1; and a large finite number. Of every type.
constexpr std::array<std::uint32_t, 2> poison_words{0xFFFFFFFF, 0x5F5F5F5F};

constexpr double reference_call_s = 300;
/// Which a process has to end a system call, before it stands still.
constexpr double standing_s = 10;
constexpr std::uint64_t some_bytes = 4096;
constexpr const char* begins_again_text =
    "its results are right by limits that were found behind them: it begins again";

constexpr std::uint64_t in_words(std::int64_t bytes) {
  return (static_cast<std::uint64_t>(bytes) + 3) / 4 * 4;
}

}  // namespace

device_module_calls::device_module_calls(device_module_task& of, device_context& context,
                                         module_memory& memory, device_module& candidate,
                                         std::uint64_t secret)
    : task_(of),
      context_(context),
      memory_(memory),
      candidate_(candidate),
      random_(secret, "calls of a module on a device"),
      row_(of.cases.front()),
      copies_(of.places, context, memory),
      flush_(memory.flush()),
      reference_(of.processes.reference.get()) {
  slot_view(memory_.candidate_outputs(), task_.places.at.outputs, task_.slots).set_guards(context_);
}

std::array<int, 2> device_module_calls::processes() const {
  return {reference_->child().pid(), candidate_.child().pid()};
}

std::vector<module_case> device_module_calls::fresh(std::size_t calls) {
  const auto longest = static_cast<std::size_t>(task_.row);
  if (longest < calls || !is_on(check_layer::content)) return fresh_alone(calls);
  if (taken_ + calls > row_.row) {
    row_.seed = random_.next_u64() >> 2;
    row_.row = longest / calls * calls;
    taken_ = 0;
  }
  std::vector<module_case> window(calls, row_);
  for (module_case& one : window)
    one.number = taken_++;
  return window;
}

std::vector<module_case> device_module_calls::fresh_alone(std::size_t calls) {
  std::vector<module_case> window(calls, task_.cases.front());
  if (is_on(check_layer::content))
    for (module_case& one : window)
      one.seed = random_.next_u64() >> 2;
  return window;
}

finding device_module_calls::make(std::span<const module_case> window) {
  const module_case& first = window.front();
  std::uint64_t staged = memory_.staging();
  if (first.row == 0) {
    const auto made = make_content(task_, window, context_, memory_);
    if (!made) return of_error(made.error());
  } else {
    if (made_ != first.seed) {
      made_.reset();
      if (const auto made = make_row(task_, first, context_); !made) return of_error(made.error());
      made_ = first.seed;
    }
    staged += input_bytes(static_cast<std::size_t>(task_.slots) + first.number);
  }
  const auto taken = copies_.take(staged, window.size(), random_);
  return taken ? finding{} : of_host(taken.error().message);
}

void device_module_calls::poison(std::uint64_t outputs, std::size_t calls) {
  if (!is_on(check_layer::poison)) return;
  const std::uint32_t word = poison_words[random_.below(poison_words.size())];
  for (std::size_t call = 0; call < calls; ++call)
    for (std::size_t o = 0; o < task_.places.at.outputs.size(); ++o)
      context_.set(outputs + output_bytes(call) + task_.places.outputs.offset(o),
                   in_words(task_.places.at.outputs[o].bytes), word);
}

/// With nothing left to do on the device, and nothing in its cache.
finding device_module_calls::get_ready() {
  if (flushes_) context_.check_pattern(flush_.address(), 2 * context_.facts().l2_bytes, 0);
  return wait_for_device();
}

finding device_module_calls::wait_for_device() {
  const auto waited = context_.wait();
  return waited ? finding{} : of_host(waited.error().message);
}

finding device_module_calls::failed_reference(const runner_failure& why) {
  using enum runner_failure::kind;
  if (why.failure_kind == refused && why.last.why == runner::cause::memory)
    return of_memory(why.text);
  const bool own = why.failure_kind == refused || why.failure_kind == fault;
  return {own ? verdict_kind::invalid_reference : verdict_kind::infra_error, "",
          "reference: " + why.text, std::nullopt, why.last.why};
}

finding device_module_calls::stop_candidate() {
  if (!stands_still_ || !is_on(check_layer::still)) return {};
  const auto stopped = stands_.stop(candidate_.child().pid(), standing_s);
  if (stopped) return {};
  if (stopped.error().code != base::errc::timeout) return of_host(stopped.error().message);
  return explain({runner_failure::kind::timeout, {}, stopped.error().message}, "time");
}

/// Brings the process's context to the device by a launch of its own: else the first call would
/// wait for that, and what it launches would take no time of its own. The candidate's goes on for
/// it from where it stood, and the reference's is stopped for a moment, so that both come from
/// there.
answered<void> device_module_calls::wakes(device_module& whom, device_window& took) {
  const base::steady_clock clock;
  if (&whom == &candidate_) {
    stands_.go_on();
  } else if (stands_still_ && is_on(check_layer::still)) {
    standing_process alike;
    if (const auto stopped = alike.stop(whom.child().pid(), standing_s); !stopped)
      return tl::make_unexpected(
          runner_failure{runner_failure::kind::host, {}, stopped.error().message});
  }
  const auto begin = clock.now_ns();
  if (auto woken = whom.wake(); !woken) return woken;
  took.begun_ns = clock.now_ns();
  took.wake_ns = static_cast<double>(took.begun_ns - begin);
  return {};
}

answered<void> device_module_calls::asks(device_module& whom, std::size_t calls, double limit_s,
                                         const side_memory& of, device_window& took) {
  if (auto woken = wakes(whom, took); !woken) return woken;
  const auto prepare = [&](std::size_t call) { return copies_.before_call(call, of); };
  const auto ns =
      whom.run(static_cast<int>(calls), device_limits(limit_s), &took.each, look_, prepare);
  if (!ns) return tl::make_unexpected(ns.error());
  took.answer_ns = static_cast<double>(*ns);
  return {};
}

/// Copies outputs of a side just behind its last answer, and stops its process. Who left the device
/// or its engines at work, or does not stop, is told by the time of that. The copy is waited for
/// first: what the device does beside a stop would take no time. Behind the stop the device is
/// asked once more, for what was left there meanwhile.
finding device_module_calls::copy_outputs(device_module& whom, std::size_t calls,
                                          std::uint64_t outputs, device_window& took) {
  const base::steady_clock clock;
  const auto answered = clock.now_ns();
  context_.copy(memory_.snapshot(), outputs, output_bytes(calls));
  if (auto f = wait_for_device(); !f.ok()) return f;
  standing_process alike;
  if (&whom == &candidate_) {
    if (auto f = stop_candidate(); !f.ok()) return f;
  } else if (stands_still_ && is_on(check_layer::still)) {
    if (const auto stopped = alike.stop(whom.child().pid(), standing_s); !stopped)
      return of_host("reference: " + stopped.error().message);
  }
  if (flush_.address() != 0) context_.check_pattern(flush_.address(), some_bytes, 0);
  if (auto f = wait_for_device(); !f.ok()) return f;
  copies_.pass_through_engines(flush_.address());
  took.tail_ns = static_cast<double>(clock.now_ns() - answered);
  // To where it sleeps, or the candidate's wake would find it at work on the same core.
  alike.go_on_first();
  return {};
}

finding device_module_calls::reference(std::size_t calls, bool copies, device_window& took) {
  const side_memory own = of_reference();
  if (auto f = stop_candidate(); !f.ok()) return f;
  poison(own.outputs, calls);
  took = {};
  took.each.looks.push_back(look_());
  // As for the candidate: what a copy leaves in the device's caches is there for both.
  copies_.put_rest(own.inputs);
  if (auto f = get_ready(); !f.ok()) return f;
  const auto asked =
      asks(*reference_, calls, reference_call_s * static_cast<double>(calls), own, took);
  if (!asked) {
    auto f = wait_for_device();
    return f.ok() ? failed_reference(asked.error()) : f;
  }
  auto f = copies ? copy_outputs(*reference_, calls, own.outputs, took) : wait_for_device();
  took.each.looks.push_back(look_());
  return f;
}

/// As asks(), but that results are delivered once more.
answered<void> device_module_calls::delivers(device_module& from, std::size_t calls,
                                             const call_preparation& prepare, device_window& took) {
  took = {};
  took.each.looks.push_back(look_());
  if (auto woken = wakes(from, took); !woken) return woken;
  const auto ns = from.deliver(static_cast<int>(calls), device_limits(60), &took.each, prepare);
  if (!ns) return tl::make_unexpected(ns.error());
  took.answer_ns = static_cast<double>(*ns);
  took.each.looks.push_back(look_());
  return {};
}

finding device_module_calls::delivery(std::size_t calls, device_window& took) {
  if (auto f = stop_candidate(); !f.ok()) return f;
  if (auto f = get_ready(); !f.ok()) return f;
  const side_memory own = of_reference();
  const auto done = delivers(
      *reference_, calls, [&](std::size_t call) { return copies_.before_call(call, own); }, took);
  if (auto f = wait_for_device(); !f.ok()) return f;
  return done ? finding{} : failed_reference(done.error());
}

finding device_module_calls::candidate_delivery(std::size_t calls, device_window& took) {
  if (auto f = get_ready(); !f.ok()) return f;
  // Without inputs: they may be those of a window that it is asked for later.
  const auto done = delivers(candidate_, calls, {}, took);
  if (!done) {
    auto f = wait_for_device();
    return f.ok() ? explain(done.error(), "time") : f;
  }
  return copy_outputs(candidate_, calls, memory_.candidate_outputs(), took);
}

finding device_module_calls::candidate(std::size_t calls, double limit_s, device_window& took) {
  const side_memory own{memory_.candidate_inputs(), memory_.candidate_outputs()};
  poison(own.outputs, calls);
  took = {};
  took.each.looks.push_back(look_());
  // As late as may be: what it could see before it is asked it could begin with.
  copies_.put_rest(own.inputs);
  if (auto f = get_ready(); !f.ok()) return f;
  const auto asked = asks(candidate_, calls, limit_s, own, took);
  if (!asked) {
    // A copy that failed is no fault of the candidate.
    auto f = wait_for_device();
    return f.ok() ? explain(asked.error(), "time") : f;
  }
  if (auto f = copy_outputs(candidate_, calls, own.outputs, took); !f.ok()) return f;
  took.each.looks.push_back(look_());
  return look_at_samples();
}

/// Whether results were there when their calls were answered.
finding device_module_calls::look_at_samples() {
  const auto changed = copies_.changed_behind_its_answer(memory_.snapshot());
  if (!changed) return of_host(changed.error().message);
  if (!*changed || !is_on(check_layer::sample)) return {};
  return {verdict_kind::hack, std::string(name_of(hack_kind::late_write)),
          fmt::format("results of call {} of a window were written behind its answer", **changed),
          std::nullopt};
}

finding device_module_calls::compare(std::span<const module_case> window, const std::string& where,
                                     step_clock* step) {
  finding f = compare_once(window, where);
  auto use = device_use::beside_others;
  bool found_some = false;
  while (f.kind == verdict_kind::wrong_value) {
    if (step != nullptr) step->next(step_of_limits);
    // Outputs of both sides are in the evaluator's memory, whether the candidate ends or not.
    const auto wider =
        widen_limits(task_, window.subspan(wrong_at_, 1), context_, memory_, use, end_candidate_);
    if (!wider && wider.error().code == base::errc::exhausted)
      return {verdict_kind::unsupported, "", wider.error().message, std::nullopt};
    if (!wider) return of_error(wider.error());
    if (!*wider) break;
    found_some = true;
    f = compare_once(window, where);
  }
  begins_again_ = f.ok() && (use == device_use::alone || (found_some && begins_again_for_limits_));
  if (begins_again_) return {verdict_kind::unsupported, "", begins_again_text, std::nullopt};
  return f;
}

finding device_module_calls::compare_once(std::span<const module_case> window,
                                          const std::string& where) {
  const auto& outputs = task_.places.at.outputs;
  const auto at = [&](std::uint64_t base, std::size_t n) {
    return base + output_bytes(n / outputs.size()) +
           task_.places.outputs.offset(n % outputs.size());
  };
  std::vector<std::size_t> compared;
  for (std::size_t n = 0; n < window.size() * outputs.size(); ++n) {
    const output_limits* limit = limit_of(task_, window[n / outputs.size()].family);
    if (limit == nullptr && is_left_out(task_, window[n / outputs.size()].family)) continue;
    if (limit == nullptr)
      return of_host(fmt::format("{}: there is no limit of its results", where));
    const std::size_t o = n % outputs.size();
    context_.compare(at(memory_.snapshot(), n), at(memory_.reference_outputs(), n), outputs[o],
                     limit->widened(limits_wider_).at(o));
    compared.push_back(n);
  }
  const auto found = context_.wait();
  if (!found) return of_host(found.error().message);
  for (std::size_t i = 0; i < found->size(); ++i) {
    if ((*found)[i].clean() || !is_on(check_layer::values)) continue;
    const std::size_t n = compared[i];
    wrong_at_ = n / outputs.size();
    const tensor_layout& output = outputs[n % outputs.size()];
    auto difference = read_difference(context_, output, at(memory_.snapshot(), n),
                                      at(memory_.reference_outputs(), n), (*found)[i].first);
    auto text = fmt::format("{}: {} ({} of {} elements)", where, describe(difference),
                            (*found)[i].wrong, output.elements);
    return {verdict_kind::wrong_value, "", std::move(text), std::move(difference)};
  }
  return {};
}

finding device_module_calls::look_at_guards() {
  slot_view(memory_.candidate_outputs(), task_.places.at.outputs, task_.slots)
      .check_guards(context_);
  const auto found = context_.wait();
  if (!found) return of_host(found.error().message);
  for (const device_finding& one : *found)
    if (!one.clean() && is_on(check_layer::guards))
      return {verdict_kind::hack, std::string(name_of(hack_kind::overrun)),
              fmt::format("{} words beside the outputs were written", one.wrong), std::nullopt};
  return {};
}

finding device_module_calls::explain(const runner_failure& why, const std::string& stage) {
  stands_.go_on();
  candidate_checker checker(candidate_.process(), device_limits(60));
  return checker.explain(why, nullptr, nullptr, stage);
}

}  // namespace quern::env
