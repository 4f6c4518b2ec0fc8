// The rewrites of neighbours that lead to the canonical form.
#include "env/grammar/canonical.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "env/grammar/value_range.hpp"

namespace quern::env {

namespace {

/// What takes the place of one or two steps.
using rewrite = std::optional<std::vector<composition_step>>;

composition_step scale_by(float c) {
  return {step_kind::scale, c};
}

bool is_even(step_kind kind) {
  return kind == step_kind::abs || kind == step_kind::square || kind == step_kind::root ||
         kind == step_kind::decay;
}

/// f(-h) = -f(h), and f is not homogeneous.
bool is_odd(step_kind kind) {
  return kind == step_kind::tanh || kind == step_kind::softsign || kind == step_kind::clip ||
         kind == step_kind::rms || kind == step_kind::l1 || kind == step_kind::layer_norm;
}

/// f(c * h) = c * f(h) for every c.
bool is_linear(step_kind kind) {
  return kind == step_kind::centre || kind == step_kind::running_sum ||
         kind == step_kind::difference || kind == step_kind::smooth || kind == step_kind::row_sum ||
         kind == step_kind::row_mean;
}

bool is_row_maximum(step_kind kind) {
  return kind == step_kind::row_max || kind == step_kind::running_max;
}

bool is_increasing(const composition_step& of) {
  switch (of.kind) {
    case step_kind::relu:
    case step_kind::clip:
    case step_kind::softsign:
    case step_kind::sigmoid:
    case step_kind::tanh:
    case step_kind::shift:
      return true;
    case step_kind::scale:
      return of.constant > 0;
    default:
      return false;
  }
}

/// Place in a sorted run of products or sums; 0: belongs to neither.
int product_rank(step_kind kind) {
  if (kind == step_kind::times_row) return 1;
  if (kind == step_kind::times_tensor) return 2;
  return kind == step_kind::scale ? 3 : 0;
}

int sum_rank(step_kind kind) {
  if (kind == step_kind::plus_row) return 1;
  if (kind == step_kind::plus_tensor) return 2;
  return kind == step_kind::shift ? 3 : 0;
}

rewrite rewrite_one(const composition_step& a, value_range before) {
  if (a.kind == step_kind::negate) return {{scale_by(-1)}};
  if ((a.kind == step_kind::scale && a.constant == 1) ||
      (a.kind == step_kind::shift && a.constant == 0) ||
      ((a.kind == step_kind::relu || a.kind == step_kind::abs) && before.low >= 0) ||
      (a.kind == step_kind::clip && before.low >= -1 && before.high <= 1))
    return {std::vector<composition_step>{}};
  if (a.kind == step_kind::abs && before.high <= 0) return {{scale_by(-1)}};
  return {};
}

rewrite rewrite_after_scale(const composition_step& a, const composition_step& b) {
  const float c = a.constant;
  if (b.kind == step_kind::scale) return {{scale_by(c * b.constant)}};
  if (is_linear(b.kind)) return {{b, a}};
  if (b.kind == step_kind::relu && c > 0) return {{b, a}};
  if (b.kind == step_kind::abs) return {{b, scale_by(std::fabs(c))}};
  if (b.kind == step_kind::square) return {{b, scale_by(c * c)}};
  if (is_even(b.kind) && c < 0) return {{scale_by(-c), b}};
  if (is_odd(b.kind) && c == -1) return {{b, a}};
  return {};
}

rewrite rewrite_after_shift(const composition_step& a, const composition_step& b) {
  if (b.kind == step_kind::shift) return {{{step_kind::shift, a.constant + b.constant}}};
  if (b.kind == step_kind::scale) return {{b, {step_kind::shift, a.constant * b.constant}}};
  if (b.kind == step_kind::centre || b.kind == step_kind::layer_norm ||
      b.kind == step_kind::softmax)
    return {{b}};
  if (b.kind == step_kind::row_mean) return {{b, a}};
  return {};
}

rewrite rewrite_pair(const composition_step& a, const composition_step& b) {
  const bool unsorted = (product_rank(b.kind) > 0 && product_rank(a.kind) > product_rank(b.kind)) ||
                        (sum_rank(b.kind) > 0 && sum_rank(a.kind) > sum_rank(b.kind));
  if (unsorted) return {{b, a}};
  if (is_increasing(a) && is_row_maximum(b.kind)) return {{b, a}};
  if (a.kind == step_kind::transpose) return {{b, a}};
  if (a.kind == step_kind::abs && is_even(b.kind)) return {{b}};
  const bool keeps_sign =
      a.kind == step_kind::tanh || a.kind == step_kind::softsign || a.kind == step_kind::clip;
  if (keeps_sign && b.kind == step_kind::relu) return {{b, a}};
  if (a.kind == step_kind::scale) return rewrite_after_scale(a, b);
  if (a.kind == step_kind::shift) return rewrite_after_shift(a, b);
  return {};
}

/// A rewrite whose constants overflow is not made.
rewrite if_finite(rewrite by) {
  if (by && !std::all_of(by->begin(), by->end(),
                         [](const composition_step& s) { return std::isfinite(s.constant); }))
    return {};
  return by;
}

void replace(std::vector<composition_step>& steps, std::size_t at, std::size_t count,
             const std::vector<composition_step>& by) {
  const auto begin = steps.begin() + static_cast<std::ptrdiff_t>(at);
  steps.insert(steps.erase(begin, begin + static_cast<std::ptrdiff_t>(count)), by.begin(),
               by.end());
}

/// Applies the first rewrite that fits; false when none does.
bool rewrite_first(std::vector<composition_step>& steps) {
  value_range range;
  for (std::size_t k = 0; k < steps.size(); ++k) {
    if (const rewrite by = rewrite_one(steps[k], range)) {
      replace(steps, k, 1, *by);
      return true;
    }
    if (k + 1 < steps.size())
      if (const rewrite by = if_finite(rewrite_pair(steps[k], steps[k + 1]))) {
        replace(steps, k, 2, *by);
        return true;
      }
    range = range_after(steps[k], range);
  }
  return false;
}

}  // namespace

composition canonical_form(const composition& what) {
  composition form = what;
  while (rewrite_first(form.steps)) {
  }
  // A chain of steps that cancel each other is the identity, which has no empty spelling.
  if (form.steps.empty()) form.steps.push_back(scale_by(1));
  return form;
}

base::hash128 composition_hash(const composition& what) {
  return base::xxh128(to_text(canonical_form(what)));
}

base::hash128 skeleton_hash(const composition& what) {
  std::string names;
  for (const composition_step& s : canonical_form(what).steps) {
    names += name_of(s.kind);
    names += ' ';
  }
  return base::xxh128(names);
}

bool is_held_out(const composition& what, const held_out_spec& spec) {
  const base::hash128 skeleton = skeleton_hash(what);
  if (std::find(spec.skeletons.begin(), spec.skeletons.end(), skeleton) != spec.skeletons.end())
    return true;
  if (std::find(spec.families.begin(), spec.families.end(), family_of(what)) != spec.families.end())
    return true;
  const auto drawn = base::hasher().add(spec.salt).add(skeleton.high).add(skeleton.low).digest();
  return drawn.low % 1000 < static_cast<std::uint64_t>(std::max(spec.per_mille, 0));
}

}  // namespace quern::env
