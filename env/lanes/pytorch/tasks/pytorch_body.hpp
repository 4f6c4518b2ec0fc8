// The body of a task whose reference is a Python module with class Model and get_inputs
// (docs/formats/task.md): what inputs are cast to, what the module needs, and where a published
// benchmark has it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "env/task/suite.hpp"
#include "env/task/task.hpp"

namespace quern::env {

/// The format of pytorch_body: lanes whose references are Python modules name it.
extern const body_format pytorch_format;

/// What floating inputs and weights are cast to; integers and bools stay as they are.
enum class torch_precision : std::uint8_t { fp32, fp16, bf16 };

std::string_view name_of(torch_precision which);
std::optional<torch_precision> parse_precision(std::string_view name);

/// Bounds of an element, relative to the scale of the output, until the judge has calibrated them:
/// 1e-4 for fp32, 1e-2 for types of 16 bits.
tolerance usual_tolerance(torch_precision of);

/// What must be there to run the module, beside Python and torch.
struct torch_need {
  enum class kind : std::uint8_t { module, weights };
  kind need_kind = kind::module;
  std::string name;  ///< "einops"; "facebook/opt-1.3b"
  friend bool operator==(const torch_need&, const torch_need&) = default;
};

/// "module einops", "weights gpt2".
std::string to_text(const torch_need& need);

struct pytorch_body final : task_body {
  torch_precision precision = torch_precision::fp32;
  /// Whether the processor may multiply in TF32; the same for the reference and the candidate.
  bool tf32 = false;
  std::vector<torch_need> needs;
  std::optional<benchmark_place> place;

  [[nodiscard]] const body_format& format() const override { return pytorch_format; }
  [[nodiscard]] bool equals(const task_body& other) const override;
  [[nodiscard]] body_text text() const override;
  /// The reference has class Model and get_inputs (by outline_of(), which runs nothing); no
  /// baseline plain; counts and names of `needs`; a place that may be.
  [[nodiscard]] base::status validate(const task& of) const override;
  /// Advice where the text imports a module or loads weights that `needs` does not name.
  [[nodiscard]] std::vector<task_finding> check_texts(const task& of) const override;
  [[nodiscard]] bool has_plain() const override { return false; }
  [[nodiscard]] body_words words(const task& of) const override;
};

/// What a text is seen to need, modules first.
std::vector<torch_need> needs_of(std::string_view reference);

/// The body of a task whose lane has this format, for as long as the task keeps it. Throws
/// std::logic_error, naming task and body, where the task has none or another.
const pytorch_body& pytorch_of(const task& what);

}  // namespace quern::env
