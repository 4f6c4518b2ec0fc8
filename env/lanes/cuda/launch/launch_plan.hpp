// The launch plan of a candidate of lane `cuda`. Where `kernel` is nothing but size arithmetic,
// conditions on sizes and launches (docs/formats/launch_plan.md), its text is read once and turned
// into a plan; the rest of the file is for the device compiler, and no host code of the candidate
// ever runs. Pointers stay symbolic: a plan knows buffers and offsets, no addresses.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <tl/expected.hpp>

#include "base/status.hpp"
#include "env/device/window_part.h"
#include "env/task/task.hpp"
#include "env/tensor_task/task_instance.hpp"

namespace quern::env {

/// What a plan may not exceed. The text is the candidate's: everything about it is bounded.
/// Kernels, their parameters and steps are bounded by the runner, which is the one place that says
/// by how much: text with more kernels or parameters has no plan and is in host-entry form; how
/// many steps there are shows when sizes are known.
struct plan_limits {
  static constexpr std::size_t source_bytes = 1 << 20;
  static constexpr std::size_t tokens = 1 << 18;    ///< of the file, macros expanded
  static constexpr int macro_expansions = 1 << 16;  ///< of the file
  static constexpr int nesting = 128;               ///< of brackets, blocks, calls of functions
  static constexpr std::size_t nodes = 1 << 17;     ///< expressions and statements of the plan
  static constexpr std::size_t instances = 256;     ///< of functions of the candidate
  static constexpr std::size_t parameters = 256;    ///< of functions and templates; arguments
  static constexpr std::size_t kernels = QUERN_MOST_KERNELS;  ///< different name expressions
  static constexpr std::size_t kernel_parameters = QUERN_MOST_PARAMETERS;
  static constexpr int steps = QUERN_MOST_STEPS;      ///< of one call
  static constexpr int statements = 16384;            ///< evaluated in one call
  static constexpr int operations = 1 << 20;          ///< evaluated in one call
  static constexpr int depth = 1024;                  ///< of evaluation
  static constexpr std::int64_t grid_x = 2147483647;  ///< CUDA's, compute capability 3.0 and later
  static constexpr std::int64_t grid_yz = 65535;
  static constexpr std::int64_t block_xy = 1024;
  static constexpr std::int64_t block_z = 64;
  static constexpr std::int64_t block_threads = 1024;
  static constexpr std::int64_t shared_bytes = 227 * 1024;  ///< dynamic, compute capability 9.0
};

/// One tensor argument of `kernel`.
struct plan_tensor {
  std::string name;
  dtype type = dtype::f32;
};

/// What `kernel` has to look like: env::kernel_prototype as data. Names serve messages only.
struct plan_signature {
  std::vector<plan_tensor> inputs;
  std::vector<plan_tensor> outputs;
  std::vector<std::string> sizes;
};

plan_signature signature_of(const task& what);

/// Why a file has no launch plan: it is in host-entry form, or wrong. Line and column count from 1;
/// the column counts bytes.
struct plan_error {
  std::uint32_t line = 1;
  std::uint32_t column = 1;
  std::string text;  ///< what was found and what is allowed, without a full stop
};

/// "line 12, column 5: ..."
std::string to_string(const plan_error& what);

/// Memory that a pointer of the plan points into.
enum class plan_buffer : std::uint8_t { null, input, output, workspace };

struct plan_pointer {
  plan_buffer buffer = plan_buffer::null;
  std::uint32_t index = 0;  ///< which input or output; 0 otherwise
  std::int64_t offset = 0;  ///< bytes, 0 to the buffer's size (one past its end is a valid pointer)
  friend bool operator==(const plan_pointer&, const plan_pointer&) = default;
};

/// A number as it lies in memory: `size` bytes in the byte order of this machine.
struct plan_scalar {
  std::array<std::uint8_t, 8> bytes{};
  std::uint32_t size = 0;
  friend bool operator==(const plan_scalar&, const plan_scalar&) = default;
};

using plan_argument = std::variant<plan_scalar, plan_pointer>;

/// Starts kernel `kernel` of launch_plan::kernels(). Within CUDA's limits for grid, block and
/// shared memory; what the kernel itself needs (registers) is for the device to say.
struct kernel_launch {
  std::uint32_t kernel = 0;
  std::array<std::uint32_t, 3> grid{1, 1, 1};
  std::array<std::uint32_t, 3> block{1, 1, 1};
  std::uint32_t shared_bytes = 0;  ///< dynamic shared memory
  bool cooperative = false;
  std::vector<plan_argument> arguments;  ///< one for each parameter of the kernel
  friend bool operator==(const kernel_launch&, const kernel_launch&) = default;
};

/// cudaMemsetAsync: never into an input, inside its buffer, at least one byte.
struct memory_set {
  plan_pointer to;
  std::uint8_t value = 0;
  std::int64_t bytes = 0;
  friend bool operator==(const memory_set&, const memory_set&) = default;
};

/// cudaMemcpyAsync from device to device: as memory_set, and the ranges do not overlap.
struct memory_copy {
  plan_pointer to;
  plan_pointer from;
  std::int64_t bytes = 0;
  friend bool operator==(const memory_copy&, const memory_copy&) = default;
};

using launch_step = std::variant<kernel_launch, memory_set, memory_copy>;

/// What one call is made for: all sizes in the task's order, and how large the buffers are.
struct plan_call {
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> input_bytes;
  std::vector<std::int64_t> output_bytes;
  std::int64_t workspace_bytes = 0;
};

plan_call call_of(const task_instance& instance, std::int64_t workspace_bytes);

/// A parameter as the kernel's definition declares it.
struct plan_parameter {
  bool pointer = false;
  std::uint32_t size = 0;  ///< bytes; 8 for pointers
  std::string type;        ///< for messages
};

struct plan_kernel {
  std::string name;  ///< name expression: "softmax<256, float>", "detail::copy_rows"
  std::vector<plan_parameter> parameters;
};

namespace plan {
struct program;
}

/// The plan of one candidate. Immutable, cheap to copy, usable from several threads at once.
///
/// The runner must compare the parameters of each compiled kernel with plan_kernel::parameters
/// (cuFuncGetParamInfo) before it launches: their types come from the text as this parser reads it,
/// and a header that the file includes can make the compiler read it otherwise.
class launch_plan {
 public:
  explicit launch_plan(std::shared_ptr<const plan::program> what) : program_(std::move(what)) {}

  /// The file with its host functions blanked out (`kernel`, `workspace_bytes` and all functions
  /// that are neither `__global__`, `__device__` nor `constexpr`); every other byte is where it
  /// was.
  [[nodiscard]] const std::string& device_source() const;

  /// Every kernel that some call may launch, in the order of the text.
  [[nodiscard]] const std::vector<plan_kernel>& kernels() const;
  /// Their name expressions, for nvrtcAddNameExpression.
  [[nodiscard]] std::vector<std::string> kernel_names() const;

  /// Bytes that `workspace_bytes` asks for; 0 where the file has none. Errors as in steps.
  [[nodiscard]] base::expected<std::int64_t> workspace(std::span<const std::int64_t> sizes) const;

  /// What one call does, in stream order. Errors (invalid_argument: the call does not fit the
  /// signature; exhausted: one of plan_limits; corrupt: the arithmetic has no value or a step is
  /// not allowed) begin with line and column.
  [[nodiscard]] base::expected<std::vector<launch_step>> steps(const plan_call& call) const;

 private:
  std::shared_ptr<const plan::program> program_;
};

/// Reads a candidate. Linear in the text up to plan_limits; never runs or compiles anything.
tl::expected<launch_plan, plan_error> parse_launch_plan(std::string_view source,
                                                        const plan_signature& signature);

}  // namespace quern::env
