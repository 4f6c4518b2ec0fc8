// Styles, sizes and baseline of generated kernels on one core.
#include "env/lanes/cpp/grammar/cpp_grammar.hpp"

#include <algorithm>
#include <array>

#include "env/grammar/plain_cost.hpp"
#include "env/lanes/cpp/grammar/kernel_writer.hpp"
#include "env/lanes/cpp/grammar/render.hpp"

namespace quern::env {

namespace {

constexpr std::array cpp_errors{kernel_error::dropped_step,    kernel_error::swapped_steps,
                                kernel_error::wrong_constant,  kernel_error::wrong_operator,
                                kernel_error::missing_columns, kernel_error::missing_rows,
                                kernel_error::unshifted};

constexpr std::array<std::int64_t, 4> row_lengths{256, 384, 512, 1024};
constexpr std::int64_t least_rows = 16;
/// The float tensor and its copies stay in the outer caches.
constexpr std::int64_t most_elements = 1 << 19;

class cpp_styles final : public kernel_styles {
 public:
  cpp_styles(const composition& what, bool fast_is_safe)
      : what_(what), styles_(styles_of(what, fast_is_safe)) {}

  [[nodiscard]] std::size_t size() const override { return styles_.size(); }
  [[nodiscard]] std::string text(std::size_t i) const override { return to_text(styles_[i]); }
  [[nodiscard]] std::string source(std::size_t i) const override {
    return render_kernel(what_, styles_[i]);
  }
  [[nodiscard]] std::string text_of_mistaken(std::size_t i) const override {
    return to_text(unfolded(i));
  }
  [[nodiscard]] std::string mistaken(std::size_t i, kernel_error error,
                                     const composition* computed) const override {
    const kernel_style style = unfolded(i);
    if (computed != nullptr && style.vector && !has_vector_form(*computed)) return {};
    return render_kernel(what_, style, error, computed);
  }

 private:
  [[nodiscard]] kernel_style unfolded(std::size_t i) const {
    kernel_style style = styles_[i];
    style.folded = false;
    return style;
  }

  const composition& what_;
  std::vector<kernel_style> styles_;
};

class grammar_of_cpp final : public kernel_grammar {
 public:
  [[nodiscard]] draw_limits limits() const override { return {}; }
  [[nodiscard]] double usual_plain_us() const override { return 300; }
  /// Rows: a multiple of 4, at least 16. Columns: drawn by `word`, fewer where the steps are dear.
  [[nodiscard]] std::vector<std::int64_t> sizes(const composition& what, std::uint64_t word,
                                                double plain_us) const override {
    const auto elements = static_cast<std::int64_t>(
        std::min(plain_us * 1000 / plain_ns(what), static_cast<double>(most_elements)));
    std::size_t choice = word % row_lengths.size();
    while (choice > 0 && row_lengths[choice] * least_rows > elements)
      --choice;
    const std::int64_t columns = row_lengths[choice];
    return {std::max(elements / columns / 4 * 4, least_rows), columns};
  }
  [[nodiscard]] std::string plain(const composition& what) const override {
    return render_plain(what);
  }
  [[nodiscard]] std::span<const kernel_error> errors() const override { return cpp_errors; }
  [[nodiscard]] std::unique_ptr<const kernel_styles> styles(const composition& what,
                                                            bool fast_is_safe) const override {
    return std::make_unique<cpp_styles>(what, fast_is_safe);
  }
};

}  // namespace

const kernel_grammar* cpp_grammar() {
  static const grammar_of_cpp the;
  return &the;
}

}  // namespace quern::env
