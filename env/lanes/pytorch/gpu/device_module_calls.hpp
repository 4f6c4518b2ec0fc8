// Calls of a candidate and of its reference on one content, and whether they agree.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "env/core/idle_charge.hpp"
#include "env/gpu/desk.hpp"
#include "env/lanes/pytorch/gpu/device_module_task.hpp"
#include "env/verdict/finding.hpp"

namespace quern::env {

/// One call of one side, by the evaluator's clock.
struct device_call {
  double answer_ns = 0;  ///< from question to answer
  /// From there until a copy of its outputs was made, in the evaluator's context. Work that is put
  /// off until behind the answer makes it longer, or comes too late to be copied. 0: not copied.
  double tail_ns = 0;
};

/// One candidate on a device beside its reference. `candidate` may be exchanged between calls.
/// Thread-compatible.
class device_module_calls {
 public:
  /// All outlive it, and the candidate has the memory of this task. `flush_bytes`: read before each
  /// call, so that neither side finds in the cache what the other left.
  device_module_calls(device_module_task& of, device_desk& desk, module_memory& memory,
                      device_module& candidate, std::uint64_t secret);

  /// Content that no call had before, of the nominal distribution.
  module_case fresh();
  /// Makes it. A finding is the task's or the host's.
  finding make(const module_case& what);
  /// A call of the reference on it. `copies`: its outputs, too, as those of a candidate are, so
  /// that the tail of a call in which nothing is put off is known.
  finding reference(bool copies, device_call& took);
  /// What a call of the reference costs in which nothing is computed.
  finding delivery(double& took_ns);
  /// A call of the candidate, whose inputs are put there when it is asked. `limit_s`: of its wall.
  finding candidate(double limit_s, device_call& took);
  /// Whether what the candidate's outputs were right behind its answer is what the reference gave.
  /// `where`: for people.
  finding compare(const output_limits& limit, const std::string& where);
  /// Whether nothing beside the candidate's outputs was written.
  finding look_at_guards();
  /// What a failed question to the candidate means. `stage`: names timeouts.
  finding explain(const runner_failure& why, const std::string& stage);

 private:
  finding failed_reference(const runner_failure& why);
  void poison(std::uint64_t outputs);
  finding get_ready();

  device_module_task& of_;
  device_desk& desk_;
  module_memory& memory_;
  device_module& candidate_;
  base::random_stream random_;
  device_piece flush_;
  std::uint64_t flush_bytes_ = 0;
};

}  // namespace quern::env
