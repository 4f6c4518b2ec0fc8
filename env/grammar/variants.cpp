// Right and wrong kernels of a composition, by address.
#include "env/grammar/variants.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <unordered_set>

#include "base/random.hpp"

namespace quern::env {

namespace {

/// Kinds of mistakes that are tried, each at so many places, until one shows; else the variant is
/// right.
constexpr int most_attempts = 12;
constexpr int most_places = 8;

constexpr std::array wrong_constants{0.1F, 0.25F, 0.5F, 0.75F, 1.0F, 1.5F, 2.0F, 3.0F};

/// What is easily taken for another operator; the same where nothing is.
step_kind mistaken_for(step_kind kind) {
  switch (kind) {
    case step_kind::relu:
      return step_kind::abs;
    case step_kind::abs:
      return step_kind::relu;
    case step_kind::square:
      return step_kind::abs;
    case step_kind::root:
      return step_kind::softsign;
    case step_kind::softsign:
      return step_kind::tanh;
    case step_kind::sigmoid:
      return step_kind::silu;
    case step_kind::tanh:
      return step_kind::sigmoid;
    case step_kind::silu:
      return step_kind::sigmoid;
    case step_kind::decay:
      return step_kind::sigmoid;
    case step_kind::times_row:
      return step_kind::plus_row;
    case step_kind::plus_row:
      return step_kind::times_row;
    case step_kind::times_tensor:
      return step_kind::plus_tensor;
    case step_kind::plus_tensor:
      return step_kind::times_tensor;
    case step_kind::max_tensor:
      return step_kind::plus_tensor;
    case step_kind::row_sum:
      return step_kind::row_mean;
    case step_kind::row_mean:
      return step_kind::row_sum;
    default:
      return kind;
  }
}

/// The composition with a mistake of this kind at a random place; nothing when that place has none.
std::optional<composition> mistaken(const composition& what, kernel_error error,
                                    base::random_stream& random) {
  composition made = what;
  const std::size_t at = random.below(made.steps.size());
  composition_step& step = made.steps[at];
  switch (error) {
    case kernel_error::dropped_step:
      if (is_structural(step.kind) || made.steps.size() == 1) return {};
      made.steps.erase(made.steps.begin() + static_cast<std::ptrdiff_t>(at));
      break;
    case kernel_error::swapped_steps:
      if (at + 1 == made.steps.size() || is_structural(step.kind) ||
          is_structural(made.steps[at + 1].kind))
        return {};
      std::swap(step, made.steps[at + 1]);
      break;
    case kernel_error::wrong_constant:
      if (!has_constant(step.kind)) return {};
      step.constant = wrong_constants[random.below(wrong_constants.size())];
      break;
    default:
      step.kind = mistaken_for(step.kind);
  }
  if (made == what) return {};
  return made;
}

bool is_in_text(kernel_error error) {
  return error >= kernel_error::missing_columns;
}

bool shows(const composition_probe& probe, kernel_error error) {
  const composition& what = probe.subject();
  switch (error) {
    case kernel_error::missing_columns:
      return probe.reveals_missing_columns();
    case kernel_error::missing_rows:
    case kernel_error::missing_barrier:
    case kernel_error::unguarded:
      return true;
    default: {
      // exp overflows in single precision above 88.
      const std::size_t core = structural_index(what);
      return core < what.steps.size() && what.steps[core].kind == step_kind::softmax &&
             probe.largest_before_core() > 100;
    }
  }
}

}  // namespace

variant_supply::variant_supply(const composition_probe& probe, const kernel_grammar& grammar)
    : probe_(probe),
      grammar_(grammar),
      styles_(grammar.styles(probe.subject(), probe.fast_is_safe())) {
  std::unordered_set<std::string> seen;
  for (std::size_t i = 0; i < styles_->size(); ++i) {
    std::string source = styles_->source(i);
    if (!seen.insert(source).second) continue;
    correct_.push_back({std::move(source), styles_->text(i), kernel_error::none, true});
    style_of_.push_back(i);
  }
}

kernel_variant variant_supply::wrong_variant(std::size_t style, kernel_error error,
                                             std::string source) const {
  return {std::move(source), styles_->text_of_mistaken(style), error, false};
}

kernel_variant variant_supply::draw(std::uint64_t seed, std::uint64_t index,
                                    double wrong_share) const {
  base::random_stream random(seed, "variant", {index});
  const bool wrong = random.chance(wrong_share);
  const std::size_t which = random.below(correct_.size());
  if (!wrong) return correct_[which];
  const std::size_t style = style_of_[which];
  const auto errors = grammar_.errors();
  for (int attempt = 0; attempt < most_attempts; ++attempt) {
    const kernel_error error = errors[random.below(errors.size())];
    if (is_in_text(error)) {
      if (!shows(probe_, error)) continue;
      std::string source = styles_->mistaken(style, error, nullptr);
      if (source.empty()) continue;
      return wrong_variant(style, error, std::move(source));
    }
    for (int place = 0; place < most_places; ++place) {
      const auto other = mistaken(probe_.subject(), error, random);
      if (!other || !probe_.reveals(*other)) continue;
      std::string source = styles_->mistaken(style, error, &*other);
      if (source.empty()) continue;
      return wrong_variant(style, error, std::move(source));
    }
  }
  return correct_[which];
}

}  // namespace quern::env
