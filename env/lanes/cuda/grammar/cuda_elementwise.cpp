// CUDA kernels of element-wise chains.
#include <fmt/format.h>

#include "env/lanes/cuda/grammar/cuda_writer.hpp"

namespace quern::env {

namespace {

/// Threads go through the elements as the style says; what begins a body on element k.
void open_elements(cuda_writer& to, std::string_view bound, std::string_view first) {
  if (to.style().share == cuda_share::stride) {
    to.open(fmt::format("for (int k = {}; k < {}; k += gridDim.x * B)", first, bound));
  } else {
    to.line(fmt::format("int k = {};", first));
    to.open(fmt::format("if (k < {})", bound));
  }
}

constexpr std::string_view first_thread = "blockIdx.x * B + threadIdx.x";
constexpr std::string_view held_blocks = "1056";

void write_element_quads(cuda_writer& to) {
  const bool tensor = has_class(to.before(), step_class::tensor);
  to.function("f", to.before());
  to.open_kernel("map");
  to.line("int q = n * m / 4;");
  open_elements(to, "q", first_thread);
  to.line("float4 v = ((const float4*)x)[k];");
  to.line("float* p = &v.x;");
  if (tensor) to.line("float4 a = ((const float4*)t)[k];");
  if (tensor) to.line("float* u = &a.x;");
  to.line("for (int c = 0; c < 4; c++)");
  to.line(
      fmt::format("  p[c] = {};", to.applied("f", to.before(), "p[c]", "(4 * k + c) % m", "c")));
  to.line("((float4*)y)[k] = v;");
  to.close();
  if (to.error() != kernel_error::missing_columns) {
    to.line(fmt::format("int e = 4 * q + {};", first_thread));
    to.line(fmt::format("if (e < {}) y[e] = {};", to.element_bound(),
                        to.applied("f", to.before(), to.load("x", "e"), "e % m", "e")));
  }
  to.close_kernel();
  const bool strided = to.style().share == cuda_share::stride;
  to.launch("map", strided ? held_blocks : std::string_view("n * m / 4 / B + 1"), "B");
}

void write_four_each(cuda_writer& to) {
  to.function("f", to.before());
  to.open_kernel("map");
  to.line("int k = blockIdx.x * B * 4 + threadIdx.x;");
  to.open("for (int c = 0; c < 4; c++, k += B)");
  const auto store =
      fmt::format("y[k] = {};", to.applied("f", to.before(), to.load("x", "k"), "k % m", "k"));
  to.line(to.error() == kernel_error::unguarded
              ? store
              : fmt::format("if (k < {}) {}", to.element_bound(), store));
  to.close();
  to.close_kernel();
  to.launch("map", "(n * m + 4 * B - 1) / (4 * B)", "B");
}

void write_column_elements(cuda_writer& to) {
  to.function("f", to.before());
  to.open_kernel("map");
  to.line("int k = blockIdx.x * B + threadIdx.x;");
  to.line("int i = k % n;");
  to.line("int j = k / n;");
  const auto store =
      fmt::format("y[i * m + j] = {};",
                  to.applied("f", to.before(), to.load("x", "i * m + j"), "j", "i * m + j"));
  to.line(fmt::format("if (i < {} && j < {}) {}", to.row_bound(), to.column_bound(), store));
  to.close_kernel();
  to.launch("map", "(n * m + B - 1) / B", "B");
}

void write_row_map(cuda_writer& to) {
  to.function("f", to.before());
  to.open_row_kernel("map");
  cuda_sweep all;
  all.first = to.before();
  all.value = "h";
  to.sweep(all);
  to.close_kernel();
  to.launch_rows("map");
}

}  // namespace

void write_cuda_elementwise(cuda_writer& to) {
  const cuda_style& style = to.style();
  if (style.plan == pass_plan::passes) {
    to.map_each(to.before(), "f", "x", "y");
    return;
  }
  switch (style.share) {
    case cuda_share::column:
      return write_column_elements(to);
    case cuda_share::element:
    case cuda_share::stride:
      if (style.vector) return write_element_quads(to);
      if (style.unrolled) return write_four_each(to);
      return to.map("map", "f", to.before(), "x", "y");
    default:
      return write_row_map(to);
  }
}

}  // namespace quern::env
