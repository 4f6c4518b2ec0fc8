// Indented lines, bounds and numbers of generated kernels.
#include "env/grammar/text_writer.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace quern::env {

text_writer::text_writer(const composition& what, math_kind math, kernel_error error,
                         std::string_view fast_exp)
    : what_(what), math_(math), error_(error), core_(structural_index(what)), fast_exp_(fast_exp) {}

std::string_view text_writer::row_bound() const {
  return error_ == kernel_error::missing_rows ? "n / 4 * 4" : "n";
}

std::string_view text_writer::column_bound() const {
  return error_ == kernel_error::missing_columns ? "m / 8 * 8" : "m";
}

std::span<const composition_step> text_writer::before() const {
  return std::span(what_.steps).first(core_);
}

std::span<const composition_step> text_writer::after() const {
  return std::span(what_.steps).subspan(std::min(core_ + 1, what_.steps.size()));
}

void text_writer::line(std::string_view text) {
  body_.append(static_cast<std::size_t>(depth_) * 2, ' ');
  body_ += text;
  body_ += '\n';
}

void text_writer::open(std::string_view text) {
  line(fmt::format("{} {{", text));
  ++depth_;
}

void text_writer::close(int levels) {
  for (; levels > 0; --levels) {
    --depth_;
    line("}");
  }
}

std::string_view text_writer::number() const {
  return math_ == math_kind::doubles ? "double" : "float";
}

std::string text_writer::call(std::string_view function, std::string_view argument) const {
  if (function == "exp" && math_ == math_kind::fast)
    return fmt::format("{}({})", fast_exp_, argument);
  return fmt::format("{}{}({})", function, math_ == math_kind::doubles ? "" : "f", argument);
}

std::string text_writer::constant(double value) const {
  std::string text = fmt::format("{}", static_cast<float>(value));
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  if (math_ != math_kind::doubles) text += 'f';
  return text;
}

}  // namespace quern::env
