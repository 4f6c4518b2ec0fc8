// The measuring stages of one evaluation of lane `cuda`: both sides taken, timed and judged.
#include <algorithm>
#include <array>
#include <cmath>
#include <system_error>
#include <thread>
#include <vector>

#include "env/gpu/check_layer.hpp"
#include "env/judge/claim.hpp"
#include "env/lanes/cuda/cuda_state.hpp"
#include "env/lanes/cuda/work.hpp"
#include "env/measure/stats.hpp"
#include "env/tensor_task/tensor_body.hpp"

namespace quern::env {
namespace {

/// work(0) … work(count - 1), each by a thread of its own but for the first, which this one does:
/// questions to processes that know nothing of each other. One after the other where the system
/// makes no thread.
template <class Work>
void at_once(std::size_t count, const Work& work) {
  std::vector<std::jthread> others;
  others.reserve(count);
  for (std::size_t i = 1; i < count; ++i) {
    try {
      others.emplace_back([&work, i] { work(i); });
    } catch (const std::system_error&) {
      work(i);
    }
  }
  if (count > 0) work(0);
}

/// Windows of a side from one look at its clocks to the next.
constexpr std::size_t windows_a_look = 3;
/// Time beside the events counts as the candidate's (timing.cpp). More of it than of what the
/// events show, and this much, is no slow host code, and in a plan there is no reason for it.
constexpr double hidden_ns = 1e7;
/// Between bucket means: launches of a few microseconds differ by half of one from window to
/// window.
constexpr double bucket_deviation_limit = 0.15;

}  // namespace

bool cuda_evaluation::take_references(timed_side& side) {
  side.delivers = true;
  auto call = call_request(task_->timed, false);
  call.under_graph = measure_.baseline == baseline_choice::graph ? 1 : 0;
  std::array<base::expected<bound_runner>, resident_runners> output_buffers;
  std::array<answered<void>, resident_runners> told;
  // Each has a process of its own, and compiles the script where the task is another.
  at_once(resident_runners, [&](std::size_t i) {
    output_buffers[i] = state_.manager->reference(i, *request_.subject);
    if (output_buffers[i]) told[i] = output_buffers[i]->link->call(call);
  });
  for (std::size_t i = 0; i < resident_runners; ++i) {
    if (!output_buffers[i]) return fail_host(output_buffers[i].error());
    if (!told[i]) {
      state_.manager->retire_reference(i);
      return fail_host({base::errc::unavailable, "reference: " + told[i].error().text});
    }
    side.runners.push_back({output_buffers[i]->link, output_buffers[i]->output_buffer});
  }
  return true;
}

bool cuda_evaluation::take_compiled(timed_side& side) {
  side.delivers = true;
  const auto call = call_request(task_->timed, false);
  for (std::size_t i = 0; i < compiled_references::count; ++i) {
    const auto link = state_.compiled->compiled(i, *request_.subject, call);
    if (!link) return fail_host(link.error());
    side.runners.push_back({*link, resident_runners + i});
  }
  return true;
}

bool cuda_evaluation::take_baseline(timed_side& side, std::vector<loaded_candidate>& loaded) {
  if (measure_.baseline == baseline_choice::compile) return take_compiled(side);
  if (measure_.baseline != baseline_choice::plain) return take_references(side);
  if (tensors_of(*request_.subject).plain.empty())
    return settle(
        {verdict_kind::invalid_reference, "",
         fmt::format("task {} has no plain kernel to measure against: add `plain:` to it, "
                     "or choose another baseline",
                     request_.subject->name),
         std::nullopt});
  return take_plain(side, loaded);
}

bool cuda_evaluation::take_plain(timed_side& side, std::vector<loaded_candidate>& loaded) {
  auto& manager = *state_.manager;
  if (!plain_) {
    auto r =
        build_candidate(*state_.nvcc, state_.compilations, *request_.subject,
                        tensors_of(*request_.subject).plain, state_.architecture, {false, false});
    if (!r.built) return settle(of_plain_baseline(r.outcome));
    plain_ = std::move(r.built);
  }
  loaded.reserve(resident_runners);
  for (std::size_t i = 0; i < resident_runners; ++i) {
    const std::size_t output_buffer = resident_runners + i;
    auto process = manager.resident(output_buffer);
    if (!process) return fail_host({base::errc::unavailable, process.error().message});
    auto& one = loaded.emplace_back(**process, output_buffer, *plain_);
    auto f = one.load();
    if (f.ok()) f = one.prepare(manager.context(), manager.memory(), task_->timed, 2);
    if (!f.ok()) {
      manager.retire(output_buffer);
      return settle(of_plain_baseline(f));
    }
    side.runners.push_back({&one.link(), output_buffer});
  }
  side.workspace_bytes = static_cast<std::uint64_t>(loaded.front().workspace_bytes());
  return true;
}

bool cuda_evaluation::take_candidates(timed_side& side, std::vector<loaded_candidate>& loaded,
                                      bool anew) {
  auto& manager = *state_.manager;
  const bool host_entry = built_->form == cuda_form::host_entry;
  side.gated = !host_entry;
  if (host_entry && anew) {
    // A second opinion comes from a process of its own.
    first_.reset();
    if (auto taken = take_own(); !taken)
      return fail_host({base::errc::unavailable, taken.error().message});
    first_.emplace(*own_, 0, *built_, &*own_memory_);
    if (!settle(first_->load())) return false;
  }
  if (!host_entry && anew) {
    // The same for a plan: other contexts, other places, nothing that the first ones kept.
    first_.reset();
    for (std::size_t i = 0; i < resident_runners; ++i)
      manager.retire(i);
    auto process = manager.resident(0);
    if (!process) return fail_host({base::errc::unavailable, process.error().message});
    first_.emplace(**process, 0, *built_, nullptr);
    if (!settle(first_->load())) return false;
  }
  const std::size_t candidates = host_entry ? 1 : resident_runners;
  if (!host_entry) saw_it_ = candidates;
  side.memory = host_entry ? &*own_memory_ : nullptr;
  loaded.reserve(candidates);
  loaded.push_back(*first_);
  for (std::size_t i = 1; i < candidates; ++i) {
    auto process = manager.resident(i);
    if (!process) return fail_host({base::errc::unavailable, process.error().message});
    loaded.emplace_back(**process, i, *built_);
  }
  std::vector<finding> found(candidates);
  at_once(candidates - 1, [&](std::size_t i) { found[i + 1] = loaded[i + 1].load(); });
  for (const finding& one : found)
    if (!settle(one)) return false;
  for (auto& one : loaded) {
    if (!settle(one.prepare(manager.context(), manager.memory(), task_->timed, 2))) return false;
    side.runners.push_back({&one.link(), one.output_buffer()});
  }
  side.workspace_bytes = static_cast<std::uint64_t>(loaded.front().workspace_bytes());
  return true;
}

estimate_limits cuda_evaluation::measuring_limits() const {
  estimate_limits limits;
  limits.narrow = state_.options.precision;
  limits.half_width = state_.options.noise_limit;
  limits.bucket_deviation = bucket_deviation_limit;
  return limits;
}

finding cuda_evaluation::judge_clocks(const gpu_timing_result& result) {
  const double beyond =
      result.candidate_beyond_ns.empty() ? 0 : median_of(result.candidate_beyond_ns);
  verdict_.checks.push_back(
      {"clocks", true,
       fmt::format("a call takes {:.1f} us by its events, {:+.1f} us beyond by the other clock; "
                   "{:.1f} us stand around a call, a message takes {:.0f} us; {} calls a window",
                   result.events_ns / 1000, beyond / 1000, result.around_ns / 1000,
                   result.message_ns / 1000, result.calls_per_window)});
  if (beyond <= result.events_ns + hidden_ns) return {};
  verdict_.checks.back().pass = false;
  return {verdict_kind::hack, std::string(name_of(hack_kind::timing)),
          fmt::format("a call takes {:.0f} us by its events, and {:.0f} us more by the clock "
                      "outside than what stands around it explains",
                      result.events_ns / 1000, beyond / 1000),
          std::nullopt};
}

bool cuda_evaluation::measure(const measure_protocol& protocol, std::uint64_t round,
                              std::vector<process_pairs>& into) {
  auto& manager = *state_.manager;
  auto& watch = state_.care->watch();
  gpu_timing_request r;
  r.context = &manager.context();
  r.memory = &manager.memory();
  r.instance = &task_->timed;
  r.limit = request_.subject->tolerance;
  r.secret = secret(2 + round);
  r.budget_s = state_.options.time_budget_s;
  if (!own_)
    r.least_wall_s = manager.check_limit_s(task_->timed, planted_calls_hidden, r.least_wall_s);
  r.limits = measuring_limits();
  r.protocol = protocol;
  const bool plain = measure_.baseline == baseline_choice::plain;
  // A plain baseline is itself only within the tolerance of the reference.
  if (plain) r.limit = {2 * r.limit.atol, 2 * r.limit.rtol};
  std::vector<loaded_candidate> loaded, baselines;
  {
    stage_clock clock(state_.seconds.start);
    {
      const part_clock part(&state_.parts, gpu_part::baseline);
      if (!take_baseline(r.baseline, baselines)) return false;
    }
    const part_clock part(&state_.parts, gpu_part::prepare);
    const bool taken = take_candidates(r.candidate, loaded, round != 0);
    for (const auto& one : loaded)
      if (one.spoilt() && !own_) manager.retire(one.output_buffer());
    if (!taken) return false;
  }
  gpu_timing_result result;
  std::size_t windows[2] = {};
  r.after_window = [&](bool candidate) {
    // Each side alike; a look takes a small part of a window.
    if (windows[candidate ? 1 : 0]++ % windows_a_look == 0) watch.window(seen_, candidate);
  };
  std::optional<device_quiet::hold> quiet;
  if (built_->form == cuda_form::host_entry) {
    r.quiet = &manager.quiet();
  } else {
    const part_clock part(&state_.parts, gpu_part::quiet);
    quiet.emplace(manager.quiet());
  }
  watch.begin(seen_, state_.care->quarantine(), state_.care->now());
  {
    stage_clock clock(state_.seconds.time);
    stage_clock device(state_.device.measuring);
    result = time_on_device(r);
  }
  quiet.reset();
  state_.parts.add(gpu_part::timed_set_up, result.seconds.setting_up);
  state_.parts.add(gpu_part::timed_baseline, result.seconds.baseline);
  state_.parts.add(gpu_part::timed_candidate, result.seconds.candidate);
  state_.parts.add(gpu_part::timed_deliver, result.seconds.deliver);
  state_.parts.add(gpu_part::timed_compare, result.seconds.compare);
  state_.parts.add(gpu_part::timed_quiet, result.seconds.quiet);
  watch.end(seen_, state_.care->quarantine(), state_.care->now());
  verdict_.device = seen_.conditions(watch.bus_id());
  if (!within_memory()) return false;
  if (result.failed_runner) {
    auto& failed = loaded[*result.failed_runner];
    result.outcome = failed.explain(result.failure, "time");
    // A process of the candidate's own shares a resident's output buffer, not its fate.
    if (!own_) manager.retire(failed.output_buffer());
    if (*result.failed_runner == 0) first_.reset();
  } else if (result.outcome.kind == verdict_kind::infra_error) {
    // Whichever baseline it was: the next evaluation starts them anew.
    for (std::size_t i = 0; i < resident_runners; ++i) {
      manager.retire_reference(i);
      state_.compiled->retire(i);
      if (plain) manager.retire(resident_runners + i);
    }
  }
  if (result.outcome.ok() && first_) result.outcome = first_->look();
  if (result.outcome.ok()) result.outcome = judge_clocks(result);
  if (auto why = seen_.unfair(); why && result.outcome.ok())
    result.outcome = {verdict_kind::noisy, "", std::move(*why), std::nullopt};
  verdict_.checks.push_back({"timed outputs", result.outcome.right(), result.outcome.detail});
  if (!settle(result.outcome)) return false;
  into.insert(into.end(), result.runs.begin(), result.runs.end());

  // What was right before the clock ran must be right after it.
  stage_clock clock(state_.seconds.reverify);
  return check(task_->hidden.empty() ? task_->timed : task_->hidden.front());
}

void cuda_evaluation::time() {
  // The lane measures by it, or the request had been refused.
  const measure_protocol protocol = find_protocol(measure_.protocol).value();
  judgement_rules rules;
  rules.null = state_.null;
  rules.limits = measuring_limits();
  rules.lists_per_measurement = resident_runners;
  verdict_.work = work_of(*built_, task_->timed.at, state_.manager->context().facts(),
                          state_.manager->bandwidth());
  const bool paired = protocol.statistic == aggregation::paired_log_ratio;
  rules.charge_noise = built_->form == cuda_form::host_entry;
  constexpr double more_than_any = 1e9;
  const double above = is_on(check_layer::again) ? request_.recheck_above : more_than_any;
  rules.claims = claims_under(protocol, {std::llround(100 * above), request_.best_known_e2});
  rules.floor_ns = is_on(check_layer::floor) ? task_->floor_ns : 0;
  measuring steps;
  steps.measure = [&](std::uint64_t round, std::vector<process_pairs>& into) {
    return measure(protocol, round, into);
  };
  steps.judge = [&](std::span<const process_pairs> all) {
    return paired ? judge_times(all, rules) : judge_rounds(protocol, all, rules);
  };
  steps.claims = rules.claims;
  steps.recheck = request_.recheck;
  steps.confirm_at_once = state_.options.confirm_at_once;
  measure_and_settle(steps, runs_, claim_e2_, verdict_);
  if (!looks_twice(protocol)) verdict_.confirmed.reset();
  // Nothing is pooled, and half an hour of rounds is no small thing to keep.
  if (!paired) runs_.clear();
}

}  // namespace quern::env
