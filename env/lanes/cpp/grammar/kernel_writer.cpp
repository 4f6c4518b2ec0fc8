// Lines, loops and statements of generated kernels.
#include "env/lanes/cpp/grammar/kernel_writer.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "env/grammar/task_maker.hpp"
#include "env/lanes/cpp/cpp_lane.hpp"
#include "env/tensor_task/prototype.hpp"

namespace quern::env {

namespace {

constexpr std::string_view fast_exp_text =
    "static inline float fexp(float v) {\n"
    "  v = (v - 80 + fabsf(v + 80)) / 128;\n"
    "  v = 1 + v * (1 + v * (0.5f + v / 6));\n"
    "  for (int k = 0; k < 6; k++) v *= v;\n"
    "  return v;\n"
    "}\n";

/// Infinities keep their meaning: 1 / (1 + exp(-h)) runs into them.
constexpr std::string_view relaxed_text =
    "#pragma GCC optimize(\"fast-math,no-finite-math-only\")\n";

std::string with_restrict(std::string prototype) {
  constexpr std::string_view pointer = "float* ";
  constexpr std::string_view qualifier = "__restrict ";
  for (std::size_t at = 0; (at = prototype.find(pointer, at)) != std::string::npos;) {
    at += pointer.size();
    prototype.insert(at, qualifier);
  }
  return prototype;
}

}  // namespace

kernel_writer::kernel_writer(const composition& subject, const composition& what,
                             const kernel_style& style, kernel_error error, bool nested)
    : text_writer(what, style.math, error, "fexp"),
      subject_(subject),
      style_(style),
      nested_(nested) {}

void kernel_writer::open_rows() {
  open(fmt::format("for (int i = 0; i < {}; i++)", row_bound()));
}

void kernel_writer::open_columns() {
  open(fmt::format("for (int j = 0; j < {}; j++)", column_bound()));
}

void kernel_writer::open_nest() {
  const bool rows_first = style_.order == loop_order::rows;
  rows_first ? open_rows() : open_columns();
  hint();
  rows_first ? open_columns() : open_rows();
}

void kernel_writer::hint() {
  if (style_.ivdep) body_ += "#pragma GCC ivdep\n";
}

std::string kernel_writer::statement(const composition_step& step, element_place place) const {
  const auto w = fmt::format("w[{}]", place.column);
  const auto t = fmt::format("t[{}]", place.flat);
  switch (step.kind) {
    case step_kind::relu:
      return style_.branchless ? fmt::format("(h + {}) / 2", call("fabs", "h")) : "h > 0 ? h : 0";
    case step_kind::clip:
      return "h < -1 ? -1 : h > 1 ? 1 : h";
    case step_kind::abs:
      return call("fabs", "h");
    case step_kind::negate:
      return "-h";
    case step_kind::square:
      return "h * h";
    case step_kind::root:
      return call("sqrt", call("fabs", "h") + " + 1");
    case step_kind::softsign:
      return fmt::format("h / ({} + 1)", call("fabs", "h"));
    case step_kind::sigmoid:
      return fmt::format("1 / (1 + {})", call("exp", "-h"));
    case step_kind::tanh:
      return style_.math == math_kind::fast ? "1 - 2 / (1 + fexp(2 * h))" : call("tanh", "h");
    case step_kind::silu:
      return fmt::format("h / (1 + {})", call("exp", "-h"));
    case step_kind::decay:
      return call("exp", "-" + call("fabs", "h"));
    case step_kind::scale:
      return fmt::format("h * {}", constant(step.constant));
    case step_kind::shift:
      return fmt::format("h {} {}", step.constant < 0 ? '-' : '+',
                         constant(std::fabs(step.constant)));
    case step_kind::times_row:
      return "h * " + w;
    case step_kind::plus_row:
      return "h + " + w;
    case step_kind::times_tensor:
      return "h * " + t;
    case step_kind::plus_tensor:
      return "h + " + t;
    default:  // max_tensor: structural steps are written by their families
      return style_.branchless ? fmt::format("(h + {} + {}) / 2", t, call("fabs", "h - " + t))
                               : fmt::format("h > {} ? h : {}", t, t);
  }
}

void kernel_writer::load(std::string_view source, std::string_view index) {
  line(fmt::format("{} h = {}[{}];", number(), source, index));
}

void kernel_writer::declare(std::string_view name, std::string_view value) {
  line(fmt::format("{} {} = {};", number(), name, value));
}

void kernel_writer::apply(std::span<const composition_step> steps, element_place place) {
  for (const composition_step& step : steps)
    line(fmt::format("h = {};", statement(step, place)));
}

void kernel_writer::store(std::string_view target, std::string_view index) {
  line(fmt::format("{}[{}] = h;", target, index));
}

bool kernel_writer::sweep_each(std::span<const composition_step> steps, std::string_view buffer,
                               bool from_x) {
  const element_place place = nested_ ? at_row_column : at_element;
  for (std::size_t k = 0; k < steps.size(); ++k) {
    if (nested_) {
      open_nest();
    } else {
      hint();
      const bool short_of_rows = error_ == kernel_error::missing_rows;
      const bool short_of_columns = error_ == kernel_error::missing_columns;
      open(fmt::format("for (int k = 0; k < {}; k++)", short_of_rows      ? "n / 4 * 4 * m"
                                                       : short_of_columns ? "n * m / 8 * 8"
                                                                          : "n * m"));
    }
    load(k == 0 && from_x ? "x" : buffer, place.flat);
    apply(steps.subspan(k, 1), place);
    store(buffer, place.flat);
    close(nested_ ? 2 : 1);
  }
  return !steps.empty();
}

void kernel_writer::use_workspace(std::string_view elements) {
  workspace_ = elements;
  line("float* b = (float*)workspace;");
}

std::string kernel_writer::finish() const {
  const task shell = bare_task(subject_);
  std::string text;
  if (style_.relaxed) text += relaxed_text;
  if (body_.find("fexp(") != std::string::npos) text += fast_exp_text;
  if (!workspace_.empty())
    text +=
        fmt::format("{} {{\n  return 4 * {};\n}}\n", cpp_lane.optional_entry(shell), workspace_);
  const std::string prototype = cpp_lane.entry(shell);
  text += style_.restricted ? with_restrict(prototype) : prototype;
  return text + " {\n" + body_ + "}\n";
}

}  // namespace quern::env
