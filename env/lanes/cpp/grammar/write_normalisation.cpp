// Kernels that divide or shift a row by a statistic of its own.
#include <fmt/format.h>

#include "env/lanes/cpp/grammar/kernel_writer.hpp"

namespace quern::env {

namespace {

/// Where the values of a row are between two loops over it, and what is done on the way.
struct row_plan {
  std::string_view source;                  ///< what the first loop reads
  std::string_view kept;                    ///< what the later loops read
  std::span<const composition_step> first;  ///< steps of the first loop
  std::span<const composition_step> again;  ///< steps that later loops repeat
  std::span<const composition_step> last;   ///< steps of the last loop
  bool store = false;                       ///< the first loop stores what it computed in y
};

void open_loop(kernel_writer& to, std::string_view source,
               std::span<const composition_step> steps) {
  to.open_columns();
  to.load(source, at_row_column.flat);
  to.apply(steps, at_row_column);
}

void close_loop(kernel_writer& to, bool store) {
  if (store) to.store("y", at_row_column.flat);
  to.close();
}

void open_last(kernel_writer& to, std::string_view source, const row_plan& plan) {
  to.hint();
  open_loop(to, source, plan.again);
}

void close_last(kernel_writer& to, const row_plan& plan) {
  to.apply(plan.last, at_row_column);
  close_loop(to, true);
}

/// The last loop: h divided by `divisor`, which is constant along the row; `name` holds the sum
/// that it is made of.
void divide(kernel_writer& to, const row_plan& plan, std::string_view source, std::string_view name,
            const std::string& divisor) {
  const bool hoist = to.style().hoist;
  if (hoist) to.line(fmt::format("{} = 1 / {};", name, divisor));
  open_last(to, source, plan);
  to.line(hoist ? fmt::format("h = h * {};", name) : fmt::format("h = h / {};", divisor));
  close_last(to, plan);
}

std::string root_mean(const kernel_writer& to, std::string_view sum) {
  return to.call("sqrt", fmt::format("{} / m + {}", sum, to.constant(norm_eps)));
}

/// Sum of `term` over the row.
void first_sum(kernel_writer& to, const row_plan& plan, const std::string& term) {
  to.declare("s", "0");
  open_loop(to, plan.source, plan.first);
  to.line(fmt::format("s += {};", term));
  close_loop(to, plan.store);
}

void write_softmax(kernel_writer& to, const row_plan& plan) {
  const bool shifted = !to.style().unshifted && to.error() != kernel_error::unshifted;
  if (shifted) {
    to.declare("s", "-INFINITY");
    open_loop(to, plan.source, plan.first);
    to.line("s = h > s ? h : s;");
    close_loop(to, plan.store);
  }
  to.declare("q", "0");
  if (shifted) {
    open_loop(to, plan.kept, {});
    to.line(fmt::format("h = {};", to.call("exp", "h - s")));
  } else {
    open_loop(to, plan.source, plan.first);
    to.line(fmt::format("h = {};", to.call("exp", "h")));
  }
  to.line("q += h;");
  close_loop(to, true);
  divide(to, plan, "y", "q", "q");
}

void write_row(kernel_writer& to, const row_plan& plan) {
  switch (to.core()) {
    case step_kind::centre:
      first_sum(to, plan, "h");
      to.line("s = s / m;");
      open_last(to, plan.kept, plan);
      to.line("h = h - s;");
      return close_last(to, plan);
    case step_kind::rms:
      first_sum(to, plan, "h * h");
      return divide(to, plan, plan.kept, "s", root_mean(to, "s"));
    case step_kind::l1:
      first_sum(to, plan, to.call("fabs", "h"));
      return divide(to, plan, plan.kept, "s", fmt::format("(s / m + {})", to.constant(norm_eps)));
    case step_kind::layer_norm:
      first_sum(to, plan, "h");
      to.line("s = s / m;");
      to.declare("q", "0");
      open_loop(to, plan.kept, {});
      to.line("h = h - s;");
      to.line("q += h * h;");
      close_loop(to, true);
      return divide(to, plan, "y", "q", root_mean(to, "q"));
    default:
      return write_softmax(to, plan);
  }
}

}  // namespace

void write_normalisation(kernel_writer& to) {
  const auto none = std::span<const composition_step>();
  const auto before = to.before();
  row_plan plan{"x", before.empty() ? "x" : "y", before, none, to.after(), !before.empty()};
  switch (to.style().plan) {
    case pass_plan::recompute:
      plan = {"x", "x", before, before, to.after(), false};
      break;
    case pass_plan::split:
      plan = {"y", "y", none, none, to.after(), false};
      break;
    case pass_plan::passes:
      plan = {plan.kept, plan.kept, none, none, none, false};
      to.sweep_each(before, "y", true);
      break;
    default:
      break;
  }
  to.open_rows();
  if (to.style().plan == pass_plan::split) {
    to.hint();
    open_loop(to, "x", before);
    close_loop(to, true);
  }
  write_row(to, plan);
  to.close();
  if (to.style().plan == pass_plan::passes) to.sweep_each(to.after(), "y", false);
}

}  // namespace quern::env
