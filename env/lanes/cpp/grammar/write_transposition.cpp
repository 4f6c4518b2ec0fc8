// Kernels that turn the tensor: row by row, column by column, or in tiles.
#include <fmt/format.h>

#include "env/lanes/cpp/grammar/kernel_writer.hpp"

namespace quern::env {

namespace {

constexpr std::string_view turned = "j * n + i";

void open_tiles(kernel_writer& to) {
  to.open(fmt::format("for (int a = 0; a < {}; a += 16)", to.row_bound()));
  to.open(fmt::format("for (int c = 0; c < {}; c += 16)", to.column_bound()));
  to.open(fmt::format("for (int i = a; i < {} && i < a + 16; i++)", to.row_bound()));
  to.open(fmt::format("for (int j = c; j < {} && j < c + 16; j++)", to.column_bound()));
}

}  // namespace

void write_transposition(kernel_writer& to) {
  const bool passes = to.style().plan == pass_plan::passes;
  if (passes && !to.before().empty()) to.use_workspace("n * m");
  const bool kept = passes && to.sweep_each(to.before(), "b", true);
  to.style().tiled ? open_tiles(to) : to.open_nest();
  to.load(kept ? "b" : "x", at_row_column.flat);
  if (!passes) {
    to.apply(to.before(), at_row_column);
    to.apply(to.after(), at_row_column);
  }
  to.store("y", turned);
  to.close(to.style().tiled ? 4 : 2);
  if (passes) to.sweep_each(to.after(), "y", false);
}

}  // namespace quern::env
