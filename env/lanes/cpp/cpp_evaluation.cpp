// One evaluation, stage by stage.
#include <algorithm>
#include <cmath>

#include "base/random.hpp"
#include "env/core/candidate_checks.hpp"
#include "env/judge/claim.hpp"
#include "env/judge/judge_layer.hpp"
#include "env/judge/machine.hpp"
#include "env/lanes/cpp/cpp_lane.hpp"
#include "env/lanes/cpp/cpp_state.hpp"
#include "env/lanes/cpp/screen/cpp_screen.hpp"
#include "env/measure/stats.hpp"
#include "env/tensor_task/prototype.hpp"
#include "env/tensor_task/tensor_body.hpp"

namespace quern::env {
namespace {

constexpr double lease_wait_s = 120;
constexpr int start_attempts = 3;

}  // namespace

cpp_compile_request compile_request_for(const task& what, const std::string& source) {
  cpp_compile_request request;
  request.source = source;
  request.prototype = cpp_lane.entry(what) + ";\n" + cpp_lane.optional_entry(what) + ";\n";
  return request;
}

bool cpp_evaluation::screen() {
  stage_clock clock(with_.seconds.screen);
  if (!with_.options.static_screen) return true;
  return settle_screen(screen_cpp(request_.source));
}

bool cpp_evaluation::fail_reference(const base::error& e) {
  lost_reference_ = e.code == base::errc::unavailable;
  return fail_host(e);
}

interruption cpp_evaluation::interrupted() const {
  const auto why = staged_evaluation::interrupted();
  if (why != interruption::none) return why;
  return lost_reference_ && with_.options.restart_reference ? interruption::reference_lost
                                                            : interruption::none;
}

bool cpp_evaluation::compile() {
  stage_clock clock(with_.seconds.compile);
  auto built = with_.compilations.compile(*with_.cxx,
                                          compile_request_for(*request_.subject, request_.source));
  if (!built) {
    used_device_ = true;
    return fail_host({base::errc::unavailable, built.error().message});
  }
  note_compiler(*built);
  artefact_ = built->artefact;
  if (built->what == compile_result::kind::built) return true;
  verdict_.sandbox = built->layers.names();
  if (built->what == compile_result::kind::timeout)
    return settle(
        {verdict_kind::timeout, "compile", "the compiler did not finish in time", std::nullopt});
  const auto line_end = built->text.find('\n');
  return settle({verdict_kind::compile_error, "", built->text.substr(0, line_end), std::nullopt});
}

bool cpp_evaluation::prepare() {
  stage_clock clock(with_.seconds.reference);
  used_device_ = true;
  auto prepared = with_.tasks->get(request_.subject);
  if (!prepared) return fail_host(prepared.error());
  task_ = *prepared;
  return true;
}

base::expected<std::unique_ptr<candidate_process>> start_candidate(
    cpp_evaluator::state& with, const std::filesystem::path& artefact, double wall_s) {
  candidate_start how;
  how.runner_program = with.options.runner_program;
  how.artefact = artefact;
  const bool guarded = judges_with(judge_layer::threads);
  how.core = guarded ? with.core.core() : -1;
  how.threads = !guarded;
  how.wall_s = wall_s;
  // A host that is short of processes for a moment is no verdict.
  auto started = candidate_process::start(*with.children, how);
  for (int attempt = 1; !started && attempt < start_attempts; ++attempt)
    started = candidate_process::start(*with.children, how);
  return started;
}

base::expected<std::unique_ptr<candidate_process>> cpp_evaluation::start(
    const std::filesystem::path& artefact) {
  if (auto ready = with_.started.take(artefact)) return ready;
  return start_candidate(with_, artefact, candidate_wall_s);
}

base::expected<std::unique_ptr<candidate_process>> cpp_evaluation::start_plain() {
  QUERN_TRY(
      const auto built,
      with_.compilations.compile(
          *with_.cxx, compile_request_for(*task_->subject, tensors_of(*task_->subject).plain)));
  if (built.what != compile_result::kind::built)
    return base::fail(base::errc::invalid_argument, "the plain baseline does not compile: {}",
                      built.text);
  task_->plain_artefact = built.artefact;
  return start_candidate(with_, built.artefact, candidate_wall_s);
}

base::status cpp_evaluation::open_baseline(std::unique_ptr<candidate_process>& plain,
                                           std::optional<reference_runner>& reference) {
  if (task_->subject->baseline == baseline_kind::plain) {
    QUERN_TRY(plain, start_plain());
    return {};
  }
  QUERN_TRY(reference, with_.tasks->fresh_reference(*task_));
  return {};
}

bool cpp_evaluation::verify() {
  {
    stage_clock clock(with_.seconds.start);
    auto started = start(artefact_);
    if (!started) return fail_host({base::errc::unavailable, started.error().message});
    first_process_ = std::move(*started);
    verdict_.sandbox = first_process_->layers().names();
  }
  const tolerance& limit = task_->subject->tolerance;
  candidate_checker checker(*first_process_,
                            {with_.options.call_cpu_s, 20 + 40 * with_.options.call_cpu_s});
  {
    stage_clock clock(with_.seconds.verify);
    if (!settle(checker.load(artefact_.string()))) return false;
    for (const auto& size : task_->hidden)
      if (judges_with(judge_layer::other_sizes) &&
          !settle(checker.check_size(size, limit, verdict_.checks)))
        return false;
  }
  stage_clock clock(with_.seconds.probe);
  // Where not all distributions are kept at the timed sizes, nobody learns which are never tried.
  const std::uint64_t seed = with_.tasks->input_seed();
  const auto ordinal = static_cast<std::uint64_t>(with_.seconds.evaluations);
  if (const auto round = missing_timed_round(*task_, seed, ordinal)) {
    auto reference = with_.tasks->fresh_reference(*task_);
    if (!reference) return fail_host(reference.error());
    if (auto made = replace_timed_round(*task_, *reference, *round, seed, ordinal); !made)
      return fail_reference(made.error());
  }
  if (!settle(checker.probe(task_->timed, limit, verdict_.checks))) return false;
  call_ns_ = checker.call_ns();
  return true;
}

bool cpp_evaluation::measure_once(std::unique_ptr<candidate_process> process, std::uint64_t round,
                                  process_pairs& into) {
  // The baseline's process is as young as the candidate's: one that had measured before
  // was 1 % slower on data from memory.
  std::unique_ptr<candidate_process> plain;
  std::optional<reference_runner> reference;
  {
    stage_clock clock(with_.seconds.start);
    if (!process) {
      auto started = start_candidate(with_, artefact_, candidate_wall_s);
      if (!started) return fail_host({base::errc::unavailable, started.error().message});
      process = std::move(*started);
    }
    if (auto there = open_baseline(plain, reference); !there) return fail_host(there.error());
  }
  candidate_checker checker(*process,
                            {with_.options.call_cpu_s, 20 + 40 * with_.options.call_cpu_s});
  if (!settle(checker.load(artefact_.string()))) return false;
  checker.expect_call_ns(call_ns_);

  timing_request timed;
  timed.task = task_;
  timed.limit = task_->subject->tolerance;
  timed.baseline = plain ? baseline_side::of_plain(*plain, task_->plain_artefact)
                         : baseline_side::of_reference(reference->link(), true);
  timed.candidate = process.get();
  timed.checker = &checker;
  base::random_stream addresses(request_.seed, "timing", {round});
  timed.order_seed = addresses.next_u64();
  timed.first_call = addresses.next_u64() >> 8;
  timed.budget_s = with_.options.time_budget_s;
  timed.limits = measuring_limits();
  timing_result result;
  {
    auto lease = core_lease::take(with_.core.core(), lease_wait_s);
    if (!lease) return fail_host(lease.error());
    stage_clock clock(with_.seconds.time);
    result = time_candidate(timed);
  }
  if (result.baseline_ns > 0) task_->baseline_ns = result.baseline_ns;
  lost_reference_ = result.baseline_gone;
  verdict_.checks.push_back({"timed outputs", result.what.ok(), result.what.detail});
  if (!settle(result.what)) return false;
  into = std::move(result.pairs);

  // What was right before the clock ran must be right after it.
  stage_clock clock(with_.seconds.reverify);
  if (!judges_with(judge_layer::other_sizes)) return true;
  return settle(
      checker.check_size(task_->hidden.front(), task_->subject->tolerance, verdict_.checks));
}

estimate_limits cpp_evaluation::measuring_limits() const {
  estimate_limits limits;
  limits.bucket_deviation *= with_.options.noise_limit / limits.half_width;
  limits.half_width = with_.options.noise_limit;
  limits.narrow = with_.options.precision;
  return limits;
}

void cpp_evaluation::time() {
  judgement_rules rules;
  rules.null = with_.null;
  rules.limits = measuring_limits();
  rules.claims = {std::llround(100 * request_.recheck_above), request_.best_known_e2};
  rules.floor_ns = judges_with(judge_layer::floor) ? static_cast<double>(task_->floor_ns) : 0;

  const auto judge_all = [&](std::span<const process_pairs> all) {
    judgement j = judge_times(all, rules);
    if (j.kind == verdict_kind::hack) {
      // Before anybody is accused: was the floor measured on a busy machine?
      const auto& at = task_->timed.instance;
      task_->floor_ns = roofline_floor_ns(at, with_.tasks->peak().at(at.cost_bytes, true));
      rules.floor_ns = judges_with(judge_layer::floor) ? static_cast<double>(task_->floor_ns) : 0;
      j = judge_times(all, rules);
    }
    return j;
  };

  measuring how;
  how.measure = [&](std::uint64_t round, std::vector<process_pairs>& into) {
    process_pairs pairs;
    if (!measure_once(std::move(first_process_), round, pairs)) return false;
    into.push_back(std::move(pairs));
    return true;
  };
  how.judge = judge_all;
  how.claims = rules.claims;
  how.recheck = request_.recheck;
  how.confirm_at_once = with_.options.confirm_at_once;
  measure_and_settle(how, runs_, claim_e2_, verdict_);
  const auto& timed = task_->timed.instance;
  if (verdict_.time)
    verdict_.work = work_on_core(timed, with_.tasks->peak().at(timed.cost_bytes, false));
}

void cpp_evaluation::run() {
  if (!screen() || !compile() || !prepare() || !verify()) return;
  if (is_measured(request_, how_)) time();
}

}  // namespace quern::env
