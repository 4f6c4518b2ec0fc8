// A task's reference: TorchScript text, compiled and run by LibTorch on memory that it does not
// own.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "env/task/dtype.hpp"

namespace quern::env {

/// A tensor somewhere in memory: contiguous, row-major.
struct tensor_view {
  dtype type = dtype::f32;
  std::vector<std::int64_t> shape;
  void* data = nullptr;
};

/// What run() can find wrong with the reference's own result.
enum class result_fault { none, failed, wrong_shape, wrong_dtype };

struct result_check {
  result_fault what = result_fault::none;
  std::string text;
};

/// LibTorch set up for references: one thread, no gradients, no graph optimiser, pooled memory, and
/// warm (a small script was compiled and run). Returns LibTorch's version. Once per process.
std::string prepare_libtorch();

/// One compiled reference. Single-threaded.
class script {
 public:
  /// The text must define `forward`. Error: invalid_argument with the compiler's message.
  static base::expected<script> compile(const std::string& text);
  ~script();
  script(script&&) noexcept;
  script& operator=(script&&) noexcept;

  /// Calls forward on the inputs and keeps its outputs (made contiguous) as result number
  /// `slot`. `in_f64`: floating inputs are widened first. Returns false with `why` where forward
  /// throws. This is the stretch that is timed: nothing else is done here.
  bool call(std::span<const tensor_view> inputs, std::size_t slot, bool in_f64, std::string& why);

  /// Copies result `slot` to the outputs, checking number, shape and type, and forgets it. With
  /// `in_f64` the floating outputs are f64, whatever their view says.
  result_check deliver(std::span<const tensor_view> outputs, std::size_t slot, bool in_f64);

 private:
  struct state;
  explicit script(std::unique_ptr<state> s);
  std::unique_ptr<state> state_;
};

}  // namespace quern::env
