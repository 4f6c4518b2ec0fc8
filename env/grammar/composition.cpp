// The table of operators, and compositions as text.
#include "env/grammar/composition.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/text.hpp"

namespace quern::env {

namespace {

struct kind_row {
  std::string_view name;
  step_class group;
};

constexpr std::array<kind_row, step_kind_count> kinds{{{"relu", step_class::scalar},
                                                       {"clip", step_class::scalar},
                                                       {"abs", step_class::scalar},
                                                       {"negate", step_class::scalar},
                                                       {"square", step_class::scalar},
                                                       {"root", step_class::scalar},
                                                       {"softsign", step_class::scalar},
                                                       {"sigmoid", step_class::scalar},
                                                       {"tanh", step_class::scalar},
                                                       {"silu", step_class::scalar},
                                                       {"decay", step_class::scalar},
                                                       {"scale", step_class::scalar},
                                                       {"shift", step_class::scalar},
                                                       {"times_row", step_class::row},
                                                       {"plus_row", step_class::row},
                                                       {"times_tensor", step_class::tensor},
                                                       {"plus_tensor", step_class::tensor},
                                                       {"max_tensor", step_class::tensor},
                                                       {"centre", step_class::normalisation},
                                                       {"rms", step_class::normalisation},
                                                       {"l1", step_class::normalisation},
                                                       {"layer_norm", step_class::normalisation},
                                                       {"softmax", step_class::normalisation},
                                                       {"running_sum", step_class::scan},
                                                       {"running_max", step_class::scan},
                                                       {"difference", step_class::stencil},
                                                       {"smooth", step_class::stencil},
                                                       {"row_sum", step_class::reduction},
                                                       {"row_max", step_class::reduction},
                                                       {"row_mean", step_class::reduction},
                                                       {"transpose", step_class::transposition}}};

constexpr auto step_kind_names = [] {
  std::array<std::string_view, step_kind_count> names{};
  for (std::size_t k = 0; k < names.size(); ++k)
    names[k] = kinds[k].name;
  return names;
}();

constexpr std::size_t first_structural = static_cast<std::size_t>(step_kind::centre);

constexpr auto family_names = [] {
  std::array<std::string_view, step_kind_count - first_structural + 1> names{};
  names[0] = "elementwise";
  for (std::size_t k = first_structural; k < kinds.size(); ++k)
    names[k - first_structural + 1] = kinds[k].name;
  return names;
}();

const kind_row& row_of(step_kind kind) {
  return kinds[static_cast<std::size_t>(kind)];
}

base::expected<composition_step> parse_step(std::string_view text) {
  const auto words = base::split(text, ' ');
  const auto found = std::find(step_kind_names.begin(), step_kind_names.end(), words[0]);
  if (found == step_kind_names.end())
    return base::fail(base::errc::invalid_argument, "no operator '{}'{}", words[0],
                      base::did_you_mean(words[0], step_kind_names));
  composition_step step{static_cast<step_kind>(found - step_kind_names.begin()), 0};
  const std::size_t wanted = has_constant(step.kind) ? 2 : 1;
  if (words.size() != wanted)
    return base::fail(base::errc::invalid_argument, "step '{}' has {} words, {} are needed", text,
                      words.size(), wanted);
  if (wanted == 2) {
    const auto end = words[1].data() + words[1].size();
    const auto read = std::from_chars(words[1].data(), end, step.constant);
    if (read.ec != std::errc() || read.ptr != end)
      return base::fail(base::errc::invalid_argument, "'{}' in step '{}' is not a number", words[1],
                        text);
  }
  return step;
}

}  // namespace

std::string_view name_of(step_kind kind) {
  return row_of(kind).name;
}

step_class class_of(step_kind kind) {
  return row_of(kind).group;
}

bool is_structural(step_kind kind) {
  return class_of(kind) > step_class::tensor;
}

bool has_constant(step_kind kind) {
  return kind == step_kind::scale || kind == step_kind::shift;
}

bool is_transcendental(step_kind kind) {
  return kind == step_kind::sigmoid || kind == step_kind::tanh || kind == step_kind::silu ||
         kind == step_kind::decay || kind == step_kind::softmax;
}

base::status validate(const composition& what) {
  if (what.steps.empty() || what.steps.size() > max_composition_steps)
    return base::fail(base::errc::invalid_argument, "a composition has 1 to {} steps, this has {}",
                      max_composition_steps, what.steps.size());
  std::string_view structural;
  bool has_columns = true;
  for (const composition_step& step : what.steps) {
    const step_class group = class_of(step.kind);
    if (!std::isfinite(step.constant) || (!has_constant(step.kind) && step.constant != 0))
      return base::fail(base::errc::invalid_argument, "constant {} of step {} is not allowed",
                        step.constant, name_of(step.kind));
    if (is_structural(step.kind)) {
      if (!structural.empty())
        return base::fail(base::errc::invalid_argument,
                          "steps {} and {}: at most one step of a composition is not element-wise",
                          structural, name_of(step.kind));
      structural = name_of(step.kind);
      has_columns = group != step_class::reduction && group != step_class::transposition;
    } else if (!has_columns && group != step_class::scalar) {
      return base::fail(base::errc::invalid_argument,
                        "step {} needs a tensor of shape [n, m], which {} has left behind",
                        name_of(step.kind), structural);
    }
  }
  return {};
}

bool uses_row(const composition& what) {
  return std::any_of(what.steps.begin(), what.steps.end(),
                     [](const auto& step) { return class_of(step.kind) == step_class::row; });
}

bool uses_tensor(const composition& what) {
  return std::any_of(what.steps.begin(), what.steps.end(),
                     [](const auto& step) { return class_of(step.kind) == step_class::tensor; });
}

std::size_t structural_index(const composition& what) {
  const auto found = std::find_if(what.steps.begin(), what.steps.end(),
                                  [](const auto& step) { return is_structural(step.kind); });
  return static_cast<std::size_t>(found - what.steps.begin());
}

std::string family_of(const composition& what) {
  const std::size_t at = structural_index(what);
  return std::string(at < what.steps.size() ? name_of(what.steps[at].kind) : family_names[0]);
}

std::span<const std::string_view> all_families() {
  return family_names;
}

std::string to_text(const composition& what) {
  std::string text;
  for (const composition_step& step : what.steps) {
    if (!text.empty()) text += " | ";
    text += name_of(step.kind);
    if (has_constant(step.kind)) text += fmt::format(" {}", step.constant);
  }
  return text;
}

base::expected<composition> parse_composition(std::string_view text) {
  composition result;
  for (const std::string_view part : base::split(text, '|')) {
    QUERN_TRY(const composition_step step, parse_step(base::trim(part)));
    result.steps.push_back(step);
  }
  QUERN_CHECK(validate(result));
  return result;
}

}  // namespace quern::env
