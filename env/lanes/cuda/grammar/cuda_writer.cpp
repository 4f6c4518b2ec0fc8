// Lines, loops, functions and launches of generated CUDA kernels.
#include "env/lanes/cuda/grammar/cuda_writer.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "env/grammar/task_maker.hpp"
#include "env/lanes/cuda/cuda_lane.hpp"
#include "env/tensor_task/prototype.hpp"

namespace quern::env {

namespace {

/// As many blocks as an H200 holds of 256 threads.
constexpr std::string_view stride_blocks = "1056";

}  // namespace

cuda_writer::cuda_writer(const composition& subject, const composition& what,
                         const cuda_style& style, kernel_error error)
    : text_writer(what, style.math, error, "__expf"), subject_(subject), style_(style) {}

std::string_view cuda_writer::element_bound() const {
  if (error_ == kernel_error::missing_columns) return "n * m / 8 * 8";
  return error_ == kernel_error::missing_rows ? "n / 4 * 4 * m" : "n * m";
}

void cuda_writer::barrier(bool may_be_missing) {
  if (!(may_be_missing && error_ == kernel_error::missing_barrier)) line("__syncthreads();");
}

std::string cuda_writer::larger(std::string_view a, std::string_view b) const {
  if (style_.branchless) return call("fmax", fmt::format("{}, {}", a, b));
  return fmt::format("{} > {} ? {} : {}", a, b, a, b);
}

std::string cuda_writer::quotient(std::string_view a, std::string_view b) const {
  if (style_.math == math_kind::fast) return fmt::format("__fdividef({}, {})", a, b);
  const bool simple = b.find(' ') == std::string_view::npos;
  return simple ? fmt::format("{} / {}", a, b) : fmt::format("{} / ({})", a, b);
}

std::string cuda_writer::statement(const composition_step& step) const {
  switch (step.kind) {
    case step_kind::relu:
      return larger("h", "0");
    case step_kind::clip:
      return style_.branchless ? call("fmin", call("fmax", "h, -1") + ", 1")
                               : "h < -1 ? -1 : h > 1 ? 1 : h";
    case step_kind::abs:
      return call("fabs", "h");
    case step_kind::negate:
      return "-h";
    case step_kind::square:
      return "h * h";
    case step_kind::root:
      return call("sqrt", call("fabs", "h") + " + 1");
    case step_kind::softsign:
      return quotient("h", call("fabs", "h") + " + 1");
    case step_kind::sigmoid:
      return quotient("1", "1 + " + call("exp", "-h"));
    case step_kind::tanh:
      return style_.math == math_kind::fast ? "1 - " + quotient("2", "1 + " + call("exp", "2 * h"))
                                            : call("tanh", "h");
    case step_kind::silu:
      return quotient("h", "1 + " + call("exp", "-h"));
    case step_kind::decay:
      return call("exp", "-" + call("fabs", "h"));
    case step_kind::scale:
      return fmt::format("h * {}", constant(step.constant));
    case step_kind::shift:
      return fmt::format("h {} {}", step.constant < 0 ? '-' : '+',
                         constant(std::fabs(step.constant)));
    case step_kind::times_row:
      return "h * w";
    case step_kind::plus_row:
      return "h + w";
    case step_kind::times_tensor:
      return "h * t";
    case step_kind::plus_tensor:
      return "h + t";
    default:  // max_tensor: structural steps are written by their families
      return larger("h", "t");
  }
}

bool has_class(std::span<const composition_step> steps, step_class wanted) {
  return std::any_of(steps.begin(), steps.end(),
                     [&](const composition_step& step) { return class_of(step.kind) == wanted; });
}

void cuda_writer::function(std::string_view name, std::span<const composition_step> steps) {
  if (steps.empty()) return;
  std::string parameters = fmt::format("{} h", number());
  if (has_class(steps, step_class::row)) parameters += ", float w";
  if (has_class(steps, step_class::tensor)) parameters += ", float t";
  const std::string head = fmt::format("__device__ {} {}({}) {{\n", number(), name, parameters);
  if (functions_.find(head) != std::string::npos) return;
  functions_ += head;
  for (const composition_step& step : steps)
    functions_ += fmt::format("  h = {};\n", statement(step));
  functions_ += "  return h;\n}\n";
}

std::string cuda_writer::applied(std::string_view name, std::span<const composition_step> steps,
                                 std::string_view value, std::string_view column,
                                 std::string_view flat) const {
  if (steps.empty()) return std::string(value);
  std::string text = fmt::format("{}({}", name, value);
  if (has_class(steps, step_class::row)) text += ", " + load("w", column);
  // Vectors of t are at hand as u, an element a lane.
  if (has_class(steps, step_class::tensor))
    text += ", " + (flat == "c" ? std::string("u[c]") : load("t", flat));
  return text + ")";
}

std::string cuda_writer::load(std::string_view source, std::string_view index) const {
  const bool input = source == "x" || source == "w" || source == "t";
  if (style_.readonly && input) return fmt::format("__ldg({} + {})", source, index);
  return fmt::format("{}[{}]", source, index);
}

void cuda_writer::open_kernel(std::string_view name) {
  const std::string_view promise = style_.restricted ? "__restrict__ " : "";
  std::string parameters = fmt::format("const float* {}x", promise);
  if (uses_row(subject_)) parameters += fmt::format(", const float* {}w", promise);
  if (uses_tensor(subject_)) parameters += fmt::format(", const float* {}t", promise);
  parameters += fmt::format(", float* {}y, int n, int m", promise);
  body_ = fmt::format("__global__ void {}({}) {{\n", name, parameters);
  depth_ = 1;
}

void cuda_writer::close_kernel() {
  kernels_ += body_ + "}\n";
  body_.clear();
}

void cuda_writer::launch(std::string_view name, std::string_view grid, std::string_view block,
                         std::string_view from, std::string_view to, std::string_view shared) {
  std::string arguments(from);
  if (uses_row(subject_)) arguments += ", w";
  if (uses_tensor(subject_)) arguments += ", t";
  entry_ += fmt::format("  {}<<<{}, {}, {}, stream>>>({}, {}, n, m);\n", name, grid, block, shared,
                        arguments, to);
}

void cuda_writer::use_workspace(std::string_view elements) {
  workspace_ = elements;
  entry_ += "  float* b = (float*)workspace;\n";
}

std::string cuda_writer::finish() const {
  const task shell = bare_task(subject_);
  std::string text = fmt::format("constexpr int B = {};\n", style_.block);
  text += functions_ + kernels_;
  if (!workspace_.empty())
    text +=
        fmt::format("{} {{\n  return 4 * {};\n}}\n", cuda_lane.optional_entry(shell), workspace_);
  return text + cuda_lane.entry(shell) + " {\n" + entry_ + "}\n";
}

void cuda_writer::map(std::string_view name, std::string_view function,
                      std::span<const composition_step> steps, std::string_view from,
                      std::string_view to, bool of_rows) {
  const std::string_view bound = of_rows ? row_bound() : element_bound();
  const bool strided = style_.share == cuda_share::stride && !of_rows;
  this->function(function, steps);
  open_kernel(name);
  const std::string value = applied(function, steps, load("x", "k"), "k % m", "k");
  const std::string store = fmt::format("y[k] = {};", value);
  if (strided) {
    line(fmt::format("for (int k = blockIdx.x * B + threadIdx.x; k < {}; k += gridDim.x * B)",
                     bound));
    line("  " + store);
  } else {
    line("int k = blockIdx.x * B + threadIdx.x;");
    line(error_ == kernel_error::unguarded ? store : fmt::format("if (k < {}) {}", bound, store));
  }
  close_kernel();
  const std::string blocks = of_rows ? "(n + B - 1) / B" : "(n * m + B - 1) / B";
  launch(name, strided ? std::string(stride_blocks) : blocks, "B", from, to);
}

bool cuda_writer::map_each(std::span<const composition_step> steps, std::string_view stem,
                           std::string_view from, std::string_view to, bool of_rows) {
  for (std::size_t k = 0; k < steps.size(); ++k) {
    map(fmt::format("{}_map{}", stem, k), fmt::format("{}{}", stem, k), steps.subspan(k, 1),
        k == 0 ? from : to, to, of_rows);
  }
  return !steps.empty();
}

}  // namespace quern::env
