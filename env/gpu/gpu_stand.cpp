// The device and all that lives on it.
#include <thread>

#include "base/program.hpp"
#include "env/gpu/device_peak.hpp"
#include "env/gpu/gpu_state.hpp"

namespace quern::env {
namespace {

/// Processes of candidates in host-entry form that wait with their contexts made.
constexpr std::size_t processes_ahead = 3;
/// Contexts of processes that end or begin; what a candidate leaks is more.
constexpr std::uint64_t context_bytes = 768ULL << 20;
/// What LibTorch's allocator may keep of a task's temporaries, a reference.
constexpr std::uint64_t reference_bytes = 3ULL << 30;
constexpr double memory_wait_s = 3;
constexpr std::uint64_t bandwidth_footprint = 1ULL << 30;

}  // namespace

gpu_stand::gpu_stand(spawner& children, const evaluator_options& options, gpu_access access,
                     std::unique_ptr<device_desk> desk, std::filesystem::path cuda_library,
                     std::uint64_t secret)
    : children_(children),
      options_(options),
      access_(std::move(access)),
      desk_(std::move(desk)),
      cuda_library_(std::move(cuda_library)),
      memory_(*desk_, 2 * resident_runners, secret),
      pool_(children, {options_.runner_program, cuda_library_, access_},
            options_.host_entry ? processes_ahead : 1) {}

base::expected<gpu_runner_process*> gpu_stand::resident(std::size_t i) {
  if (!residents_[i]) {
    QUERN_TRY(residents_[i], pool_.take());
  }
  return residents_[i].get();
}

base::expected<reference_seat> gpu_stand::reference(std::size_t i, const task& what) {
  auto& place = references_[i];
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
      const bool of_the_task = compiled.error().what == runner_failure::kind::refused;
      if (!of_the_task) place.process.reset();
      return base::fail(of_the_task ? base::errc::invalid_argument : base::errc::unavailable,
                        "reference: {}", compiled.error().text);
    }
    place.script_of = id;
  }
  return reference_seat{&link, resident_runners + i};
}

double gpu_stand::floor_of(const task_instance& at) {
  if (bandwidth_ == 0)
    if (auto measured = desk_->bandwidth(bandwidth_footprint)) bandwidth_ = *measured;
  const double flops = flops_at_best(desk_->facts(), at);
  const double traffic = bandwidth_ > 0 ? static_cast<double>(at.cost_bytes) / bandwidth_ * 1e9 : 0;
  return std::max(traffic, static_cast<double>(at.cost_flops) / flops * 1e9);
}

base::expected<const gpu_task*> gpu_stand::prepare(const std::shared_ptr<const task>& subject) {
  auto& known = tasks_[task_id(*subject)];
  if (known) return known.get();
  QUERN_CHECK(validate(*subject));
  auto made = std::make_unique<gpu_task>();
  for (const auto& sizes : subject->hidden_sizes) {
    QUERN_TRY(auto instance, make_device_instance(*subject, sizes));
    made->hidden.push_back(std::move(instance));
  }
  QUERN_TRY(made->timed, make_device_instance(*subject, subject->sizes));
  made->floor_ns = floor_of(made->timed.at);
  known = std::move(made);
  return known.get();
}

void gpu_stand::note_free_memory() {
  // What is lent grows meanwhile, and belongs to this process.
  if (auto bytes = desk_->free_bytes()) free_before_ = *bytes + memory_.bytes();
}

std::optional<std::string> gpu_stand::memory_missing() {
  constexpr double step_s = 0.02;
  std::uint64_t now = 0;
  for (double waited = 0;; waited += step_s) {
    auto bytes = desk_->free_bytes();
    if (!bytes) return bytes.error().message;
    now = *bytes + memory_.bytes();
    // Processes that wait in the pool come and go meanwhile, and references keep what they used.
    const std::uint64_t allowed =
        context_bytes * (processes_ahead + 1) + reference_bytes * resident_runners;
    if (now + allowed >= free_before_) return std::nullopt;
    if (waited >= memory_wait_s) break;
    std::this_thread::sleep_for(std::chrono::duration<double>(step_s));
  }
  return fmt::format("{} MiB of device memory were not given back", (free_before_ - now) >> 20);
}

}  // namespace quern::env
