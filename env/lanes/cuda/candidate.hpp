// A built candidate in a runner: loading it, telling it what a call is, what its failures mean.
#pragma once

#include <cstdint>
#include <string>

#include "env/gpu/calls.hpp"
#include "env/gpu/lent_memory.hpp"
#include "env/gpu/process_memory.hpp"
#include "env/gpu/runner_process.hpp"
#include "env/lanes/cuda/build.hpp"
#include "env/verdict/finding.hpp"

namespace quern::env {

/// Most scratch that a candidate may ask for, bytes.
inline constexpr std::int64_t most_workspace_bytes = std::int64_t{8} << 30;

/// One candidate in one runner. Thread-compatible.
class loaded_candidate {
 public:
  /// `memory`: of a process of the candidate's own, which outlives this object; else null.
  loaded_candidate(gpu_runner_process& process, std::size_t seat, const built_candidate& what,
                   process_memory* memory = nullptr)
      : process_(&process), seat_(seat), what_(&what), memory_(memory) {}

  /// Loads the code; a shared object's constructors run now.
  finding load();

  /// Asks for the workspace, makes room for `slots` calls, says what a call is. Guards are set.
  finding prepare(device_desk& desk, lent_memory& memory, const device_instance& of,
                  std::int32_t slots);

  /// Host-entry form: what is to be seen of the process from outside after a window. A thread more
  /// than before the candidate was loaded is the candidate's.
  finding look();

  /// What a failed question at `stage` ("verify", "time") means. The process is of no more use.
  finding explain(const runner_failure& failure, const std::string& stage);

  [[nodiscard]] std::int64_t workspace_bytes() const { return workspace_bytes_; }
  [[nodiscard]] gpu_link& link() { return process_->link(); }
  [[nodiscard]] std::size_t seat() const { return seat_; }
  /// Whether its windows wait at the gate (timed_side::gated).
  [[nodiscard]] bool gated() const { return what_->form == cuda_form::device_only; }
  [[nodiscard]] process_memory* memory() const { return memory_; }
  /// A question failed: nobody else can use the process.
  [[nodiscard]] bool spoilt() const { return spoilt_; }

 private:
  finding ask_workspace(const device_instance& of);

  gpu_runner_process* process_;
  std::size_t seat_;
  const built_candidate* what_;
  process_memory* memory_;
  bool has_workspace_entry_ = false;
  int threads_ = 0;  ///< of the process before the candidate was loaded
  bool spoilt_ = false;
  std::int64_t workspace_bytes_ = 0;
};

}  // namespace quern::env
