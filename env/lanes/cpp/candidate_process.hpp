// One candidate in one sandboxed child: start, load, workspace, calls; and what is said when it
// dies.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "base/status.hpp"
#include "env/core/core_process.hpp"
#include "env/sandbox/child.hpp"

namespace quern::env {

struct candidate_start {
  std::filesystem::path runner_program;
  /// The shared object; the only file of the host besides system libraries that the child sees.
  std::filesystem::path artefact;
  int core = -1;
  /// All of it: outputs, workspace (at most 256 MiB), and what the candidate allocates itself.
  std::int64_t memory_bytes = std::int64_t{640} << 20;
  double wall_s = 120;
  /// Whether it may start threads. Never true but in tests of what finds them out.
  bool threads = false;
};

/// Owns the child, which serves this candidate and no other and ends with this object.
class candidate_process final : public core_process {
 public:
  /// Spawns quern-runner. Errors are of this host. The artefact is not loaded yet: its
  /// constructors are candidate code, so that loading is a question of the link.
  static base::expected<std::unique_ptr<candidate_process>> start(spawner& children,
                                                                  const candidate_start& how);

  [[nodiscard]] runner_link& link() override { return link_; }
  [[nodiscard]] layer_set layers() const override { return child_->layers(); }
  child_end end() override;

 private:
  candidate_process() = default;
  std::unique_ptr<child> child_;
  runner_link link_;
};

}  // namespace quern::env
