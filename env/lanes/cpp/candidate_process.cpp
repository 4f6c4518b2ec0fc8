// One candidate in one sandboxed child.
#include "env/lanes/cpp/candidate_process.hpp"

namespace quern::env {
namespace {

constexpr int processes_with_threads = 16;

}  // namespace

base::expected<std::unique_ptr<candidate_process>> candidate_process::start(
    spawner& children, const candidate_start& how) {
  QUERN_TRY(auto ends, runner_link::make_pair());
  child_spec spec;
  spec.argv = {how.runner_program.string()};
  spec.keep = {{ends.second.get(), runner::socket_fd}};
  spec.read_only = system_library_folders();
  spec.read_only.push_back({how.artefact.string()});
  spec.limits.wall_s = how.wall_s;
  spec.limits.cpu_s = how.wall_s;
  spec.limits.memory_bytes = how.memory_bytes;
  spec.limits.work_bytes = 0;
  spec.core = how.core;
  spec.fixed_layout = true;
  if (how.threads) {
    spec.threads = true;
    spec.limits.processes = processes_with_threads;
  }
  std::unique_ptr<candidate_process> process(new candidate_process);
  QUERN_TRY(process->child_, children.spawn(spec));
  process->link_ = runner_link(std::move(ends.first), process->child_->pid());
  return process;
}

child_end candidate_process::end() {
  // A runner that died by itself is reaped within moments; one that lives is killed.
  if (auto ended = child_->wait(0.05)) return *ended;
  return child_->kill();
}

}  // namespace quern::env
