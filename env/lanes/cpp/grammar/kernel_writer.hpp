// The small language in which kernels are written: indented lines, loops with the bounds of the
// error that is made, one statement a step.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "env/grammar/composition.hpp"
#include "env/grammar/text_writer.hpp"
#include "env/lanes/cpp/grammar/style.hpp"

namespace quern::env {

/// How the element at hand is addressed: its index in a tensor of shape [n, m], and its column.
struct element_place {
  std::string_view flat;
  std::string_view column;
};

inline constexpr element_place at_row_column{"i * m + j", "j"};
inline constexpr element_place at_element{"k", "k % m"};
inline constexpr element_place at_lane{"i * m + j + k", "j + k"};

/// Collects the text of one kernel. Not thread-safe.
class kernel_writer : public text_writer {
 public:
  /// Computes `what`, with the prototype of `subject`; both must outlive the writer. `nested`:
  /// sweeps over all elements are written as two loops.
  kernel_writer(const composition& subject, const composition& what, const kernel_style& style,
                kernel_error error, bool nested = false);

  [[nodiscard]] const kernel_style& style() const { return style_; }

  void open_rows();     ///< for i in [0, n)
  void open_columns();  ///< for j in [0, m)
  /// Rows outside or columns outside, as the style says; ivdep stands before the inner one.
  void open_nest();
  /// `#pragma GCC ivdep`, where the style asks for it.
  void hint();

  /// "float h = SOURCE[INDEX];"
  void load(std::string_view source, std::string_view index);
  /// "float NAME = VALUE;"
  void declare(std::string_view name, std::string_view value);
  /// One statement for each step.
  void apply(std::span<const composition_step> steps, element_place place);
  /// "TARGET[INDEX] = h;"
  void store(std::string_view target, std::string_view index);

  /// A loop over all elements for each step, in place in `buffer`; the first reads x. True when
  /// there was a step: otherwise x is still where the values are.
  bool sweep_each(std::span<const composition_step> steps, std::string_view buffer, bool from_x);

  /// Makes the workspace known as `float* b`, of `elements` floats.
  void use_workspace(std::string_view elements);

  /// Prototype, helper functions and all that was written.
  [[nodiscard]] std::string finish() const;

 private:
  [[nodiscard]] std::string statement(const composition_step& step, element_place place) const;

  const composition& subject_;
  kernel_style style_;
  bool nested_;
  std::string workspace_;
};

/// The texts of the families, each into an empty writer.
void write_elementwise(kernel_writer& to);
void write_reduction(kernel_writer& to);
void write_normalisation(kernel_writer& to);
void write_scan(kernel_writer& to);
void write_stencil(kernel_writer& to);
void write_transposition(kernel_writer& to);

/// Whether write_elementwise has intrinsics for every step.
bool has_vector_form(const composition& what);

}  // namespace quern::env
