// CUDA kernels that divide or shift a row by a statistic of its own.
#include <fmt/format.h>

#include "env/lanes/cuda/grammar/cuda_writer.hpp"

namespace quern::env {

namespace {

/// Sweeps over one row: the first computes what is kept, the later ones read it.
class norm_row_writer {
 public:
  norm_row_writer(cuda_writer& to, std::span<const composition_step> before,
                  std::span<const composition_step> after)
      : to_(to), before_(before), after_(after), kept_(before.empty() ? "x" : "y") {
    if (to.style().keep == cuda_keep::again) kept_ = "x";
    if (to.style().keep == cuda_keep::shared) kept_ = "r";
  }

  void write() {
    switch (to_.core()) {
      case step_kind::centre:
        first("s", "0", {"s += h;"});
        to_.line(fmt::format("s = {} / m;", to_.gathered("s", false)));
        return last("h - s");
      case step_kind::rms:
        first("s", "0", {"s += h * h;"});
        return divide("s", root_mean("s"));
      case step_kind::l1:
        first("s", "0", {fmt::format("s += {};", to_.call("fabs", "h"))});
        return divide("s",
                      fmt::format("{} / m + {}", to_.gathered("s", false), to_.constant(norm_eps)));
      case step_kind::layer_norm:
        first("s", "0", {"s += h;"});
        to_.line(fmt::format("s = {} / m;", to_.gathered("s", false)));
        next("q", {"h -= s;", "q += h * h;"});
        return divide("q", root_mean("q"), "(h - s)");
      default:
        return softmax();
    }
  }

 private:
  [[nodiscard]] std::string root_mean(std::string_view sum) const {
    return to_.call("sqrt",
                    fmt::format("{} / m + {}", to_.gathered(sum, false), to_.constant(norm_eps)));
  }

  void declare(std::string_view name, std::string_view value) {
    to_.line(fmt::format("{} {} = {};", to_.number(), name, value));
  }

  void first(std::string_view sum, std::string_view start, std::vector<std::string> body) {
    declare(sum, start);
    cuda_sweep over;
    over.first = before_;
    over.body = std::move(body);
    if (kept_ != "x") {
      over.value = "h";
      over.target = kept_;
    }
    to_.sweep(over);
  }

  [[nodiscard]] cuda_sweep later() const {
    cuda_sweep over;
    over.source = kept_;
    if (kept_ == "x") over.first = before_;
    return over;
  }

  void next(std::string_view sum, std::vector<std::string> body) {
    declare(sum, "0");
    cuda_sweep over = later();
    over.body = std::move(body);
    to_.sweep(over);
  }

  void last(std::string_view value) {
    cuda_sweep over = later();
    over.body = {fmt::format("h = {};", value)};
    over.value = "h";
    over.last = after_;
    to_.sweep(over);
  }

  void divide(std::string_view sum, const std::string& divisor, std::string_view value = "h") {
    if (to_.style().hoist) {
      to_.line(fmt::format("{} = {};", sum, to_.quotient("1", divisor)));
      return last(fmt::format("{} * {}", value, sum));
    }
    to_.line(fmt::format("{} = {};", sum, divisor));
    last(to_.quotient(value, sum));
  }

  void softmax() {
    const bool shifted = !to_.style().unshifted && to_.error() != kernel_error::unshifted;
    const std::string power = to_.call("exp", shifted ? "h - s" : "h");
    if (shifted) {
      first("s", "-INFINITY", {fmt::format("s = {};", to_.larger("s", "h"))});
      to_.line(fmt::format("s = {};", to_.gathered("s", true)));
      next("q", {fmt::format("q += {};", power)});
    } else {
      first("q", "0", {fmt::format("q += {};", power)});
    }
    divide("q", to_.gathered("q", false), power);
  }

  cuda_writer& to_;
  std::span<const composition_step> before_;
  std::span<const composition_step> after_;
  std::string_view kept_;
};

void write_norm_rows(cuda_writer& to, std::string_view source,
                     std::span<const composition_step> before,
                     std::span<const composition_step> after) {
  const bool shared = to.style().keep == cuda_keep::shared;
  to.function("f", before);
  to.function("g", after);
  const bool softmax = to.core() == step_kind::softmax;
  if (softmax && !to.style().unshifted && to.error() != kernel_error::unshifted) to.helper(true);
  to.helper(false);
  to.open_row_kernel("rows");
  if (shared) to.line("extern __shared__ float r[];");
  norm_row_writer(to, before, after).write();
  to.close_kernel();
  to.launch_rows("rows", source, "y", shared ? "4 * m" : "0");
}

}  // namespace

void write_cuda_normalisation(cuda_writer& to) {
  const pass_plan plan = to.style().plan;
  if (plan == pass_plan::fused) return write_norm_rows(to, "x", to.before(), to.after());
  bool kept = !to.before().empty();
  if (plan == pass_plan::passes) {
    kept = to.map_each(to.before(), "f", "x", "y");
  } else if (kept) {
    to.map("prepare", "f", to.before(), "x", "y");
  }
  write_norm_rows(to, kept ? "y" : "x", {}, {});
  if (plan == pass_plan::passes) {
    to.map_each(to.after(), "g", "y", "y");
  } else if (!to.after().empty()) {
    to.map("finish", "g", to.after(), "y", "y");
  }
}

}  // namespace quern::env
