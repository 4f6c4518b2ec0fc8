// CUDA kernels of differences and sums of neighbours along a row.
#include <fmt/format.h>

#include "env/lanes/cuda/grammar/cuda_writer.hpp"

namespace quern::env {

namespace {

using near_steps = std::span<const composition_step>;

/// h at an element and what is added of its neighbours, behind conditions: outside of the row is
/// zero. `at`: the element's index in memory.
void combine_near(cuda_writer& to, near_steps before, std::string_view at,
                  std::string_view column) {
  const bool difference = to.core() == step_kind::difference;
  const auto neighbour = [&](std::string_view offset) {
    const auto where = fmt::format("{} {}", at, offset);
    return to.applied("f", before, to.load("x", where), fmt::format("{} {}", column, offset),
                      where);
  };
  to.line(fmt::format("{} h = {};", to.number(),
                      to.applied("f", before, to.load("x", at), column, at)));
  to.line(fmt::format("if ({} > 0) h {}= {};", column, difference ? '-' : '+', neighbour("- 1")));
  if (!difference) to.line(fmt::format("if ({} + 1 < m) h += {};", column, neighbour("+ 1")));
}

void write_near_elements(cuda_writer& to, std::string_view source, near_steps before,
                         near_steps after) {
  const bool strided = to.style().share == cuda_share::stride;
  to.function("f", before);
  to.function("g", after);
  to.open_kernel("near");
  if (strided) {
    to.open(fmt::format("for (int k = blockIdx.x * B + threadIdx.x; k < {}; k += gridDim.x * B)",
                        to.element_bound()));
  } else {
    to.line("int k = blockIdx.x * B + threadIdx.x;");
    if (to.error() != kernel_error::unguarded)
      to.line(fmt::format("if (k >= {}) return;", to.element_bound()));
  }
  to.line("int j = k % m;");
  combine_near(to, before, "k", "j");
  to.line(fmt::format("y[k] = {};", to.applied("g", after, "h", "j", "k")));
  if (strided) to.close();
  to.close_kernel();
  to.launch("near", strided ? "1056" : "(n * m + B - 1) / B", "B", source);
}

/// A warp or a block goes along a row.
void write_near_along(cuda_writer& to, near_steps before, near_steps after) {
  to.function("f", before);
  to.function("g", after);
  to.open_row_kernel("near");
  to.open(fmt::format("for (int j = l; j < {}; j += {})", to.column_bound(), to.lanes()));
  combine_near(to, before, "i * m + j", "j");
  to.line(fmt::format("y[i * m + j] = {};", to.applied("g", after, "h", "j", "i * m + j")));
  to.close();
  to.close_kernel();
  to.launch_rows("near");
}

/// A thread goes along a row and carries the value before: only for differences.
void write_near_rolling(cuda_writer& to, near_steps before, near_steps after) {
  to.function("f", before);
  to.function("g", after);
  to.open_row_kernel("near");
  to.line(fmt::format("{} s = 0;", to.number()));
  cuda_sweep all;
  all.first = before;
  all.body = {fmt::format("{} d = h - s;", to.number()), "s = h;"};
  all.value = "d";
  all.last = after;
  to.sweep(all);
  to.close_kernel();
  to.launch_rows("near");
}

/// The row is computed once into shared memory.
void write_near_shared(cuda_writer& to, near_steps before, near_steps after) {
  const bool difference = to.core() == step_kind::difference;
  to.function("f", before);
  to.function("g", after);
  to.open_row_kernel("near");
  to.line("extern __shared__ float r[];");
  cuda_sweep all;
  all.first = before;
  all.value = "h";
  all.target = "r";
  to.sweep(all);
  to.barrier(true);
  to.open(fmt::format("for (int j = l; j < {}; j += B)", to.column_bound()));
  to.line(fmt::format("{} h = r[j];", to.number()));
  to.line(fmt::format("if (j > 0) h {}= r[j - 1];", difference ? '-' : '+'));
  if (!difference) to.line("if (j + 1 < m) h += r[j + 1];");
  to.line(fmt::format("y[i * m + j] = {};", to.applied("g", after, "h", "j", "i * m + j")));
  to.close();
  to.close_kernel();
  to.launch_rows("near", "x", "y", "4 * m");
}

}  // namespace

void write_cuda_stencil(cuda_writer& to) {
  const cuda_style& style = to.style();
  if (style.plan == pass_plan::fused) {
    if (style.keep == cuda_keep::shared) return write_near_shared(to, to.before(), to.after());
    if (style.share == cuda_share::thread) return write_near_rolling(to, to.before(), to.after());
    const bool rows = style.share == cuda_share::warp || style.share == cuda_share::block;
    return rows ? write_near_along(to, to.before(), to.after())
                : write_near_elements(to, "x", to.before(), to.after());
  }
  const bool kept = !to.before().empty();
  if (kept) to.use_workspace("n * m");
  if (style.plan == pass_plan::passes) {
    to.map_each(to.before(), "f", "x", "b");
    write_near_elements(to, kept ? "b" : "x", {}, {});
    to.map_each(to.after(), "g", "y", "y");
    return;
  }
  if (kept) to.map("prepare", "f", to.before(), "x", "b");
  write_near_elements(to, kept ? "b" : "x", {}, to.after());
}

}  // namespace quern::env
