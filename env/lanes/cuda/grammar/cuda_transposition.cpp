// CUDA kernels of transpositions with what stands before and behind them.
#include <fmt/format.h>

#include "env/lanes/cuda/grammar/cuda_writer.hpp"

namespace quern::env {

namespace {

using turn_steps = std::span<const composition_step>;

/// The value that goes to row j of the result.
std::string turned(const cuda_writer& to, turn_steps before, turn_steps after,
                   std::string_view row) {
  const auto at = fmt::format("{} * m + j", row);
  return to.applied("g", after, to.applied("f", before, to.load("x", at), "j", at), "0", "0");
}

/// A thread an element: neighbours read beside each other, or write beside each other.
void write_turned_elements(cuda_writer& to, turn_steps before, turn_steps after,
                           std::string_view source) {
  const bool reads_along = to.style().share != cuda_share::column;
  to.function("f", before);
  to.function("g", after);
  to.open_kernel("turn");
  to.line("int k = blockIdx.x * B + threadIdx.x;");
  to.line(reads_along ? "int i = k / m;" : "int i = k % n;");
  to.line(reads_along ? "int j = k % m;" : "int j = k / n;");
  const std::string store = fmt::format("y[j * n + i] = {};", turned(to, before, after, "i"));
  to.line(to.error() == kernel_error::unguarded
              ? store
              : fmt::format("if (i < {} && j < {}) {}", to.row_bound(), to.column_bound(), store));
  to.close_kernel();
  to.launch("turn", "(n * m + B - 1) / B", "B", source);
}

void write_turned_tiles(cuda_writer& to, turn_steps before, turn_steps after,
                        std::string_view source) {
  const std::string_view width = to.style().padded ? "33" : "32";
  to.function("f", before);
  to.function("g", after);
  to.open_kernel("turn");
  to.line(fmt::format("__shared__ float b[32][{}];", width));
  to.line("int j = blockIdx.x * 32 + threadIdx.x;");
  to.line("int i = blockIdx.y * 32;");
  const auto at = std::string("(i + k) * m + j");
  to.line("for (int k = threadIdx.y; k < 32; k += B / 32)");
  to.line(fmt::format("  if (i + k < {} && j < {}) b[k][threadIdx.x] = {};", to.row_bound(),
                      to.column_bound(), to.applied("f", before, to.load("x", at), "j", at)));
  to.barrier(true);
  to.line("i = blockIdx.y * 32 + threadIdx.x;");
  to.line("j = blockIdx.x * 32;");
  to.line("for (int k = threadIdx.y; k < 32; k += B / 32)");
  to.line(fmt::format("  if (i < {} && j + k < {}) y[(j + k) * n + i] = {};", to.row_bound(),
                      to.column_bound(), to.applied("g", after, "b[threadIdx.x][k]", "0", "0")));
  to.close_kernel();
  to.launch("turn", "dim3((m + 31) / 32, (n + 31) / 32)", "dim3(32, B / 32)", source);
}

void write_turned(cuda_writer& to, turn_steps before, turn_steps after, std::string_view source) {
  to.style().tiled ? write_turned_tiles(to, before, after, source)
                   : write_turned_elements(to, before, after, source);
}

}  // namespace

void write_cuda_transposition(cuda_writer& to) {
  const pass_plan plan = to.style().plan;
  if (plan == pass_plan::fused) return write_turned(to, to.before(), to.after(), "x");
  const bool kept = !to.before().empty();
  if (kept) to.use_workspace("n * m");
  if (plan == pass_plan::passes) {
    to.map_each(to.before(), "f", "x", "b");
    write_turned(to, {}, {}, kept ? "b" : "x");
    to.map_each(to.after(), "g", "y", "y");
    return;
  }
  if (kept) to.map("prepare", "f", to.before(), "x", "b");
  write_turned(to, {}, to.after(), kept ? "b" : "x");
}

}  // namespace quern::env
