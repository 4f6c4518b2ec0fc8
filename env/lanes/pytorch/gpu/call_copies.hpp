// What the evaluator copies between the calls of a window: inputs of the call that comes, and some
// of the outputs of the call that was answered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.hpp"
#include "base/random.hpp"
#include "base/status.hpp"
#include "env/gpu/device_context.hpp"
#include "env/lanes/pytorch/gpu/device_module.hpp"
#include "env/lanes/pytorch/gpu/late_bytes.hpp"

namespace quern::env {

/// Where the calls of a side find their tensors.
struct side_memory {
  std::uint64_t inputs, outputs;
};

/// Copies between the calls of one candidate and of its reference. A module that sees the inputs of
/// a call before it is asked, or delivers its results behind the answer, could compute all calls of
/// a window as one. So a part of each call's inputs (late_bytes) comes when its question does. Of
/// one call in four, by chance, some bytes of its outputs (sampled_bytes) are read when it was
/// answered.
///
/// Neither copy brings the evaluator's own CUDA context to the device, which would take some 150 us
/// a call (device_context::send). In one call of 16, by chance, the last lines of late_bytes come
/// 20 us behind the others, and until then each stands in the place of another. So a module that
/// does not wait for its question, but for its inputs to change, computes some calls with what is
/// not there yet. Both sides of a pair of windows have the same draws. Thread-compatible.
class call_copies {
 public:
  /// All outlive it.
  call_copies(const module_places& places, device_context& context, module_memory& memory)
      : places_(places), context_(context), memory_(memory) {}

  /// Draws what is late and sampled, and reads the late bytes of `calls` contents, which lie in the
  /// staging from `staged` on and are complete. `random`: a secret. Error: of this host.
  base::status take(std::uint64_t staged, std::size_t calls, base::random_stream& random);
  /// Queues copies of all inputs from there that are not late. What is late keeps what it had.
  void put_rest(std::uint64_t inputs);
  /// Between two calls: reads samples of the one before, if there is one, and brings the late bytes
  /// of this one, if take() had contents for it. Waits for both. An error is reported by the
  /// context's next wait(). Returns how long it paused, which nobody can tell ahead and which is no
  /// part of a window's time. What the copies take is: who makes them slow pays for it.
  base::nanoseconds_t before_call(std::size_t call, const side_memory& of);
  /// Sends and fetches some bytes of no meaning, and waits: longer, where somebody left the engines
  /// for copies at work. `zeros`: device memory that is zero and stays so, of 4 KiB; or 0.
  void pass_through_engines(std::uint64_t zeros);
  /// The first call of which a sampled byte differs in `outputs`, a copy that was made behind the
  /// last answer. Error: of this host.
  base::expected<std::optional<std::size_t>> changed_behind_its_answer(std::uint64_t outputs);

 private:
  struct one_call {
    late_bytes late;
    sampled_bytes sample;
    bool pauses = false;
  };

  /// Pinned memory of a call, from `offset` on.
  [[nodiscard]] std::span<std::byte> host(std::size_t call, std::uint64_t offset,
                                          std::uint64_t bytes) const;
  base::nanoseconds_t send_late(std::size_t call, std::uint64_t inputs);
  void fetch_sample(std::size_t call, std::uint64_t outputs, std::uint64_t to);
  [[nodiscard]] std::uint64_t input_stride() const { return places_.inputs.stride(); }

  const module_places& places_;
  device_context& context_;
  module_memory& memory_;
  std::uint64_t staged_ = 0;
  std::vector<one_call> calls_;
  /// How many calls have had their samples, from the first on.
  std::size_t sampled_ = 0;
};

}  // namespace quern::env
