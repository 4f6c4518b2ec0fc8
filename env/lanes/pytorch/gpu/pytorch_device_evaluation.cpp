// One evaluation on a GPU, stage by stage.
#include <array>
#include <cmath>

#include "base/random.hpp"
#include "base/thread_deadline.hpp"
#include "env/core/candidate_checks.hpp"
#include "env/gpu/check_layer.hpp"
#include "env/gpu/device_peak.hpp"
#include "env/judge/claim.hpp"
#include "env/judge/judgement.hpp"
#include "env/judge/timing_session.hpp"
#include "env/lanes/pytorch/gpu/candidate_files.hpp"
#include "env/lanes/pytorch/gpu/pytorch_device_state.hpp"

namespace quern::env {
namespace {

constexpr question_limits module_loading = device_limits(120);
/// For the device: the others have it for an evaluation each, and while a baseline is made.
constexpr double longest_wait_s = 300 + make_baseline_s, measurements_waited_for = 4;
/// What each batch of contexts in making may take of the device's memory while it is looked at.
constexpr std::uint64_t moved_by_contexts = std::uint64_t{4} << 30;
constexpr std::string_view health_step = "around the clock: clocks, company and faults by NVML";
/// Windows of a side from one look at its clocks to the next.
constexpr std::size_t windows_a_clock_look = 3;

}  // namespace

bool pytorch_device_evaluation::fail_task(const base::error& e) {
  if (e.code == base::errc::exhausted)
    return settle({verdict_kind::unsupported, "", e.message, std::nullopt});
  lost_reference_ = e.code == base::errc::unavailable;
  return fail_host(e);
}

interruption pytorch_device_evaluation::interrupted() const {
  const auto why = staged_evaluation::interrupted();
  if (why != interruption::none) return why;
  return lost_reference_ && state_.options.restart_reference ? interruption::reference_lost
                                                             : interruption::none;
}

bool pytorch_device_evaluation::settle_call(const finding& f) {
  // Its process is gone, or the context does not answer: both are made anew with the task.
  lost_reference_ = f.kind == verdict_kind::infra_error;
  return settle(f);
}

finding pytorch_device_evaluation::qualified(const finding& f) const {
  if (f.cause != runner::cause::not_here || obstacle_.empty()) return f;
  return {verdict_kind::unsupported, "", obstacle_, std::nullopt};
}

bool pytorch_device_evaluation::take_device() {
  if (const auto& out = state_.care->quarantine().entry())
    return fail_host({base::errc::unavailable, "the device is in quarantine: " + out->reason});
  if (!turn_) {
    auto turn = device_turn::open(state_.care->watch().bus_id());
    if (!turn) return fail_host({base::errc::unavailable, turn.error().message});
    turn_.emplace(std::move(*turn));
  }
  stage_clock waiting(state_.waited_s);
  const double patience_s =
      longest_wait_s + measurements_waited_for * most_budgets * state_.options.time_budget_s;
  if (!turn_->wait(patience_s))
    return fail_host(
        {base::errc::timeout, fmt::format("the GPU was used by others for {:g} s", patience_s)});
  const auto up = state_.care->take_up();
  return up || fail_host(up.error());
}

bool pytorch_device_evaluation::prepare(drawing where) {
  stage_clock clock(state_.seconds.reference);
  used_device_ = true;
  auto task = state_.manager->get(request_.subject, where);
  if (!task) return fail_task(task.error());
  task_ = *task;
  return true;
}

bool pytorch_device_evaluation::build() {
  const python_facts facts = facts_of_python(tokenize_python(request_.source));
  obstacle_ = cannot_run_on_device(facts);
  const bool extensions = facts.uses_load || facts.uses_load_inline;
  if (!extensions && !facts.uses_triton_jit) return true;
  // Compilers may take a minute, and others may wait for the device.
  turn_->give_back();
  {
    stage_clock clock(state_.seconds.compile);
    if (facts.uses_triton_jit && !build_kernels()) return false;
    if (extensions && !build_extensions()) return false;
  }
  return take_device() && prepare();
}

bool pytorch_device_evaluation::build_kernels() {
  const step_clock step(state_.steps, "builds: Triton kernels");
  auto built = state_.kernels->build(request_.source, task_->sheet);
  if (!built) return fail_host({base::errc::unavailable, built.error().message});
  if (built->refused)
    return settle({verdict_kind::compile_error, "", built->left_out, std::nullopt});
  kernels_ = std::move(*built);
  return true;
}

bool pytorch_device_evaluation::build_extensions() {
  step_clock step(state_.steps, "builds: which extensions it asks for");
  const auto requests = state_.builds->requests_of(request_.source, *state_.recorder, &task_->sheet,
                                                   {module_recording, module_recording});
  if (!requests)
    if (const auto found = finding_of_recording(requests.error())) return settle(*found);
  if (!requests) return fail_host(requests.error());
  step.next("builds: extensions");
  auto folder = base::temp_folder::make_held("quern-module");
  if (!folder) return fail_host(folder.error());
  index_.emplace(std::move(*folder));
  auto built = state_.builds->build(*requests, index_->path());
  if (base::thread_deadline::is_over())
    return settle(
        {verdict_kind::timeout, "compile", "its extensions were not built", std::nullopt});
  if (!built) return fail_host({base::errc::unavailable, built.error().message});
  built_ = std::move(*built);
  if (built_.told) note_compiler(*built_.told);
  return true;
}

base::status pytorch_device_evaluation::take_process(bool profiled) {
  step_clock step(state_.steps, "start: a process");
  candidate_.reset();
  QUERN_TRY(auto* zygote, state_.manager->zygote());
  python_start how = device_start(!built_.folder.empty());
  how.classes = {"ModelNew", "Model"};
  how.kernels = kernels_.has_value();
  how.core = state_.core.core();
  how.profiled = profiled;
  QUERN_TRY(auto child, zygote->fork(how));
  if (!profiled) {
    ++state_.asked;
    state_.stood_ready += child.stood_ready() ? 1 : 0;
  }
  candidate_ = std::make_unique<device_module>(*zygote, std::move(child));
  if (!profiled) state_.manager->prefork();
  // Before anything of the candidate is in the process, which could keep what it is lent by.
  step.next("start: lending memory");
  QUERN_CHECK(state_.manager->memory().lend_to_candidate(*candidate_, task_->places));
  step.next("start: its files");
  QUERN_CHECK(put_extensions(*candidate_, built_));
  return kernels_ ? put_kernels(*candidate_, *kernels_) : base::status();
}

answered<void> pytorch_device_evaluation::load_candidate() {
  const auto path = candidate_->put("candidate.py", request_.source);
  if (!path) {
    runner_failure failure;
    failure.failure_kind = runner_failure::kind::host;
    failure.text = path.error().message;
    return tl::make_unexpected(std::move(failure));
  }
  const auto loaded = candidate_->child().load(*path, module_loading);
  if (!loaded) return tl::make_unexpected(loaded.error());
  return {};
}

bool pytorch_device_evaluation::start() {
  if (!make_model()) return false;
  if (!made_.drawn_elsewhere || task_->making.draws_on_core || is_timed_) return true;
  candidate_.reset();
  return prepare(drawing::on_core) && start();
}

bool pytorch_device_evaluation::make_model() {
  stage_clock clock(state_.seconds.start);
  looking_.reset();
  if (const auto taken = take_process(false); !taken) return fail_task(taken.error());
  own_memory_.emplace([this] { return state_.manager->context().free_bytes().value_or(0); },
                      state_.manager->quiet(), moved_by_contexts);
  step_clock step(state_.steps, memory_step);
  begin_look(step);
  step.next("start: loading the module");
  candidate_checker checker(candidate_->process(), module_loading);
  const auto loaded = load_candidate();
  verdict_.sandbox = candidate_->process().layers().names();
  if (!loaded) {
    finding f = checker.explain(loaded.error(), nullptr, nullptr, "load");
    if (loaded.error().failure_kind == runner_failure::kind::refused) {
      f = {verdict_kind::compile_error, "", why_not_loaded(built_, loaded.error().text),
           std::nullopt};
      f.cause = loaded.error().last.why;
    }
    return settle(f);
  }
  step.next("start: making the model");
  const auto made = candidate_->child().construct(task_->making, task_->sheet, task_->weights,
                                                  module_loading, named_);
  end_look(step);
  if (!within_memory()) return false;
  if (!made) return settle(checker.explain(made.error(), nullptr, nullptr, "load"));
  made_ = *made;
  return true;
}

estimate_limits pytorch_device_evaluation::measuring_limits() const {
  estimate_limits limits;
  limits.bucket_deviation *= state_.options.noise_limit / limits.half_width;
  limits.half_width = state_.options.noise_limit;
  limits.narrow = state_.options.precision;
  return limits;
}

bool pytorch_device_evaluation::take_baseline() {
  const bool eager =
      measure_.baseline == baseline_choice::of_task || measure_.baseline == baseline_choice::eager;
  if (eager) return true;
  // Before it is made: it takes memory of the device that f64 may need.
  if (!find_all_limits()) return false;
  {
    stage_clock clock(state_.seconds.reference);
    const auto taken = state_.manager->baseline(measure_.baseline);
    if (!taken) return fail_task(taken.error());
    baseline_ = *taken;
  }
  return candidate_ || start();
}

bool pytorch_device_evaluation::measure_once(const measure_protocol& protocol, std::uint64_t round,
                                             process_pairs& into) {
  if ((round > 0 || !candidate_) && !start()) return false;
  // Timed contents that a process has seen do not come again: it could have kept the results.
  base::random_stream secrets(request_.seed, "a measurement", {round, begun_again_});
  device_module_calls calls = calls_by(secrets.next_u64());
  calls.begin_again_for_limits();
  if (baseline_ != nullptr) calls.measure_over(*baseline_);
  calls.look_by(state_.options.look);
  module_timing_request timed;
  timed.calls = &calls;
  timed.task = task_;
  timed.quiet = &state_.manager->quiet();
  timed.cores = state_.core.cores();
  timed.steps = &state_.steps;
  timed.order_seed = secrets.next_u64();
  timed.budget_s = state_.options.time_budget_s;
  timed.limits = measuring_limits();
  timed.protocol = protocol;
  auto& watch = state_.care->watch();
  std::array<std::size_t, 2> windows{};
  timed.after_window = [&](bool candidate, bool of_calls, const device_window& took) {
    if (of_calls && windows.at(candidate ? 1 : 0)++ % windows_a_clock_look == 0)
      watch.window(seen_, candidate);
    if (state_.options.after_window) state_.options.after_window(candidate, of_calls, took);
  };
  timed.begins = [&] {
    step_clock step(state_.steps, memory_step);
    begin_look(step, moved_by_reference);
    step.next(health_step);
    watch.begin(seen_, state_.care->quarantine(), state_.care->now());
  };
  timed.ends = [&] {
    step_clock step(state_.steps, memory_step);
    end_look(step);
    step.next(health_step);
    watch.end(seen_, state_.care->quarantine(), state_.care->now());
  };
  module_timing_result result;
  {
    stage_clock clock(state_.seconds.time);
    result = time_module(timed);
  }
  verdict_.device = seen_.conditions(watch.bus_id());
  // Of one that was ended for f64, what the reference took for that may count as its own.
  const bool ended = !candidate_;
  if (!ended && !within_memory()) return false;
  if (calls.begins_again()) {
    // Limits were missing. All are found, so that this does not happen for each of them, and
    // another process has not seen what this one was asked.
    if (const auto guards = calls.look_at_guards(); !guards.ok()) return settle_call(guards);
    ++begun_again_;
    if (!find_all_limits()) return false;
    candidate_.reset();
    return measure_once(protocol, round, into);
  }
  if (auto why = seen_.unfair(); why && result.outcome.ok())
    result.outcome = {verdict_kind::noisy, "", std::move(*why), std::nullopt};
  verdict_.checks.push_back(
      {"timed outputs", result.outcome.right(),
       result.outcome.ok()
           ? fmt::format(
                 "{} calls of each; {:.1f} us taken off each for what stands "
                 "around it{}",
                 result.calls, result.delivery_ns / 1000,
                 result.left_out > 0
                     ? fmt::format("; {} pairs left out, in which the "
                                   "core was {}",
                                   result.left_out,
                                   result.on_shared_core ? "not shared throughout" : "shared")
                     : "")
           : result.outcome.detail});
  if (!settle_call(result.outcome)) return false;
  into = std::move(result.pairs);
  time_error_ns_ = std::max(time_error_ns_, result.delivery_spread_ns);
  hidden_.add(result.is_hidden);
  return check_again(round);
}

void pytorch_device_evaluation::time() {
  is_timed_ = true;
  if (!take_baseline()) return;
  // The lane measures by it, or the request had been refused.
  const measure_protocol protocol = find_protocol(measure_.protocol).value();
  const bool paired = protocol.statistic == aggregation::paired_log_ratio;
  judgement_rules rules;
  rules.null = state_.null;
  rules.limits = measuring_limits();
  rules.charge_noise = true;
  // The reference's process stays, and another one of the candidate takes as long as its windows.
  rules.wide_half_width = rules.limits.half_width;
  rules.claims =
      claims_under(protocol, {std::llround(100 * request_.recheck_above), request_.best_known_e2});
  rules.floor_ns = is_on(check_layer::floor) ? task_->floor_ns : 0;
  measuring steps;
  steps.measure = [&](std::uint64_t round, std::vector<process_pairs>& into) {
    process_pairs pairs;
    if (!measure_once(protocol, round, pairs)) return false;
    into.push_back(std::move(pairs));
    return true;
  };
  steps.judge = [&](std::span<const process_pairs> all) {
    rules.time_error_ns = time_error_ns_;
    rules.is_hidden = hidden_.among_last(all.size());
    return paired ? judge_times(all, rules) : judge_rounds(protocol, all, rules);
  };
  steps.claims = rules.claims;
  steps.recheck = request_.recheck;
  steps.confirm_at_once = state_.options.confirm_at_once;
  measure_and_settle(steps, runs_, claim_e2_, verdict_);
  if (!looks_twice(protocol)) verdict_.confirmed.reset();
  // Nothing is pooled, and half an hour of rounds is no small thing to keep.
  if (!paired) runs_.clear();
  if (verdict_.kind == verdict_kind::noisy && verdict_.device)
    verdict_.detail += what_disturbed(*verdict_.device);
  if (!verdict_.time) return;
  work_report work;
  const auto& facts = state_.manager->context().facts();
  work.bytes = task_->places.at.cost_bytes;
  work.bytes_per_s =
      std::llround(static_cast<double>(work.bytes) / std::max(1e-9, task_->floor_ns * 1e-9));
  work.flops_per_s = std::llround(usual_flops(facts, task_->places.at));
  work.multiprocessors = facts.multiprocessors;
  verdict_.work = std::move(work);
}

bool pytorch_device_evaluation::prepare_task() {
  const bool prepared = take_device() && prepare();
  turn_.reset();
  return prepared;
}

void pytorch_device_evaluation::run() {
  if (take_device() && prepare() && build() && start() && verify() &&
      is_measured(request_, measure_))
    time();
  if (verdict_.kind == verdict_kind::ok && candidate_ && wants_evidence()) add_evidence();
  {
    const step_clock step(state_.steps, "end: the candidate's process");
    looking_.reset();  // what looks after the device may make it anew
    candidate_.reset();
  }
  turn_.reset();
}

}  // namespace quern::env
