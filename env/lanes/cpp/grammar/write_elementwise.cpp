// Kernels of element-wise chains: one sweep, one sweep a step, or AVX2 intrinsics.
#include <algorithm>

#include <fmt/format.h>

#include "env/lanes/cpp/grammar/kernel_writer.hpp"

namespace quern::env {

namespace {

constexpr std::string_view vector_magnitude = "_mm256_max_ps(h, -h)";

std::string vector_statement(const kernel_writer& to, const composition_step& step) {
  const auto tensor = [](std::string_view form) {
    return fmt::format(fmt::runtime(form), "_mm256_loadu_ps(t + i * m + j)");
  };
  const std::string constant = to.constant(step.constant);
  switch (step.kind) {
    case step_kind::relu:
      return "_mm256_max_ps(h, _mm256_setzero_ps())";
    case step_kind::clip:
      return "_mm256_min_ps(_mm256_max_ps(h, _mm256_set1_ps(-1)), _mm256_set1_ps(1))";
    case step_kind::abs:
      return std::string(vector_magnitude);
    case step_kind::negate:
      return "-h";
    case step_kind::square:
      return "h * h";
    case step_kind::root:
      return fmt::format("_mm256_sqrt_ps({} + 1.0f)", vector_magnitude);
    case step_kind::softsign:
      return fmt::format("h / ({} + 1.0f)", vector_magnitude);
    case step_kind::scale:
      return "h * " + constant;
    case step_kind::shift:
      return fmt::format("h + {}", constant);
    case step_kind::times_row:
      return "h * _mm256_loadu_ps(w + j)";
    case step_kind::plus_row:
      return "h + _mm256_loadu_ps(w + j)";
    case step_kind::times_tensor:
      return tensor("h * {}");
    case step_kind::plus_tensor:
      return tensor("h + {}");
    default:
      return tensor("_mm256_max_ps(h, {})");
  }
}

void write_vector(kernel_writer& to) {
  to.open_rows();
  to.open("for (int j = 0; j + 8 <= m; j += 8)");
  to.line("__m256 h = _mm256_loadu_ps(x + i * m + j);");
  for (const composition_step& step : to.before())
    to.line(fmt::format("h = {};", vector_statement(to, step)));
  to.line("_mm256_storeu_ps(y + i * m + j, h);");
  to.close();
  if (to.error() != kernel_error::missing_columns) {
    to.open("for (int j = m / 8 * 8; j < m; j++)");
    to.load("x", at_row_column.flat);
    to.apply(to.before(), at_row_column);
    to.store("y", at_row_column.flat);
    to.close();
  }
  to.close();
}

}  // namespace

bool has_vector_form(const composition& what) {
  return std::none_of(what.steps.begin(), what.steps.end(), [](const composition_step& step) {
    return is_structural(step.kind) || is_transcendental(step.kind);
  });
}

void write_elementwise(kernel_writer& to) {
  if (to.style().vector) return write_vector(to);
  if (to.style().plan == pass_plan::passes) {
    to.sweep_each(to.before(), "y", true);
    return;
  }
  to.open_nest();
  to.load("x", at_row_column.flat);
  to.apply(to.before(), at_row_column);
  to.store("y", at_row_column.flat);
  to.close(2);
}

}  // namespace quern::env
