// The small language in which CUDA kernels are written: the steps before and after the structural
// one become device functions f and g, what is around them is decided by the style alone. Every
// text is in the form that env/lanes/cuda/launch reads: no host code but size arithmetic and
// launches.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "env/grammar/composition.hpp"
#include "env/grammar/kernel_error.hpp"
#include "env/grammar/text_writer.hpp"
#include "env/lanes/cuda/grammar/cuda_style.hpp"

namespace quern::env {

/// A loop over the row at hand: what is read, done and stored for each element h.
struct cuda_sweep {
  std::string_view source = "x";              ///< x, y or r (the row in shared memory)
  std::span<const composition_step> first{};  ///< function f, applied to what was read
  std::vector<std::string> body{};            ///< statements on h
  std::string_view value{};                   ///< what is stored; empty: nothing is
  std::span<const composition_step> last{};   ///< function g, applied to it before
  std::string_view target = "y";
};

/// Collects the text of one candidate. Not thread-safe.
class cuda_writer : public text_writer {
 public:
  /// Computes `what`, with the prototype of `subject`; both must outlive the writer.
  cuda_writer(const composition& subject, const composition& what, const cuda_style& style,
              kernel_error error);

  [[nodiscard]] const cuda_style& style() const { return style_; }
  [[nodiscard]] const std::vector<composition_step>& steps() const { return what_.steps; }

  /// "__syncthreads();", unless the mistake is to leave it out.
  void barrier(bool may_be_missing = false);

  [[nodiscard]] std::string larger(std::string_view a, std::string_view b) const;
  [[nodiscard]] std::string quotient(std::string_view a, std::string_view b) const;

  /// Makes the device function `name` of `steps`; nothing for no steps. Written once.
  void function(std::string_view name, std::span<const composition_step> steps);
  /// The call of it: NAME(VALUE, w[COLUMN], t[FLAT]), or VALUE where there are no steps.
  [[nodiscard]] std::string applied(std::string_view name, std::span<const composition_step> steps,
                                    std::string_view value, std::string_view column,
                                    std::string_view flat) const;
  /// SOURCE[INDEX], through __ldg where the style says so and it is an input.
  [[nodiscard]] std::string load(std::string_view source, std::string_view index) const;

  /// "__global__ void NAME(const float* x, …, float* y, int n, int m) {"
  void open_kernel(std::string_view name);
  void close_kernel();
  /// A statement of the entry point: NAME<<<GRID, BLOCK, SHARED, stream>>>(FROM, …, TO, n, m);
  void launch(std::string_view name, std::string_view grid, std::string_view block,
              std::string_view from = "x", std::string_view to = "y",
              std::string_view shared = "0");
  /// Makes the workspace known to the entry point as `float* b`, of `elements` floats.
  void use_workspace(std::string_view elements);

  /// The device functions total and top: sum and maximum over what works on a row. Nothing where
  /// that is a thread.
  void helper(bool maximum);
  /// total(VALUE), or VALUE where a thread has all of it.
  [[nodiscard]] std::string gathered(std::string_view value, bool maximum) const;

  /// The beginning of a kernel that works on row i as lane l of `lanes()`.
  void open_row_kernel(std::string_view name);
  [[nodiscard]] std::string_view lanes() const;  ///< "1", "32" or "B"
  [[nodiscard]] std::string_view lane() const;   ///< "0" or "l"
  /// Launches it.
  void launch_rows(std::string_view name, std::string_view from = "x", std::string_view to = "y",
                   std::string_view shared = "0");
  /// A loop over the columns of row i.
  void sweep(const cuda_sweep& what);

  /// A whole kernel `name` with a thread for an element: to[k] = steps of from[k], and its launch.
  /// `count`: how many elements.
  void map(std::string_view name, std::string_view function,
           std::span<const composition_step> steps, std::string_view from, std::string_view to,
           bool of_rows = false);
  /// One map for each step, the first from `from`, in place in `to`; true when there was one.
  bool map_each(std::span<const composition_step> steps, std::string_view stem,
                std::string_view from, std::string_view to, bool of_rows = false);

  [[nodiscard]] std::string_view element_bound() const;

  [[nodiscard]] std::string finish() const;

 private:
  [[nodiscard]] std::string statement(const composition_step& step) const;
  void sweep_vector(const cuda_sweep& what);
  void element(const cuda_sweep& what, std::string_view read, std::string_view column,
               std::string_view flat, std::string_view store);

  const composition& subject_;
  cuda_style style_;
  std::string workspace_;
  std::string functions_;
  std::string kernels_;
  std::string entry_;
};

/// Whether one of the steps is of this class.
bool has_class(std::span<const composition_step> steps, step_class wanted);

/// The texts of the families, each into an empty writer.
void write_cuda_elementwise(cuda_writer& to);
void write_cuda_reduction(cuda_writer& to);
void write_cuda_normalisation(cuda_writer& to);
void write_cuda_scan(cuda_writer& to);
void write_cuda_stencil(cuda_writer& to);
void write_cuda_transposition(cuda_writer& to);

/// The candidate kernel of a style; as render_kernel of lane cpp.
std::string render_cuda_kernel(const composition& subject, const cuda_style& style,
                               kernel_error error = kernel_error::none,
                               const composition* computed = nullptr);

/// The baseline: a textbook's kernels. One launch for each step, a thread an element; a block a row
/// that halves in shared memory; scans by one thread a row.
std::string render_cuda_plain(const composition& what);

/// Whether the text of a style has the place where this mistake of the text can be made.
bool cuda_text_has(const composition& what, const cuda_style& style, kernel_error error);

}  // namespace quern::env
