// CUDA kernels of running sums and maxima.
#include <fmt/format.h>

#include "env/lanes/cuda/grammar/cuda_writer.hpp"

namespace quern::env {

namespace {

struct scan_words {
  bool maximum;
  std::string start;
};

std::string scan_joined(const cuda_writer& to, const scan_words& words, std::string_view into,
                        std::string_view value) {
  if (!words.maximum) return fmt::format("{} += {};", into, value);
  return fmt::format("{} = {};", into, to.call("fmax", fmt::format("{}, {}", into, value)));
}

void scan_thread(cuda_writer& to, const scan_words& words, std::span<const composition_step> before,
                 std::span<const composition_step> after) {
  to.line(fmt::format("{} s = {};", to.number(), words.start));
  cuda_sweep all;
  all.first = before;
  all.body = {scan_joined(to, words, "s", "h")};
  all.value = "s";
  all.last = after;
  to.sweep(all);
}

/// Row by pieces of as many elements as there are lanes; s carries what came before.
void scan_pieces(cuda_writer& to, const scan_words& words, std::span<const composition_step> before,
                 std::span<const composition_step> after) {
  const bool warp = to.style().share == cuda_share::warp;
  const std::string_view type = to.number();
  if (!warp) to.line(fmt::format("__shared__ {} b[B];", type));
  to.line(fmt::format("{} s = {};", type, words.start));
  to.open(fmt::format("for (int j = l; j - l < {}; j += {})", to.column_bound(), to.lanes()));
  to.line(fmt::format("{} h = j < m ? {} : {};", type,
                      to.applied("f", before, to.load("x", "i * m + j"), "j", "i * m + j"),
                      words.start));
  if (warp) {
    to.open("for (int k = 1; k < 32; k *= 2)");
    to.line(fmt::format("{} a = __shfl_up_sync(~0u, h, k);", type));
    to.line("if (l >= k) " + scan_joined(to, words, "h", "a"));
    to.close();
    to.line(scan_joined(to, words, "h", "s"));
    to.line("s = __shfl_sync(~0u, h, 31);");
  } else {
    to.line("b[l] = h;");
    to.barrier();
    to.open("for (int k = 1; k < B; k *= 2)");
    to.line(fmt::format("{} a = l >= k ? b[l - k] : {};", type, words.start));
    to.barrier(true);
    to.line(scan_joined(to, words, "b[l]", "a"));
    to.barrier();
    to.close();
    to.line("h = b[l];");
    to.line(scan_joined(to, words, "h", "s"));
    to.line(scan_joined(to, words, "s", "b[B - 1]"));
    to.barrier();
  }
  to.line(fmt::format("if (j < {}) y[i * m + j] = {};", to.column_bound(),
                      to.applied("g", after, "h", "j", "i * m + j")));
  to.close();
}

void scan_rows(cuda_writer& to, std::string_view source, std::span<const composition_step> before,
               std::span<const composition_step> after) {
  const bool maximum = to.core() == step_kind::running_max;
  const scan_words words{maximum, maximum ? "-INFINITY" : "0"};
  to.function("f", before);
  to.function("g", after);
  to.open_row_kernel("rows");
  to.style().share == cuda_share::thread ? scan_thread(to, words, before, after)
                                         : scan_pieces(to, words, before, after);
  to.close_kernel();
  to.launch_rows("rows", source, "y");
}

}  // namespace

void write_cuda_scan(cuda_writer& to) {
  const pass_plan plan = to.style().plan;
  if (plan == pass_plan::fused) return scan_rows(to, "x", to.before(), to.after());
  bool kept = !to.before().empty();
  if (plan == pass_plan::passes) {
    kept = to.map_each(to.before(), "f", "x", "y");
  } else if (kept) {
    to.map("prepare", "f", to.before(), "x", "y");
  }
  scan_rows(to, kept ? "y" : "x", {}, {});
  if (plan == pass_plan::passes) {
    to.map_each(to.after(), "g", "y", "y");
  } else if (!to.after().empty()) {
    to.map("finish", "g", to.after(), "y", "y");
  }
}

}  // namespace quern::env
