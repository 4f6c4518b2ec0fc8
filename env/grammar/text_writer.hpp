// What both lanes' kernel writers share: indented lines, the steps around the structural one,
// bounds with the error that is made, numbers and functions in the style's arithmetic.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "env/grammar/composition.hpp"
#include "env/grammar/kernel_choices.hpp"
#include "env/grammar/kernel_error.hpp"

namespace quern::env {

/// Collects lines; what they say is the derived writer's. Not thread-safe.
class text_writer {
 public:
  /// The steps before the structural one (all, when there is none), and those after it.
  [[nodiscard]] std::span<const composition_step> before() const;
  [[nodiscard]] std::span<const composition_step> after() const;
  /// The structural step; only where there is one.
  [[nodiscard]] step_kind core() const { return what_.steps[core_].kind; }
  [[nodiscard]] kernel_error error() const { return error_; }
  /// n and m, or the expression that the error puts in their place.
  [[nodiscard]] std::string_view row_bound() const;
  [[nodiscard]] std::string_view column_bound() const;

  void line(std::string_view text);
  /// Writes "text {" and indents; close() ends it.
  void open(std::string_view text);
  void close(int levels = 1);

  /// "float", or "double" where the style computes in double.
  [[nodiscard]] std::string_view number() const;
  /// fabsf or fabs, sqrtf or sqrt, …; exp has a name of its own where arithmetic is fast.
  [[nodiscard]] std::string call(std::string_view function, std::string_view argument) const;
  /// The spelling of a constant in the style's type: 0.5f or 0.5.
  [[nodiscard]] std::string constant(double value) const;

 protected:
  /// `what` must outlive the writer. `fast_exp`: the name of exp in math_kind::fast, a literal.
  text_writer(const composition& what, math_kind math, kernel_error error,
              std::string_view fast_exp);
  ~text_writer() = default;
  text_writer(const text_writer&) = default;
  text_writer& operator=(const text_writer&) = delete;

  const composition& what_;
  math_kind math_;
  kernel_error error_;
  std::size_t core_;
  std::string body_;
  int depth_ = 1;

 private:
  std::string_view fast_exp_;
};

}  // namespace quern::env
