// CUDA kernels that end a row in one number.
#include <fmt/format.h>

#include "env/lanes/cuda/grammar/cuda_writer.hpp"

namespace quern::env {

namespace {

void write_reduced_rows(cuda_writer& to, std::string_view source,
                        std::span<const composition_step> before,
                        std::span<const composition_step> after) {
  const bool maximum = to.core() == step_kind::row_max;
  to.function("f", before);
  to.function("g", after);
  to.helper(maximum);
  to.open_row_kernel("rows");
  to.line(fmt::format("{} s = {};", to.number(), maximum ? "-INFINITY" : "0"));
  cuda_sweep all;
  all.first = before;
  all.body = {maximum ? fmt::format("s = {};", to.larger("s", "h")) : "s += h;"};
  to.sweep(all);
  std::string result = to.gathered("s", maximum);
  if (to.core() == step_kind::row_mean) result += " / m";
  // Everybody takes part in the sum, one writes it down.
  to.line(fmt::format("s = {};", result));
  const std::string store = fmt::format("y[i] = {};", to.applied("g", after, "s", "0", "i"));
  const bool alone = to.style().share == cuda_share::thread;
  to.line(alone ? store : fmt::format("if (l == 0) {}", store));
  to.close_kernel();
  to.launch_rows("rows", source, "y");
}

}  // namespace

void write_cuda_reduction(cuda_writer& to) {
  const pass_plan plan = to.style().plan;
  if (plan == pass_plan::fused) return write_reduced_rows(to, "x", to.before(), to.after());
  if (!to.before().empty()) to.use_workspace("n * m");
  if (plan == pass_plan::split) {
    if (!to.before().empty()) to.map("prepare", "f", to.before(), "x", "b");
    return write_reduced_rows(to, to.before().empty() ? "x" : "b", {}, to.after());
  }
  const bool kept = to.map_each(to.before(), "f", "x", "b");
  write_reduced_rows(to, kept ? "b" : "x", {}, {});
  to.map_each(to.after(), "g", "y", "y", true);
}

}  // namespace quern::env
