// Kernels that end a row in one number: serial, with eight accumulators, or as a tree.
#include <fmt/format.h>

#include "env/lanes/cpp/grammar/kernel_writer.hpp"

namespace quern::env {

namespace {

std::string_view start_of(const kernel_writer& to) {
  return to.core() == step_kind::row_max ? "-INFINITY" : "0";
}

void accumulate(kernel_writer& to, std::string_view into) {
  to.line(to.core() == step_kind::row_max ? fmt::format("{0} = h > {0} ? h : {0};", into)
                                          : fmt::format("{} += h;", into));
}

/// From the finished sum or maximum to y[i].
void finish_row(kernel_writer& to, std::string_view result, bool apply_after) {
  to.declare(
      "h", to.core() == step_kind::row_mean ? fmt::format("{} / m", result) : std::string(result));
  if (apply_after) to.apply(to.after(), at_row_column);
  to.store("y", "i");
}

void sum_row(kernel_writer& to, std::string_view source, std::string_view index,
             bool apply_before) {
  to.declare("s", start_of(to));
  to.open_columns();
  to.load(source, index);
  if (apply_before) to.apply(to.before(), at_row_column);
  accumulate(to, "s");
  to.close();
}

void write_columns(kernel_writer& to) {
  to.open_rows();
  to.line(fmt::format("y[i] = {};", start_of(to)));
  to.close();
  to.open_nest();
  to.load("x", at_row_column.flat);
  to.apply(to.before(), at_row_column);
  accumulate(to, "y[i]");
  to.close(2);
  if (to.after().empty() && to.core() != step_kind::row_mean) return;
  to.open_rows();
  finish_row(to, "y[i]", true);
  to.close();
}

void write_lanes(kernel_writer& to) {
  to.open_rows();
  to.line(fmt::format("{} s[8] = {{}};", to.number()));
  to.open("for (int j = 0; j + 8 <= m; j += 8)");
  to.open("for (int k = 0; k < 8; k++)");
  to.load("x", at_lane.flat);
  to.apply(to.before(), at_lane);
  to.line("s[k] += h;");
  to.close(2);
  if (to.error() != kernel_error::missing_columns) {
    to.open("for (int j = m / 8 * 8; j < m; j++)");
    to.load("x", at_row_column.flat);
    to.apply(to.before(), at_row_column);
    to.line("s[0] += h;");
    to.close();
  }
  to.open("for (int k = 1; k < 8; k++)");
  to.line("s[0] += s[k];");
  to.close();
  finish_row(to, "s[0]", true);
  to.close();
}

void write_tree(kernel_writer& to) {
  to.open("for (int k = m; k > 1; k = (k + 1) / 2)");
  to.open("for (int j = 0; j < k / 2; j++)");
  to.declare("h", "b[j + (k + 1) / 2]");
  accumulate(to, "b[j]");
  to.close(2);
  finish_row(to, "b[0]", true);
}

void write_split(kernel_writer& to) {
  to.use_workspace("m");
  to.open_rows();
  to.hint();
  to.open_columns();
  to.load("x", at_row_column.flat);
  to.apply(to.before(), at_row_column);
  to.store("b", "j");
  to.close();
  if (to.style().reduction == reduction_plan::tree) {
    write_tree(to);
  } else {
    sum_row(to, "b", "j", false);
    finish_row(to, "s", true);
  }
  to.close();
}

void write_passes(kernel_writer& to) {
  if (!to.before().empty()) to.use_workspace("n * m");
  const std::string_view source = to.sweep_each(to.before(), "b", true) ? "b" : "x";
  to.open_rows();
  sum_row(to, source, at_row_column.flat, false);
  finish_row(to, "s", false);
  to.close();
  for (const composition_step& step : to.after()) {
    to.open_rows();
    to.load("y", "i");
    to.apply({&step, 1}, at_row_column);
    to.store("y", "i");
    to.close();
  }
}

}  // namespace

void write_reduction(kernel_writer& to) {
  const kernel_style& style = to.style();
  if (style.plan == pass_plan::passes) return write_passes(to);
  if (style.plan == pass_plan::split) return write_split(to);
  if (style.order == loop_order::columns) return write_columns(to);
  if (style.reduction == reduction_plan::lanes) return write_lanes(to);
  to.open_rows();
  sum_row(to, "x", at_row_column.flat, true);
  finish_row(to, "s", true);
  to.close();
}

}  // namespace quern::env
