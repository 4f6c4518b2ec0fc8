// Kernels of running sums and maxima.
#include <fmt/format.h>

#include "env/lanes/cpp/grammar/kernel_writer.hpp"

namespace quern::env {

namespace {

std::string_view scan_start(const kernel_writer& to) {
  return to.core() == step_kind::running_max ? "-INFINITY" : "0";
}

void advance(kernel_writer& to, std::string_view state) {
  to.line(to.core() == step_kind::running_max ? fmt::format("{0} = h > {0} ? h : {0};", state)
                                              : fmt::format("{} += h;", state));
  to.line(fmt::format("h = {};", state));
}

void sweep_row(kernel_writer& to, std::string_view source,
               std::span<const composition_step> steps) {
  to.hint();
  to.open_columns();
  to.load(source, at_row_column.flat);
  to.apply(steps, at_row_column);
  to.store("y", at_row_column.flat);
  to.close();
}

void scan_row(kernel_writer& to, std::string_view source, bool fused) {
  to.declare("s", scan_start(to));
  to.open_columns();
  to.load(source, at_row_column.flat);
  if (fused) to.apply(to.before(), at_row_column);
  advance(to, "s");
  if (fused) to.apply(to.after(), at_row_column);
  to.store("y", at_row_column.flat);
  to.close();
}

void write_scan_columns(kernel_writer& to) {
  to.use_workspace("n");
  to.open_rows();
  to.line(fmt::format("b[i] = {};", scan_start(to)));
  to.close();
  to.open_nest();
  to.load("x", at_row_column.flat);
  to.apply(to.before(), at_row_column);
  advance(to, "b[i]");
  to.apply(to.after(), at_row_column);
  to.store("y", at_row_column.flat);
  to.close(2);
}

}  // namespace

void write_scan(kernel_writer& to) {
  if (to.style().order == loop_order::columns) return write_scan_columns(to);
  const pass_plan plan = to.style().plan;
  const std::string_view kept = to.before().empty() ? "x" : "y";
  if (plan == pass_plan::passes) to.sweep_each(to.before(), "y", true);
  to.open_rows();
  if (plan == pass_plan::split && !to.before().empty()) sweep_row(to, "x", to.before());
  scan_row(to, plan == pass_plan::fused ? "x" : kept, plan == pass_plan::fused);
  if (plan == pass_plan::split && !to.after().empty()) sweep_row(to, "y", to.after());
  to.close();
  if (plan == pass_plan::passes) to.sweep_each(to.after(), "y", false);
}

}  // namespace quern::env
