// Losses as tensors against the host's arithmetic, token by token and as whole steps.
#include "policy/engine/loss_rows.hpp"

#include <cmath>
#include <limits>
#include <random>

#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>

#include "policy/engine/small_models.hpp"
#include "policy/engine/trainer.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::policy;
using doctest::Approx;
using quern::test::small_config;
using quern::test::some_tokens;

namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

struct rows_case {
  std::vector<training_sequence> sequences;
  micro_batch batch;
  std::vector<double> log_probs, entropies;
};

/// Log ratios on both sides of the clip and of the clamp, exactly on the clip, nothing between the
/// policies at all, and numbers that are none; sequences with and without each kind of log-probs.
rows_case some_rows(unsigned seed, bool holes) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> unit(0, 1);
  rows_case made;
  const std::vector<double> apart = {
      0, std::log(1.2), std::log(0.8), 0.1, -0.1, 0.6, -0.6, 11, -11, 10, 2, -2, 1.5, -1.5};
  for (std::int32_t i = 0; i < 12; ++i) {
    training_sequence s;
    const std::size_t count = 20 + 3 * static_cast<std::size_t>(i);
    s.tokens.assign(count, 1);
    s.loss_mask.assign(count, 1);
    s.loss_mask[0] = 0;
    if (i == 2) s.loss_mask[7] = 0;
    s.advantage = i % 4 == 3 ? 0 : 3 * unit(random) - 1.5;
    s.weight = i == 5 ? 0.25 : 1;
    const auto kind = [&](std::vector<float>& to, bool empty) {
      if (empty) return;
      to.assign(count, 0);
    };
    kind(s.behaviour_log_probs, holes && i == 6);
    kind(s.proximal_log_probs, i % 3 == 1);
    kind(s.reference_log_probs, holes && i == 7);
    if (i % 2 == 0) s.versions.assign(count, 4);
    for (std::size_t t = 1; t < count; ++t) {
      double own = -6 * unit(random);
      const auto other = [&](std::vector<float>& of) {
        if (of.empty()) return;
        const auto pick =
            static_cast<std::size_t>(unit(random) * 1.5 * static_cast<double>(apart.size()));
        of[t] =
            static_cast<float>(own - (pick < apart.size() ? apart[pick] : 3 * unit(random) - 1.5));
        if (holes && unit(random) < 0.02)
          of[t] = static_cast<float>(unit(random) < 0.5 ? nan : -infinity);
      };
      other(s.behaviour_log_probs);
      other(s.proximal_log_probs);
      other(s.reference_log_probs);
      if (holes && unit(random) < 0.02) own = unit(random) < 0.5 ? nan : -infinity;
      if (!s.versions.empty() && t % 3 == 0) s.versions[t] = 3;
      if (s.loss_mask[t] == 0) continue;
      made.batch.predictions.push_back({0, i, static_cast<std::int32_t>(t)});
      made.log_probs.push_back(own);
      made.entropies.push_back(3 * unit(random));
    }
    made.sequences.push_back(std::move(s));
  }
  return made;
}

/// Each preset as it is, and with everything turned on that it admits.
std::vector<loss_parameters> all_formulas() {
  std::vector<loss_parameters> all;
  for (const preset name : {preset::sft, preset::reinforce, preset::group_normalised,
                            preset::group_centred, preset::group_smoothed}) {
    loss_parameters p = preset_defaults(name);
    if (p.divide_by == denominator::constant) p.denominator_tokens = 50;
    all.push_back(p);
    if (!uses_group_baseline(name)) continue;
    p.anchor = ratio_anchor::proximal;
    p.clip_high = 0.28;
    p.negative_ratio_cap = 1.3;
    all.push_back(p);
    p.anchor = ratio_anchor::behaviour;
    p.kl_coefficient = 0.3;
    p.log_ratio_clamp = 1;
    if (check(p)) all.push_back(p);
  }
  return all;
}

void check_near(double here, double there) {
  if (std::isnan(there)) {
    CHECK(std::isnan(here));
    return;
  }
  // Sums go in another order, and exp may round another way.
  CHECK(here == Approx(there).epsilon(1e-11));
}

}  // namespace

TEST_CASE("every preset: gradients and sums as tensors are those of one token after the other") {
  bool any_dropped = false, any_clipped = false;
  for (const loss_parameters& p : all_formulas()) {
    for (unsigned seed = 0; seed < 6; ++seed) {
      // Of fine-tuning recorded log-probs are no part: what is no number there only spoils metrics.
      const bool holes = p.name != preset::sft && seed % 2 == 1;
      rows_case rows = some_rows(seed, holes);
      if (p.name == preset::sft) rows.log_probs[3] = -infinity;
      CAPTURE(to_string(p.name));
      CAPTURE(to_string(p.anchor));
      CAPTURE(p.kl_coefficient);
      CAPTURE(seed);
      const batch_totals totals = count(rows.sequences);
      token_sums expected;
      std::vector<double> gradients;
      for (std::size_t i = 0; i < rows.log_probs.size(); ++i) {
        const prediction& at = rows.batch.predictions[i];
        const training_sequence& s = rows.sequences[static_cast<std::size_t>(at.sequence)];
        gradients.push_back(visit_token(p, s, static_cast<std::size_t>(at.token),
                                        weight_of(p, s, totals), rows.log_probs[i],
                                        rows.entropies[i], 4, expected));
      }
      const loss_rows losses(p, rows.batch, rows.sequences, totals, 4, at::kCPU);
      row_totals found = row_totals::zeros(at::kCPU);
      const at::Tensor log_probs = at::tensor(rows.log_probs, at::kDouble),
                       entropies = at::tensor(rows.entropies, at::kDouble);
      // In two chunks.
      const std::int64_t all = log_probs.numel(), cut = 77;
      for (const auto& [first, n] :
           {std::pair<std::int64_t, std::int64_t>{0, cut}, {cut, all - cut}}) {
        const at::Tensor part = losses.gradients(first, log_probs.narrow(0, first, n),
                                                 entropies.narrow(0, first, n), found);
        for (std::int64_t i = 0; i < n; ++i) {
          CAPTURE(first + i);
          check_near(part[i].item<double>(), gradients[static_cast<std::size_t>(first + i)]);
        }
      }
      const auto sums = expected.sums();
      for (std::size_t i = 0; i < sums.size(); ++i) {
        CAPTURE(i);
        check_near(found.sums[static_cast<std::int64_t>(i)].item<double>(), sums[i]);
      }
      const auto maxima = expected.maxima();
      for (std::size_t i = 0; i < maxima.size(); ++i)
        check_near(found.maxima[static_cast<std::int64_t>(i)].item<double>(), maxima[i]);
      any_dropped |= expected.dropped > 0;
      any_clipped |= expected.clipped > 0;
    }
  }
  CHECK(any_dropped);
  CHECK(any_clipped);
}

TEST_CASE("steps with losses as tensors come out as those with losses on the host") {
  for (const loss_parameters& p : all_formulas()) {
    CAPTURE(to_string(p.name));
    const auto arena = parameter_arena::random(small_config(architecture::qwen3), 8, at::kDouble);
    std::vector<training_sequence> batch(4);
    for (std::uint32_t i = 0; i < 4; ++i) {
      training_sequence& s = batch[i];
      s.tokens = some_tokens(12 + 5 * i, 30 + i);
      s.loss_mask.assign(s.tokens.size(), 1);
      s.loss_mask[0] = s.loss_mask[1] = 0;
      s.advantage = i == 1 ? 0 : 0.9 - 0.7 * i;
      s.behaviour_log_probs.assign(s.tokens.size(), -4.1F);
      if (needs_reference(p)) s.reference_log_probs.assign(s.tokens.size(), -3.9F);
    }
    std::vector<trainer> learners;
    for (const bool tensors : {false, true}) {
      trainer_options options;
      options.loss = p;
      options.optimizer.learning_rate = 0.01;
      options.loss_chunk = 7;
      options.pack.max_rows = 40;
      options.workers = tensors ? 2 : 1;
      options.losses_as_tensors = tensors;
      parameter_arena own = arena->like();
      own.flat.copy_(arena->flat);
      learners.push_back(trainer::make(std::move(own), options).value());
    }
    for (int step = 0; step < 2; ++step) {
      const base::json host = to_json(learners[0].step(batch).value()),
                       tensors = to_json(learners[1].step(batch).value());
      for (const auto& [name, value] : host.items()) {
        CAPTURE(name);
        if (value.is_number())
          CHECK(tensors[name].get<double>() == Approx(value.get<double>()).epsilon(1e-10));
        else
          CHECK(tensors[name] == value);
      }
    }
    const at::Tensor away = (learners[0].weights().flat - learners[1].weights().flat).abs().max();
    CHECK(away.item<double>() < 1e-9);
  }
}
