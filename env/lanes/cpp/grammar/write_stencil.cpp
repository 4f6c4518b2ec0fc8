// Kernels of differences and sums of neighbours along a row.
#include <fmt/format.h>

#include "env/lanes/cpp/grammar/kernel_writer.hpp"

namespace quern::env {

namespace {

bool is_difference(const kernel_writer& to) {
  return to.core() == step_kind::difference;
}

/// Neighbours of `buffer[index]` behind conditions: outside of the row is zero.
void add_neighbours(kernel_writer& to, std::string_view buffer, std::string_view index) {
  to.line(
      fmt::format("if (j > 0) h = h {} {}[{} - 1];", is_difference(to) ? '-' : '+', buffer, index));
  if (!is_difference(to)) to.line(fmt::format("if (j + 1 < m) h = h + {}[{} + 1];", buffer, index));
}

/// The value before is carried along: only for differences.
void write_rolling(kernel_writer& to) {
  to.open_rows();
  to.declare("s", "0");
  to.open_columns();
  to.load("x", at_row_column.flat);
  to.apply(to.before(), at_row_column);
  to.declare("d", "h - s");
  to.line("s = h;");
  to.line("h = d;");
  to.apply(to.after(), at_row_column);
  to.store("y", at_row_column.flat);
  to.close(2);
}

void write_stencil_split(kernel_writer& to) {
  const bool padded = to.style().padded;
  to.use_workspace(padded ? "(m + 2)" : "m");
  if (padded) {
    to.line("b[0] = 0;");
    to.line("b[m + 1] = 0;");
  }
  to.open_rows();
  to.hint();
  to.open_columns();
  to.load("x", at_row_column.flat);
  to.apply(to.before(), at_row_column);
  to.store("b", padded ? "j + 1" : "j");
  to.close();
  to.hint();
  to.open_columns();
  to.load("b", padded ? "j + 1" : "j");
  if (padded)
    to.line(is_difference(to) ? "h = h - b[j];" : "h = h + b[j] + b[j + 2];");
  else
    add_neighbours(to, "b", "j");
  to.apply(to.after(), at_row_column);
  to.store("y", at_row_column.flat);
  to.close(2);
}

void write_stencil_passes(kernel_writer& to) {
  if (!to.before().empty()) to.use_workspace("n * m");
  const std::string_view source = to.sweep_each(to.before(), "b", true) ? "b" : "x";
  to.open_nest();
  to.load(source, at_row_column.flat);
  add_neighbours(to, source, at_row_column.flat);
  to.store("y", at_row_column.flat);
  to.close(2);
  to.sweep_each(to.after(), "y", false);
}

}  // namespace

void write_stencil(kernel_writer& to) {
  if (to.style().plan == pass_plan::passes) return write_stencil_passes(to);
  if (to.style().plan == pass_plan::split) return write_stencil_split(to);
  write_rolling(to);
}

}  // namespace quern::env
