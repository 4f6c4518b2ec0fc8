// One evaluation of lane `cuda`, stage by stage.
#include <algorithm>
#include <utility>

#include "env/gpu/check_layer.hpp"
#include "env/judge/device_turn.hpp"
#include "env/judge/timing_session.hpp"
#include "env/lanes/cuda/cuda_state.hpp"
#include "env/lanes/cuda/screen/cuda_screen.hpp"

namespace quern::env {
namespace {

/// How long another evaluator may have the device: it measures as this one does, or so.
constexpr double device_wait_s = 300, measurements_waited = 4;
/// A check's calls, beyond what the device takes for any sensible kernel.
constexpr double check_wall_s = 10;
/// Of device memory for a candidate in a process of its own, beyond what it is lent.
constexpr std::uint64_t most_device_bytes = 8ULL << 30;
/// Whether a process that took this much gave it back is looked at when it ends.
constexpr std::uint64_t large_bytes = 1ULL << 30;

/// A context keeps room for the largest frames that it saw, for as many threads as there may be.
bool has_large_frames(const built_candidate& b) {
  constexpr std::int64_t usual_bytes = 1024;
  return std::any_of(b.resources.begin(), b.resources.end(),
                     [](const kernel_resources& r) { return r.local_bytes > usual_bytes; });
}

}  // namespace

std::uint64_t cuda_evaluation::secret(std::uint64_t purpose) {
  base::random_stream random(
      state_.secret, "evaluation",
      {static_cast<std::uint64_t>(state_.seconds.evaluations), purpose, ++drawn_});
  return random.next_u64();
}

bool cuda_evaluation::screen() {
  stage_clock clock(state_.seconds.screen);
  if (!state_.options.static_screen) return true;
  return settle_screen(screen_cuda(request_.source, {policy_.library_calls, policy_.graphs}));
}

bool cuda_evaluation::build() {
  stage_clock clock(state_.seconds.compile);
  auto r = build_candidate(*state_.nvcc, state_.compilations, *request_.subject, request_.source,
                           state_.architecture,
                           {policy_.host_entry, policy_.library_calls, request_.as_host_entry});
  verdict_.checks.push_back({"launch plan", r.no_plan.empty(), r.no_plan});
  if (r.compiled) {
    note_compiler(*r.compiled);
    if (!r.outcome.ok()) verdict_.sandbox = r.compiled->layers.names();
  }
  if (!settle(r.outcome)) return false;
  built_ = std::move(r.built);
  if (built_->form != cuda_form::host_entry) return true;
  // Asked here, because a suite decides which forms there are, request by request.
  const auto admitted = admit_host_entry(state_.children->layers(), locks_required(state_.options));
  return admitted ? true : fail_host(admitted.error());
}

bool cuda_evaluation::take_runner() {
  stage_clock clock(state_.seconds.start);
  auto& manager = *state_.manager;
  gpu_runner_process* process = nullptr;
  if (built_->form == cuda_form::host_entry) {
    const part_clock part(&state_.parts, gpu_part::take_process);
    if (auto taken = take_own(); !taken)
      return fail_host({base::errc::unavailable, taken.error().message});
    process = own_.get();
  } else {
    auto resident = manager.resident(0);
    if (!resident) return fail_host({base::errc::unavailable, resident.error().message});
    process = *resident;
    saw_it_ = 1;
  }
  verdict_.sandbox = process->layers().names();
  first_.emplace(*process, 0, *built_, own_memory_ ? &*own_memory_ : nullptr);
  const part_clock part(&state_.parts, gpu_part::load);
  return settle(first_->load());
}

base::status cuda_evaluation::take_own() {
  QUERN_TRY(auto fresh, built_->calls_libraries
                            ? state_.manager->fresh_with(state_.nvcc->toolkit().library_folder())
                            : state_.manager->fresh(built_->queues));
  end_own();
  own_ = std::move(fresh);
  own_memory_.emplace(state_.manager->memory_of_process());
  return {};
}

void cuda_evaluation::end_own() {
  if (!own_) return;
  const process_memory memory = *std::exchange(own_memory_, std::nullopt);
  // Most end while the next candidate is checked: before anything is timed they have.
  if (memory.bytes() < large_bytes) return state_.manager->let_go(std::move(own_));
  if (auto missing = state_.manager->end_large(std::move(own_), memory))
    state_.care->enter(quarantine_cause::memory, std::move(*missing));
}

bool cuda_evaluation::within_memory() {
  if (!own_ || !is_on(check_layer::memory)) return true;
  const auto taken = own_memory_->bytes();
  if (taken <= most_device_bytes) return true;
  return settle({verdict_kind::oom, "",
                 fmt::format("the candidate's process took {} MiB of device memory beyond what it "
                             "is lent, the limit is {} MiB",
                             taken >> 20, most_device_bytes >> 20),
                 std::nullopt});
}

bool cuda_evaluation::check(const device_instance& of) {
  auto& manager = *state_.manager;
  auto reference = manager.reference(0, *request_.subject);
  if (!reference) return fail_host(reference.error());
  gpu_check_request r;
  r.context = &manager.context();
  r.memory = &manager.memory();
  r.instance = &of;
  r.limit = request_.subject->tolerance;
  r.candidate = &*first_;
  r.reference = *reference;
  r.secret = secret(1);
  r.planted_calls = &of == &task_->timed ? planted_calls_timed : planted_calls_hidden;
  r.wall_s = own_ ? check_wall_s : manager.check_limit_s(of, r.planted_calls, check_wall_s);
  r.parts = &state_.parts;
  const auto f = check_on_device(r, verdict_.checks);
  // Whoever has no memory left because the candidate took it is not to blame.
  if (!within_memory()) return false;
  if (f.kind == verdict_kind::infra_error) manager.retire_reference(0);
  return settle(f);
}

bool cuda_evaluation::verify() {
  if (!take_runner()) return false;
  {
    stage_clock clock(state_.seconds.verify);
    for (const auto& size : task_->hidden)
      if (!check(size)) return false;
  }
  stage_clock clock(state_.seconds.probe);
  // Elsewhere in the address space: what was kept of an address leads nowhere any more.
  auto moved = state_.manager->memory().lend(first_->link(), first_->output_buffer(), true);
  if (!moved) return settle(first_->explain(moved.error(), "load"));
  return check(task_->timed);
}

void cuda_evaluation::retire_doubtful() {
  if (own_) return;
  constexpr verdict_kind doubtful[] = {verdict_kind::hack, verdict_kind::runtime_error,
                                       verdict_kind::timeout, verdict_kind::oom,
                                       verdict_kind::nondeterministic};
  const bool doubt =
      std::find(std::begin(doubtful), std::end(doubtful), verdict_.kind) != std::end(doubtful) ||
      has_large_frames(*built_);
  if (doubt)
    for (std::size_t i = 0; i < saw_it_; ++i)
      state_.manager->retire(i);
  else if (first_ && first_->spoilt())
    state_.manager->retire(first_->output_buffer());
}

void cuda_evaluation::leave_device() {
  const part_clock part(&state_.parts, gpu_part::leave);
  retire_doubtful();
  first_.reset();
  end_own();
  const auto& out = state_.care->quarantine().entry();
  if (verdict_.kind == verdict_kind::oom && out && out->cause == quarantine_cause::memory) {
    // What is missing although the process is gone was not, or not provably, the candidate's.
    verdict_.kind = verdict_kind::infra_error;
    verdict_.detail = out->reason;
  }
}

void cuda_evaluation::run() {
  if (!screen() || !build()) return;
  if (const auto& out = state_.care->quarantine().entry()) {
    fail_host({base::errc::unavailable, "the device is in quarantine: " + out->reason});
    return;
  }
  auto turn = device_turn::open(state_.care->watch().bus_id());
  if (!turn) {
    fail_host({base::errc::unavailable, turn.error().message});
    return;
  }
  std::optional<part_clock> waiting(std::in_place, &state_.parts, gpu_part::lease);
  const double patience_s =
      device_wait_s + measurements_waited * most_budgets * state_.options.time_budget_s;
  if (!turn->wait(patience_s)) {
    fail_host(
        {base::errc::timeout, fmt::format("the GPU was used by others for {} s", patience_s)});
    return;
  }
  waiting.reset();
  if (const auto up = state_.care->take_up(); !up) {
    fail_host(up.error());
    return;
  }
  stage_clock device(state_.device.leased);
  used_device_ = true;
  auto prepared = state_.manager->prepare(request_.subject);
  if (!prepared) {
    fail_host(prepared.error());
    return;
  }
  task_ = *prepared;
  if (verify() && is_measured(request_, measure_)) time();
  leave_device();
}

}  // namespace quern::env
