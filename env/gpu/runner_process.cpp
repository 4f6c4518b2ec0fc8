// One process on a device in which kernels run.
#include "env/gpu/runner_process.hpp"

namespace quern::env {
namespace {

/// Threads that the driver starts, and as many again for a candidate's host code.
constexpr int gpu_processes = 64;
constexpr int gpu_open_files = 256;
constexpr double context_s = 60;

}  // namespace

base::expected<std::unique_ptr<gpu_runner_process>> gpu_runner_process::start(
    spawner& children, const gpu_runner_start& how) {
  QUERN_TRY(auto ends, runner_link::make_pair());
  child_spec spec;
  spec.argv = {how.runner_program.string(), "gpu", how.cuda_library.string()};
  spec.keep = {{ends.second.get(), runner::socket_fd}};
  spec.read_only = system_library_folders();
  spec.read_only.push_back(how.cuda_library.string());
  if (!how.libraries.empty()) spec.read_only.push_back(how.libraries.string());
  spec.profile = syscall_profile::gpu;
  spec.threads = true;
  spec.gpu = how.access;
  spec.env = how.access.env;
  // What a candidate copies between host and device is small.
  spec.env.emplace_back("CUDA_DEVICE_MAX_COPY_CONNECTIONS=1");
  if (how.queues == work_queues::one) spec.env.emplace_back("CUDA_DEVICE_MAX_CONNECTIONS=1");
  spec.limits.wall_s = how.wall_s;
  spec.limits.cpu_s = how.wall_s;
  spec.limits.memory_bytes = how.memory_bytes;
  spec.limits.work_bytes = 0;
  spec.limits.processes = gpu_processes;
  spec.limits.open_files = gpu_open_files;
  std::unique_ptr<gpu_runner_process> process(new gpu_runner_process);
  process->has_libraries_ = !how.libraries.empty();
  process->locks_required_ = how.locks_required;
  QUERN_TRY(process->child_, children.spawn(spec));
  process->link_ = gpu_link(runner_link(std::move(ends.first), process->child_->pid()));
  ends.second.reset();
  if (auto begun = process->link_.open(0, context_s, runner::gpu_open_stage::driver); !begun)
    return base::fail(base::errc::unavailable, "a runner on the device: {} ({})",
                      begun.error().text, process->end().text());
  return process;
}

base::status gpu_runner_process::open() {
  // The child sees one device only.
  if (auto opened = link_.open(0, context_s, runner::gpu_open_stage::warm); !opened)
    return base::fail(base::errc::unavailable, "a runner on the device: {} ({})",
                      opened.error().text, end().text());
  return {};
}

child_end gpu_runner_process::end() {
  if (auto ended = child_->wait(0.05)) return *ended;
  return child_->kill();
}

}  // namespace quern::env
