// A task's reference: TorchScript text, compiled and run by LibTorch on memory that it does not
// own: this process's, or a device's (device_torch.hpp).
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "env/tensor_task/dtype.hpp"

namespace quern::env {

/// Where a reference's tensors lie: the number of a CUDA device, or this.
inline constexpr int in_host_memory = -1;

/// A tensor somewhere in memory: contiguous, row-major.
struct tensor_view {
  dtype type = dtype::f32;
  std::vector<std::int64_t> shape;
  void* data = nullptr;
};

/// What run() can find wrong with the reference's own result.
enum class result_fault { none, failed, wrong_shape, wrong_dtype };

struct result_check {
  result_fault fault_kind = result_fault::none;
  std::string text;
};

/// Operators run one by one, as the text has them: no gradients, no graph optimiser, no profiling
/// runs and therefore no fuser. What a reference is compared with is ATen, not a compiler.
void run_operators_as_written();

/// The message of an exception of LibTorch without the C++ stack behind it.
std::string message_of(const std::exception& e);

/// LibTorch set up for references in host memory: one thread, no gradients, no graph optimiser,
/// pooled memory, and warm (a small script was compiled and run). Returns LibTorch's version. Once
/// per process.
std::string prepare_libtorch();

/// One compiled reference. Single-threaded.
class script {
 public:
  /// The text must define `forward`. `device`: where the views of its tensors will point to.
  /// Error: invalid_argument with the compiler's message, or the operator that is not for
  /// references (operator_rules.hpp).
  static base::expected<script> compile(const std::string& text, int device = in_host_memory);
  ~script();
  script(script&&) noexcept;
  script& operator=(script&&) noexcept;

  /// Calls forward on the inputs and keeps its outputs (made contiguous) as result number
  /// `slot`. `in_f64`: floating inputs are widened first. Returns false with `why` where forward
  /// throws. This is the stretch that is timed: nothing else is done here. On a device the work is
  /// queued on the current stream, and the device's errors are found later.
  bool call(std::span<const tensor_view> inputs, std::size_t slot, bool in_f64, std::string& why);

  /// Copies result `slot` to the outputs, checking number, shape and type, and forgets it. With
  /// `in_f64` the floating outputs are f64, whatever their view says. On a device the copies are
  /// queued.
  result_check deliver(std::span<const tensor_view> outputs, std::size_t slot, bool in_f64);
  /// The same, but the result stays: a CUDA graph writes it again at the same place.
  result_check copy_out(std::span<const tensor_view> outputs, std::size_t slot, bool in_f64);

  /// Forgets every result.
  void forget();

 private:
  struct state;
  explicit script(std::unique_ptr<state> s);
  std::unique_ptr<state> state_;
};

}  // namespace quern::env
