// A device and all that lives on it.
#include "env/gpu/device_manager.hpp"

#include <algorithm>
#include <thread>

#include "env/gpu/device_peak.hpp"
#include "env/tensor_task/tensor_body.hpp"

namespace quern::env {
namespace {

/// Processes of candidates in host-entry form that wait with their contexts made.
constexpr std::size_t processes_ahead = 2, with_all_queues_ahead = 2;
/// One starts a driver while the other makes a context.
constexpr std::size_t context_makers = 2;
/// What making a context, with what stands around calls, takes of the device, or more.
constexpr std::uint64_t context_bytes = 1ULL << 30;
/// By which memory that is given back may differ from what was taken.
constexpr std::uint64_t return_slack = 64ULL << 20;
constexpr double memory_wait_s = 3;
/// Candidates that one runner may see: what one of them left in it is not kept for ever.
constexpr int most_served = 64;
/// A plan whose calls take longer than this many times the roofline's time, and this long together,
/// hangs.
constexpr double slowest_plan = 5000, calls_beside_planted = 8, least_check_s = 2;
constexpr std::uint64_t bandwidth_footprint = 1ULL << 30;

}  // namespace

device_manager::device_manager(spawner& children, const evaluator_options& options,
                               gpu_access access, std::unique_ptr<device_context> context,
                               std::filesystem::path cuda_library, std::uint64_t secret,
                               gpu_parts* parts)
    : children_(children),
      options_(options),
      access_(std::move(access)),
      context_(std::move(context)),
      cuda_library_(std::move(cuda_library)),
      memory_(*context_, 2 * resident_runners, secret),
      parts_(parts),
      quiet_(context_->facts().bus_id),
      reaper_(quiet_),
      pool_(children, start_of_runner(), pool_options(), quiet_, parts) {}

gpu_runner_start device_manager::start_of_runner() const {
  gpu_runner_start how{options_.runner_program, cuda_library_, access_};
  how.locks_required = locks_required(options_);
  return how;
}

gpu_pool_options device_manager::pool_options() {
  gpu_pool_options pool;
  if (!options_.policy.host_entry) return pool;
  pool.ahead = processes_ahead;
  pool.ahead_all = with_all_queues_ahead;
  pool.makers = context_makers;
  // Whoever takes it first finds it with the memory mapped, as it is by then.
  pool.prepare = [this](gpu_runner_process& process) -> base::status {
    if (auto lent = memory_.lend(process.link(), 0); !lent)
      return base::fail(base::errc::unavailable, "lending memory to a runner: {}",
                        lent.error().text);
    return {};
  };
  return pool;
}

base::expected<gpu_runner_process*> device_manager::resident(std::size_t i) {
  if (residents_[i] && residents_[i]->has_ended()) residents_[i].reset();
  if (residents_[i] && i < resident_runners && residents_[i]->served() >= most_served) retire(i);
  if (!residents_[i]) {
    QUERN_TRY(residents_[i], pool_.take());
  }
  return residents_[i].get();
}

base::expected<std::unique_ptr<gpu_runner_process>> device_manager::fresh_with(
    const std::filesystem::path& libraries) {
  gpu_runner_start how = start_of_runner();
  how.libraries = libraries;
  QUERN_TRY(auto process, gpu_runner_process::start(children_, how));
  const device_quiet::disturbance noise(quiet_);
  QUERN_CHECK(process->open());
  return process;
}

base::expected<bound_runner> device_manager::reference(std::size_t i, const task& what) {
  auto& place = references_[i];
  if (place.process && place.process->has_ended()) place.process.reset();
  if (!place.process) {
    QUERN_TRY(place.process, gpu_reference_process::start(
                                 children_, {options_.reference_program, cuda_library_, access_}));
    place.script_of.clear();
  }
  auto& link = place.process->link();
  const std::string id = task_id(what);
  if (place.script_of != id) {
    place.script_of.clear();
    if (auto compiled = link.script(what.reference); !compiled) {
      const bool of_the_task = compiled.error().failure_kind == runner_failure::kind::refused;
      if (!of_the_task) place.process.reset();
      return base::fail(of_the_task ? base::errc::invalid_argument : base::errc::unavailable,
                        "reference: {}", compiled.error().text);
    }
    place.script_of = id;
  }
  return bound_runner{&link, resident_runners + i};
}

double device_manager::floor_of(const task_instance& at) {
  if (bandwidth_ == 0)
    if (auto measured = context_->bandwidth(bandwidth_footprint)) bandwidth_ = *measured;
  const double flops = flops_at_best(context_->facts(), at);
  const double traffic = bandwidth_ > 0 ? static_cast<double>(at.cost_bytes) / bandwidth_ * 1e9 : 0;
  return std::max(traffic, static_cast<double>(at.cost_flops) / flops * 1e9);
}

base::expected<const device_task*> device_manager::prepare(
    const std::shared_ptr<const task>& subject) {
  const std::string id = task_id(*subject);
  if (const device_task* known = tasks_.find(id)) return known;
  QUERN_CHECK(validate(*subject));
  device_task made;
  for (const auto& sizes : tensors_of(*subject).hidden_sizes) {
    QUERN_TRY(auto instance, make_device_instance(*subject, sizes));
    made.hidden.push_back(std::move(instance));
  }
  QUERN_TRY(made.timed, make_device_instance(*subject, tensors_of(*subject).sizes));
  made.floor_ns = floor_of(made.timed.at);
  return &tasks_.add(id, std::move(made));
}

double device_manager::check_limit_s(const device_instance& at, int planted_calls, double most_s) {
  const double calls = calls_beside_planted + planted_calls;
  return std::clamp(calls * slowest_plan * floor_of(at.at) * 1e-9, least_check_s, most_s);
}

std::uint64_t device_manager::free_bytes() {
  auto bytes = context_->free_bytes();
  // What is lent grows meanwhile, and belongs to this process.
  return bytes ? *bytes + memory_.bytes() : 0;
}

process_memory device_manager::memory_of_process() {
  return {[this] { return free_bytes(); }, quiet_, context_bytes};
}

std::optional<std::string> device_manager::end_large(std::unique_ptr<gpu_runner_process> process,
                                                     const process_memory& memory) {
  constexpr double step_s = 0.02;
  const std::uint64_t bytes = memory.bytes();
  const std::uint64_t moved = memory.moved_by_others();
  const device_quiet::hold alone(quiet_);
  // One that was killed may have given all of it back by now.
  const std::uint64_t now_free = free_bytes();
  const std::uint64_t before = std::min(now_free, memory.last_free().value_or(now_free));
  // While it is quiet nobody else moves.
  const std::uint64_t slack = return_slack + (before < now_free ? moved : 0);
  process.reset();
  std::uint64_t back = 0;
  for (double waited = 0; waited < memory_wait_s; waited += step_s) {
    const std::uint64_t now = free_bytes();
    back = now > before ? now - before : 0;
    if (back + slack >= bytes) return std::nullopt;
    std::this_thread::sleep_for(std::chrono::duration<double>(step_s));
  }
  return fmt::format("a process took {} MiB of device memory and gave {} MiB back when it ended",
                     bytes >> 20, back >> 20);
}

}  // namespace quern::env
