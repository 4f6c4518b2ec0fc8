// One evaluation, stage by stage.
#include "env/core/candidate_checks.hpp"
#include "env/judge/judge_layer.hpp"
#include "env/lanes/cpp/cpp_lane.hpp"
#include "env/lanes/cpp/cpp_state.hpp"
#include "env/lanes/cpp/screen/cpp_screen.hpp"
#include "env/tensor_task/prototype.hpp"
#include "env/tensor_task/tensor_body.hpp"

namespace quern::env {
namespace {

constexpr int start_attempts = 3;

}  // namespace

cpp_compile_request compile_request_for(const task& what, const std::string& source) {
  cpp_compile_request request;
  request.source = source;
  request.prototype = cpp_lane.entry(what) + ";\n" + cpp_lane.optional_entry(what) + ";\n";
  return request;
}

bool cpp_evaluation::screen() {
  stage_clock clock(state_.seconds.screen);
  if (!state_.options.static_screen) return true;
  return settle_screen(screen_cpp(request_.source));
}

bool cpp_evaluation::compile() {
  stage_clock clock(state_.seconds.compile);
  auto built = state_.compilations.compile(*state_.cxx,
                                           compile_request_for(*request_.subject, request_.source));
  if (!built) {
    used_device_ = true;
    return fail_host({base::errc::unavailable, built.error().message});
  }
  note_compiler(*built);
  artefact_ = built->artefact;
  if (built->outcome == compile_result::kind::built) return true;
  verdict_.sandbox = built->layers.names();
  if (built->outcome == compile_result::kind::timeout)
    return settle(
        {verdict_kind::timeout, "compile", "the compiler did not finish in time", std::nullopt});
  const auto line_end = built->text.find('\n');
  return settle({verdict_kind::compile_error, "", built->text.substr(0, line_end), std::nullopt});
}

bool cpp_evaluation::prepare() {
  stage_clock clock(state_.seconds.reference);
  used_device_ = true;
  auto prepared = state_.tasks->get(request_.subject);
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
  if (auto ready = state_.started.take(artefact)) return ready;
  return start_candidate(state_, artefact, candidate_wall_s);
}

base::expected<std::unique_ptr<candidate_process>> cpp_evaluation::start_plain() {
  QUERN_TRY(
      const auto built,
      state_.compilations.compile(
          *state_.cxx, compile_request_for(*task_->subject, tensors_of(*task_->subject).plain)));
  if (built.outcome != compile_result::kind::built)
    return base::fail(base::errc::invalid_argument, "the plain baseline does not compile: {}",
                      built.text);
  task_->plain_artefact = built.artefact;
  return start_candidate(state_, built.artefact, candidate_wall_s);
}

base::status cpp_evaluation::open_baseline(std::unique_ptr<candidate_process>& plain,
                                           std::optional<reference_runner>& reference) {
  if (task_->subject->baseline == baseline_kind::plain) {
    QUERN_TRY(plain, start_plain());
    return {};
  }
  QUERN_TRY(reference, state_.tasks->fresh_reference(*task_));
  return {};
}

question_limits cpp_evaluation::call_limits() const {
  const double s = state_.options.call_cpu_s;
  return {s, 20 + 40 * s};
}

bool cpp_evaluation::verify() {
  {
    stage_clock clock(state_.seconds.start);
    auto started = start(artefact_);
    if (!started) return fail_host({base::errc::unavailable, started.error().message});
    first_process_ = std::move(*started);
    verdict_.sandbox = first_process_->layers().names();
  }
  const output_limits limit = task_->subject->tolerance;
  candidate_checker checker(*first_process_, call_limits());
  {
    stage_clock clock(state_.seconds.verify);
    if (!settle(checker.load(artefact_.string()))) return false;
    for (const auto& size : task_->hidden)
      if (judges_with(judge_layer::other_sizes) &&
          !settle(checker.check_size(size, limit, verdict_.checks)))
        return false;
  }
  stage_clock clock(state_.seconds.probe);
  // Where not all distributions are kept at the timed sizes, nobody learns which are never tried.
  const std::uint64_t seed = state_.tasks->input_seed();
  const auto ordinal = static_cast<std::uint64_t>(state_.seconds.evaluations);
  if (const auto round = missing_timed_round(*task_, seed, ordinal)) {
    auto reference = state_.tasks->fresh_reference(*task_);
    if (!reference) return fail_host(reference.error());
    if (auto made = replace_timed_round(*task_, *reference, *round, seed, ordinal); !made)
      return fail_reference(made.error());
  }
  if (!settle(checker.probe(task_->timed, limit, verdict_.checks))) return false;
  call_ns_ = checker.call_ns();
  return true;
}

bool cpp_evaluation::measure_once(std::uint64_t round, process_pairs& into) {
  // The baseline's process is as young as the candidate's: one that had measured before
  // was 1 % slower on data from memory.
  std::unique_ptr<candidate_process> process = std::move(first_process_);
  std::unique_ptr<candidate_process> plain;
  std::optional<reference_runner> reference;
  {
    stage_clock clock(state_.seconds.start);
    if (!process) {
      auto started = start_candidate(state_, artefact_, candidate_wall_s);
      if (!started) return fail_host({base::errc::unavailable, started.error().message});
      process = std::move(*started);
    }
    if (auto there = open_baseline(plain, reference); !there) return fail_host(there.error());
  }
  candidate_checker checker(*process, call_limits());
  if (!settle(checker.load(artefact_.string()))) return false;
  const output_limits limit = task_->subject->tolerance;
  measured_sides sides;
  sides.candidate = process.get();
  sides.checker = &checker;
  sides.baseline = plain ? baseline_side::of_plain(*plain, task_->plain_artefact)
                         : baseline_side::of_reference(reference->link(), true);
  if (!time_sides(*task_, limit, sides, round, into)) return false;
  stage_clock clock(state_.seconds.reverify);
  if (!judges_with(judge_layer::other_sizes)) return true;
  return settle(checker.check_size(task_->hidden.front(), limit, verdict_.checks));
}

void cpp_evaluation::run() {
  if (!screen() || !compile() || !prepare() || !verify()) return;
  if (is_measured(request_, measure_)) time(*task_);
}

}  // namespace quern::env
