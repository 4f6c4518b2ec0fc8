// Styles, sizes and baseline of generated kernels on a GPU.
#include "env/lanes/cuda/grammar/cuda_grammar.hpp"

#include <algorithm>
#include <array>

#include "env/lanes/cuda/grammar/cuda_writer.hpp"

namespace quern::env {

namespace {

constexpr std::array cuda_errors{
    kernel_error::dropped_step,   kernel_error::swapped_steps,   kernel_error::wrong_constant,
    kernel_error::wrong_operator, kernel_error::missing_columns, kernel_error::missing_rows,
    kernel_error::unshifted,      kernel_error::missing_barrier, kernel_error::unguarded};

/// The least is what a device needs to be busy, the most is 64 MB a tensor.
constexpr std::array<std::int64_t, 4> gpu_row_lengths{256, 512, 1024, 2048};
constexpr std::int64_t least_gpu_elements = 1 << 20;
constexpr std::int64_t most_gpu_elements = 1 << 24;

/// Bytes that one launch of the plain baseline moves for an element, with what is lost to accesses
/// that lie far apart counted as bytes.
double step_bytes(step_kind kind) {
  switch (class_of(kind)) {
    case step_class::tensor:
      return 12;
    case step_class::normalisation:
      return kind == step_kind::softmax || kind == step_kind::layer_norm ? 16 : 12;
    case step_class::scan:
    case step_class::transposition:
      return 24;
    case step_class::reduction:
      return 4;
    default:
      return 8;
  }
}

/// Bytes in a ns, as measured kernels of one read and one write reach them.
constexpr double bytes_per_ns = 3300;

/// Time of the plain baseline (render_cuda_plain) in ns an element of [n, m] on a device with the
/// memory of an H200, from the bytes that it moves. Only choices depend on it, no result.
double plain_gpu_ns(const composition& what) {
  double sum = 0;
  for (const composition_step& step : what.steps) {
    sum += step_bytes(step.kind) / bytes_per_ns;
    if (class_of(step.kind) == step_class::reduction) break;
  }
  return sum;
}

class cuda_styles final : public kernel_styles {
 public:
  cuda_styles(const composition& what, bool fast_is_safe)
      : what_(what), styles_(cuda_styles_of(what, fast_is_safe)) {}

  [[nodiscard]] std::size_t size() const override { return styles_.size(); }
  [[nodiscard]] std::string text(std::size_t i) const override { return to_text(styles_[i]); }
  [[nodiscard]] std::string source(std::size_t i) const override {
    return render_cuda_kernel(what_, styles_[i]);
  }
  [[nodiscard]] std::string text_of_mistaken(std::size_t i) const override {
    return to_text(unfolded(i));
  }
  [[nodiscard]] std::string mistaken(std::size_t i, kernel_error error,
                                     const composition* computed) const override {
    const cuda_style style = unfolded(i);
    if (computed == nullptr && !cuda_text_has(what_, style, error)) return {};
    return render_cuda_kernel(what_, style, error, computed);
  }

 private:
  [[nodiscard]] cuda_style unfolded(std::size_t i) const {
    cuda_style style = styles_[i];
    style.folded = false;
    return style;
  }

  const composition& what_;
  std::vector<cuda_style> styles_;
};

class grammar_of_cuda final : public kernel_grammar {
 public:
  /// All that moves memory is worth a task.
  [[nodiscard]] draw_limits limits() const override {
    draw_limits made;
    made.least_plain_ns = 0;
    return made;
  }
  [[nodiscard]] double usual_plain_us() const override { return 120; }
  /// A GPU is busy whatever the rows' length.
  [[nodiscard]] std::vector<std::int64_t> sizes(const composition& what, std::uint64_t word,
                                                double plain_us) const override {
    const double elements =
        std::clamp(plain_us * 1000 / plain_gpu_ns(what), static_cast<double>(least_gpu_elements),
                   static_cast<double>(most_gpu_elements));
    const std::int64_t columns = gpu_row_lengths[word % gpu_row_lengths.size()];
    return {static_cast<std::int64_t>(elements) / columns / 4 * 4, columns};
  }
  [[nodiscard]] std::string plain(const composition& what) const override {
    return render_cuda_plain(what);
  }
  [[nodiscard]] std::span<const kernel_error> errors() const override { return cuda_errors; }
  [[nodiscard]] std::unique_ptr<const kernel_styles> styles(const composition& what,
                                                            bool fast_is_safe) const override {
    return std::make_unique<cuda_styles>(what, fast_is_safe);
  }
};

}  // namespace

const kernel_grammar* cuda_grammar() {
  static const grammar_of_cuda the;
  return &the;
}

}  // namespace quern::env
