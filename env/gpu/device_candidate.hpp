// A built candidate in a runner on a device, as check_on_device asks for it. For the clock a lane
// makes a timed_side (device_timing.hpp) of its runners.
#pragma once

#include <cstdint>
#include <string>

#include "env/gpu/calls.hpp"
#include "env/gpu/lent_memory.hpp"
#include "env/gpu/process_memory.hpp"
#include "env/gpu/runner_process.hpp"
#include "env/verdict/finding.hpp"

namespace quern::env {

/// One candidate in one runner; a lane implements it for what it builds. Thread-compatible.
class device_candidate {
 public:
  virtual ~device_candidate() = default;

  /// Loads the code, which may run some of it.
  virtual finding load() = 0;
  /// Asks for the workspace, makes room for `slots` calls, says what a call is. Guards are set.
  virtual finding prepare(device_context& context, lent_memory& memory, const device_instance& of,
                          std::int32_t slots) = 0;
  /// What is to be seen of the process from outside after a window.
  virtual finding look() { return {}; }
  /// What a failed question at `stage` ("verify", "time") means. The process is of no more use.
  virtual finding explain(const runner_failure& failure, const std::string& stage) = 0;

  /// Of the last prepare(), bytes.
  [[nodiscard]] virtual std::int64_t workspace_bytes() const = 0;
  [[nodiscard]] virtual gpu_link& link() = 0;
  /// Whose outputs it writes (lent_memory).
  [[nodiscard]] virtual std::size_t output_buffer() const = 0;
  /// Whether its windows wait at the gate (timed_side::gated).
  [[nodiscard]] virtual bool gated() const = 0;
  /// Of a process of its own; null: it shares one with others, or nobody looks.
  [[nodiscard]] virtual process_memory* memory() const { return nullptr; }
  /// A question failed: nobody else can use the process.
  [[nodiscard]] virtual bool spoilt() const = 0;
};

/// What a failed question means, whatever the candidate is: a timeout at `stage`, a forged answer,
/// an end, a fault. Ends the process where it did not answer as it should.
finding explain_failure(gpu_runner_process& process, const runner_failure& failure,
                        const std::string& stage);

}  // namespace quern::env
