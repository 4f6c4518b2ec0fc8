// A process that runs references on a device.
#include "env/gpu/reference_process.hpp"

#include <vector>

#include "base/text.hpp"
#include "env/build/tool.hpp"
#include "env/gpu/runpath.hpp"

namespace quern::env {
namespace {

/// CUDA's own threads, and those that cuBLAS and cuDNN may start.
constexpr int reference_threads = 128;
constexpr int reference_files = 1024;
/// CUDA and its libraries make memory files of this size.
constexpr std::int64_t reference_file_bytes = std::int64_t{2} << 30;
constexpr std::int64_t said_bytes = 64 << 10;
/// How long an end of file on its socket may take it to notice.
constexpr double leaving_s = 2;

/// Nothing of ours is passed on but what is named here.
std::vector<std::string> reference_environment() {
  return {"OMP_NUM_THREADS=1", "MKL_NUM_THREADS=1", "PATH=/usr/bin:/bin", "LC_ALL=C"};
}

base::expected<std::unique_ptr<child>> spawn_reference(spawner& children,
                                                       const gpu_reference_start& how, int socket) {
  child_spec spec;
  spec.argv = {how.program.string(), "reference-gpu", how.library.string()};
  spec.env = reference_environment();
  spec.keep = {{socket, runner::socket_fd}};
  spec.err = child_stream::captured(said_bytes);
  spec.read_only = system_library_folders();
  const bool other = !how.command.empty();
  if (other) {
    spec.argv = how.command;
    spec.env = how.environment;
    spec.limits.work_bytes = how.work_bytes;
    spec.read_only.insert(spec.read_only.end(), how.read_only.begin(), how.read_only.end());
    for (const auto& folder : compiler_folders())
      spec.read_only.push_back(folder);
  } else {
    QUERN_TRY(const auto folders, torch_library_folders(how.program));
    for (const auto& folder : folders)
      spec.read_only.push_back(folder.string());
  }
  spec.env.insert(spec.env.end(), how.access.env.begin(), how.access.env.end());
  spec.read_only.push_back(how.library.string());
  spec.read_only.push_back((how.library.parent_path() / "libquern_aten_cuda.so").string());
  spec.profile = other ? syscall_profile::gpu_compiler : syscall_profile::gpu;
  spec.threads = true;
  spec.gpu = how.access;
  spec.limits.wall_s = 0;
  spec.limits.cpu_s = 0;
  spec.limits.memory_bytes = how.memory_bytes;
  spec.limits.file_bytes = reference_file_bytes;
  spec.limits.processes = reference_threads;
  spec.limits.open_files = reference_files;
  return children.spawn(spec);
}

}  // namespace

base::expected<std::unique_ptr<gpu_reference_process>> gpu_reference_process::start(
    spawner& children, const gpu_reference_start& how) {
  QUERN_TRY(auto ends, runner_link::make_pair());
  std::unique_ptr<gpu_reference_process> process(new gpu_reference_process);
  QUERN_TRY(process->child_, spawn_reference(children, how, ends.second.get()));
  process->pid_ = process->child_->pid();
  ends.second.reset();
  QUERN_CHECK(process->open(std::move(ends.first), how));
  return process;
}

base::status gpu_reference_process::open(base::unique_fd socket, const gpu_reference_start& how) {
  link_ = gpu_link(runner_link(std::move(socket), pid_));
  const auto opened = link_.open(how.device, how.open_wall_s);
  if (opened) return {};
  // One that refused still lives and is ended with this object.
  const bool lives = opened.error().failure_kind == runner_failure::kind::refused;
  const std::string ended = lives ? "" : fmt::format("; it ended: {}", end());
  const std::string words = base::one_line(said());
  return base::fail(base::errc::unavailable, "{} reference-gpu, device {}: {}{}{}{}",
                    how.program.string(), how.device, opened.error().text, ended,
                    words.empty() ? "" : "; it said: ", words);
}

gpu_reference_process::~gpu_reference_process() {
  end();
}

layer_set gpu_reference_process::layers() const {
  return child_->layers();
}

std::string gpu_reference_process::said() const {
  return child_->captured_err();
}

std::string gpu_reference_process::end() {
  if (pid_ < 0) return "it had ended";
  link_ = gpu_link();  // end of file: it leaves by itself
  pid_ = -1;
  if (auto ended = child_->wait(leaving_s)) return ended->text();
  return child_->kill().text();
}

}  // namespace quern::env
