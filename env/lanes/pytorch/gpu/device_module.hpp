// A Python process with a GPU and one module, and the device memory that it is lent.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "base/status.hpp"
#include "env/gpu/device_context.hpp"
#include "env/gpu/slots.hpp"
#include "env/judge/core_pace.hpp"
#include "env/lanes/pytorch/module_process.hpp"
#include "env/lanes/pytorch/process/module_sheet.hpp"
#include "env/runner/gpu_protocol.hpp"

namespace quern::env {

/// Calls one after the other; in ns.
struct call_times {
  /// From each question to its answer.
  std::vector<base::nanoseconds_t> calls;
  /// What the core_look of the calls said, in its order.
  std::vector<base::nanoseconds_t> looks;
};

/// What the evaluator does just before it asks for the call of this number. Returns how long it
/// paused, in ns.
using call_preparation = std::function<base::nanoseconds_t(std::size_t)>;

/// Of one child with a GPU. Answers fail as those of runner_link do. Thread-compatible.
class device_module final {
 public:
  /// `zygote` outlives it.
  device_module(python_zygote& zygote, python_child child) : process_(zygote, std::move(child)) {}

  [[nodiscard]] module_process& process() { return process_; }
  [[nodiscard]] python_child& child() { return process_.child(); }

  /// Puts a text into the folder that the process is shown: its path there. Error: of this host.
  base::expected<std::string> put(std::string_view name, const std::string& text);
  /// The same of a file.
  base::status put_file(std::string_view name, const std::string& from);

  /// Maps device memory as this region, inputs (QUERN_INPUTS) for reading only. `hint`: where.
  answered<void> import(std::int32_t region, const device_allocation& memory, std::uint64_t hint);
  /// Where a call finds its tensors.
  answered<void> plan(const runner::gpu_call_request& call);
  /// Has it launch and wait as a call does, so that the caches have what a call passes through.
  answered<void> wake();
  /// Calls on the slots from the first on, a question each, which the device has answered before
  /// the next is asked: from the begin of the first `prepare` to the last answer, in ns, less what
  /// these paused. `limits`: their wall clock, of all calls together. `each`: gets the times, and
  /// what `look` says between calls, 0.1 ms apart or more (0.15 on average), which counts. What is
  /// timed is asked by a thread on the process's core: on another one it would be woken late.
  answered<base::nanoseconds_t> run(int calls, question_limits limits, call_times* each = nullptr,
                                    const core_look& look = {},
                                    const call_preparation& prepare = {});
  /// So many times the results of the last call once more: what calls cost in which nothing is
  /// computed. The rest as of run(), without looks.
  answered<base::nanoseconds_t> deliver(int calls, question_limits limits,
                                        call_times* each = nullptr,
                                        const call_preparation& prepare = {});

 private:
  module_process process_;
};

/// Where the tensors of calls of this module lie: one slot a call in each region. Plain value.
struct module_places {
  task_instance at;
  slot_layout inputs, outputs;

  explicit module_places(task_instance instance)
      : at(std::move(instance)), inputs(at.inputs), outputs(at.outputs) {}

  /// Bytes of a slot in all of the evaluator's regions (module_memory).
  [[nodiscard]] std::uint64_t slot_bytes() const {
    return 3 * (inputs.stride() + outputs.stride());
  }
  /// Of a process that calls a model.
  [[nodiscard]] runner::gpu_call_request call() const;
  /// Of a process that makes content: inputs lie in its region of outputs, which it can write.
  [[nodiscard]] runner::gpu_call_request content() const;
};

/// The region of a process in which weights are.
inline constexpr std::int32_t weights_region = QUERN_WORKSPACE;

/// The evaluator's memory of one device, for the calls of one module at a time. What a candidate
/// has mapped, nobody else has but the evaluator.
///
///     staging    written by the process that makes content. Behind that of a window lies that of
///                windows to come.
///     inputs     copies of it, one of the candidate and one of the reference, made when a side is
///                asked, so that neither finds more in the device's caches than the other
///     outputs    of the candidate, and of the reference
///     snapshot   what the candidate's outputs were when it had answered
///     weights    of the reference's model, written by it, and a copy for the candidate, made anew
///                for each
///     pinned     memory of the host, for what is copied between calls (call_copies)
///     flush      twice the second-level cache, all zero: read to empty that. The evaluator's
///     alone.
///
/// Regions that are large enough stay when the task changes. To make one asks the driver several
/// times, which answers late while it makes contexts. Thread-compatible.
class module_memory {
 public:
  /// `seed`: of the addresses at which processes map it.
  module_memory(device_context& context, std::uint64_t seed)
      : context_(context), addresses_(seed, "addresses of a module's memory") {}

  /// For calls on `slots` contents, which lie behind each other, with `ahead` more in the staging,
  /// of a model with so many bytes of weights; and flush(). Error: the device has not so much.
  base::status reserve(const module_places& places, int slots, int ahead, std::uint64_t weights);

  [[nodiscard]] std::uint64_t staging() const { return staging_.address(); }
  [[nodiscard]] std::uint64_t candidate_inputs() const { return candidate_inputs_.address(); }
  [[nodiscard]] std::uint64_t reference_inputs() const { return reference_inputs_.address(); }
  [[nodiscard]] std::uint64_t candidate_outputs() const { return candidate_.address(); }
  [[nodiscard]] std::uint64_t reference_outputs() const { return reference_.address(); }
  [[nodiscard]] std::uint64_t snapshot() const { return snapshot_.address(); }
  /// Made by reserve(): calls of both sides begin after that succeeded. Empty before.
  [[nodiscard]] const device_allocation& flush() const { return flush_; }
  /// Has at least so much pinned memory from now on. Makes it anew where there is less; what was in
  /// it is lost then.
  base::status pin(std::uint64_t bytes);
  [[nodiscard]] std::span<std::byte> pinned() const { return pinned_.bytes(); }
  /// Differs from what it was before where a region was made anew: then all is to be lent again.
  [[nodiscard]] std::uint64_t making() const { return making_; }

  answered<void> lend_to_content(device_module& to, const module_places& places);
  answered<void> lend_to_reference(device_module& to, const module_places& places);
  /// Its copy of the weights is made, too. Error: of this host, also where the process refuses.
  base::status lend_to_candidate(device_module& to, const module_places& places);

 private:
  base::status grow(device_allocation& region, std::uint64_t slot_bytes, int slots);
  std::uint64_t somewhere();

  device_context& context_;
  device_allocation staging_, candidate_inputs_, reference_inputs_, candidate_, reference_,
      snapshot_, weights_, candidate_weights_, flush_;
  pinned_memory pinned_;
  std::uint64_t weight_bytes_ = 0;  ///< of the model that was reserved for last
  std::uint64_t making_ = 1;
  base::random_stream addresses_;
};

}  // namespace quern::env
