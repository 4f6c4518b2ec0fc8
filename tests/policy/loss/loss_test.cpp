// Presets, advantages and per-token losses against values computed by hand and against finite
// differences.
#include <cmath>
#include <limits>
#include <vector>

#include "policy/loss/advantage.hpp"
#include "policy/loss/preset.hpp"
#include "policy/loss/token_loss.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::policy;
using doctest::Approx;

namespace {

const std::vector<preset> all_presets{preset::sft, preset::reinforce, preset::group_normalised,
                                      preset::group_centred, preset::group_smoothed};

token_input at_log_probs(double now, double behaviour, double advantage, double reference = 0) {
  token_input in;
  in.log_prob = now;
  in.behaviour_log_prob = behaviour;
  in.proximal_log_prob = behaviour;
  in.reference_log_prob = reference;
  in.advantage = advantage;
  return in;
}

}  // namespace

TEST_CASE("the presets' own values pass their check and keep their name") {
  for (preset name : all_presets) {
    const loss_parameters p = preset_defaults(name);
    CHECK(p.name == name);
    CHECK(check(p));
    CHECK(parse_preset(to_string(name)).value() == name);
  }
  CHECK(preset_defaults(preset::group_smoothed).smoothing_clip == 1.5);
  const auto slip = parse_preset("group_centered");
  REQUIRE_FALSE(slip);
  CHECK(slip.error().message.find("did you mean 'group_centred'") != std::string::npos);
}

TEST_CASE("a preset that had the name of a paper is refused with its own") {
  for (const auto& [earlier, now] :
       {std::pair("grpo", "group_normalised"), std::pair("dr_grpo", "group_centred"),
        std::pair("cuda_l1", "group_smoothed")}) {
    const auto refused = parse_preset(earlier);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().message.find(std::string("is called ") + now) != std::string::npos);
    CHECK(parse_preset(now));
  }
}

TEST_CASE("values that a formula does not admit are refused with their name") {
  const auto refused = [](loss_parameters p, std::string_view name) {
    const auto result = check(p);
    REQUIRE_FALSE(result);
    CHECK(result.error().message.find(name) != std::string::npos);
  };
  loss_parameters p = preset_defaults(preset::group_normalised);
  p.clip_low = std::numeric_limits<double>::quiet_NaN();
  refused(p, "clip_low");
  p = preset_defaults(preset::group_normalised);
  p.smoothing_clip = 1.5;
  refused(p, "smoothing_clip");
  p = preset_defaults(preset::reinforce);
  p.kl_coefficient = 0.1;
  refused(p, "kl_coefficient");
  p = preset_defaults(preset::group_centred);
  p.denominator_tokens = 0;
  refused(p, "denominator_tokens");
  p = preset_defaults(preset::group_normalised);
  p.negative_ratio_cap = 1.0;  // inside the clip range
  refused(p, "negative_ratio_cap");
}

TEST_CASE("group advantages by hand") {
  const std::vector<double> rewards{1, 2, 3,
                                    6};  // mean 3, squares 4 + 1 + 0 + 9 = 14, s = sqrt(14 / 3)
  const double s = std::sqrt(14.0 / 3.0);
  loss_parameters p = preset_defaults(preset::group_normalised);
  auto a = group_advantages(p, rewards);
  CHECK(a[0] == Approx(-2 / (s + 1e-4)).epsilon(1e-12));
  CHECK(a[2] == Approx(0).epsilon(1e-12));
  CHECK(a[3] == Approx(3 / (s + 1e-4)).epsilon(1e-12));
  p.negative_scale = 0.25;
  CHECK(group_advantages(p, rewards)[0] == Approx(-0.5 / (s + 1e-4)).epsilon(1e-12));
  CHECK(group_advantages(preset_defaults(preset::group_centred), rewards) ==
        std::vector<double>{-2, -1, 0, 3});
  CHECK(group_advantages(preset_defaults(preset::reinforce), rewards) == rewards);
  CHECK(group_advantages(preset_defaults(preset::sft), rewards) == std::vector<double>{1, 1, 1, 1});
}

TEST_CASE("zero variance and lonely samples give exactly no advantage") {
  for (preset name : {preset::group_normalised, preset::group_centred, preset::group_smoothed}) {
    const loss_parameters p = preset_defaults(name);
    // 0.1 * 3 differs from 0.3 in the last bit: still equal rewards
    CHECK(group_advantages(p, std::vector<double>{0.3, 0.1 * 3, 0.3}) ==
          std::vector<double>{0, 0, 0});
    CHECK(group_advantages(p, std::vector<double>{7}) == std::vector<double>{0});
    CHECK(group_advantages(p, std::vector<double>{}).empty());
    CHECK(group_advantages(p, std::vector<double>{1, 1.001})[1] > 0);
  }
}

TEST_CASE("rolling statistics use the last complete block") {
  reward_statistics s;
  for (double r : {1.0, 2.0, 3.0})
    s.add(r, 4);
  CHECK_FALSE(s.ready);
  CHECK(s.smooth(100, 1.5) == 100);  // nothing is smoothed before the first block is complete
  s.add(6, 4);
  CHECK(s.ready);
  CHECK(s.mu == Approx(3));
  CHECK(s.sigma == Approx(std::sqrt(14.0 / 4.0)));
  CHECK(s.smooth(4, 1.5) == Approx(1 / std::sqrt(3.5)));
  CHECK(s.smooth(100, 1.5) == 1.5);
  CHECK(s.smooth(-100, 1.5) == -1.5);
  s.add(1000, 4);  // an open block does not move mu
  CHECK(s.mu == Approx(3));
  const auto back = reward_statistics_from_json(to_json(s));
  REQUIRE(back);
  CHECK(*back == s);
  reward_statistics flat;
  for (int i = 0; i < 4; ++i)
    flat.add(2, 4);
  CHECK(flat.ready);
  CHECK(flat.smooth(5, 1.5) == 5);  // no spread to divide by
  base::json broken = to_json(s);
  broken["sigma"] = -1.0;
  CHECK_FALSE(reward_statistics_from_json(broken));
  broken.erase("sigma");
  CHECK_FALSE(reward_statistics_from_json(broken));
}

TEST_CASE("token losses by hand") {
  const loss_parameters p = preset_defaults(preset::group_normalised);
  const double up = std::log(1.5), down = std::log(0.5);
  // inside the clip
  token_loss l = evaluate_token(p, at_log_probs(-1 + std::log(1.1), -1, 2));
  CHECK(l.loss == Approx(-2.2));
  CHECK(l.gradient == Approx(-2.2));
  CHECK_FALSE(l.clipped);
  // above the clip: a positive advantage is cut, a negative one is not
  l = evaluate_token(p, at_log_probs(-1 + up, -1, 2));
  CHECK(l.loss == Approx(-2.4));
  CHECK(l.gradient == 0);
  CHECK(l.clipped);
  l = evaluate_token(p, at_log_probs(-1 + up, -1, -2));
  CHECK(l.loss == Approx(3.0));
  CHECK(l.gradient == Approx(3.0));
  // below the clip the other way round
  l = evaluate_token(p, at_log_probs(-1 + down, -1, -2));
  CHECK(l.loss == Approx(1.6));
  CHECK(l.gradient == 0);
  l = evaluate_token(p, at_log_probs(-1 + down, -1, 2));
  CHECK(l.gradient == Approx(-1.0));
  // a negative advantage never weighs more than the cap
  l = evaluate_token(p, at_log_probs(-1 + std::log(5), -1, -2));
  CHECK(l.loss == Approx(6));
  CHECK(l.gradient == 0);
  // beyond the clamp the ratio stays where it is
  l = evaluate_token(p, at_log_probs(-1, -50, 1));
  CHECK(l.ratio == Approx(std::exp(10.0)));
  CHECK(l.gradient == 0);
}

TEST_CASE("importance weights are truncated and held constant") {
  loss_parameters p = preset_defaults(preset::reinforce);
  token_loss l = evaluate_token(p, at_log_probs(-1, -1.5, 3));
  CHECK(l.loss == Approx(std::exp(0.5) * 3));
  CHECK(l.gradient == Approx(-std::exp(0.5) * 3));
  l = evaluate_token(p, at_log_probs(-1, -4, 3));
  CHECK(l.gradient == Approx(-6));  // cap 2
  CHECK(l.clipped);
  p = preset_defaults(preset::group_normalised);
  p.anchor = ratio_anchor::proximal;
  token_input in = at_log_probs(-1, -4, 3);
  in.proximal_log_prob = -1.1;
  l = evaluate_token(p, in);
  CHECK(l.ratio == Approx(std::exp(0.1)));
  CHECK(l.loss == Approx(-2 * std::exp(0.1) * 3));
  CHECK(l.gradient == Approx(-2 * std::exp(0.1) * 3));
}

TEST_CASE("the KL term is k3 and its gradient") {
  loss_parameters p = preset_defaults(preset::group_smoothed);
  p.kl_coefficient = 0.5;
  const token_loss l = evaluate_token(p, at_log_probs(-1, -1, 0, -1.7));
  const double d = -0.7;
  CHECK(l.kl == Approx(std::exp(d) - d - 1));
  CHECK(l.loss == Approx(0.5 * l.kl));
  CHECK(l.gradient == Approx(0.5 * (1 - std::exp(d))));
}

TEST_CASE("gradients are the derivatives of the losses") {
  for (preset name : all_presets)
    for (ratio_anchor anchor : {ratio_anchor::behaviour, ratio_anchor::proximal})
      for (double advantage : {-1.3, -0.2, 0.0, 0.9, 2.1})
        for (double shift : {-12.0, -1.4, -0.5, -0.1, 0.07, 0.4, 1.3, 12.0}) {
          loss_parameters p = preset_defaults(name);
          p.anchor = anchor;
          if (uses_group_baseline(name)) p.kl_coefficient = 0.3;
          token_input in = at_log_probs(-2 + shift, -2.2, advantage, -1.6);
          in.proximal_log_prob = -2;
          const token_loss here = evaluate_token(p, in);
          constexpr double h = 1e-6;
          token_input more = in, less = in;
          more.log_prob += h;
          less.log_prob -= h;
          double numeric = (evaluate_token(p, more).loss - evaluate_token(p, less).loss) / (2 * h);
          // reinforce holds its weight constant: difference quotient of -w0 A log p with the weight
          // w0 of this point, which is computed here.
          if (name == preset::reinforce) {
            const double w0 = std::min(
                std::exp(std::clamp(in.log_prob - in.behaviour_log_prob, -10.0, 10.0)), 2.0);
            const auto held = [&](double log_prob) { return -w0 * advantage * log_prob; };
            numeric = (held(more.log_prob) - held(less.log_prob)) / (2 * h);
            CHECK(here.loss == Approx(held(in.log_prob)));
          }
          CAPTURE(to_string(name));
          CAPTURE(advantage);
          CAPTURE(shift);
          CHECK(here.gradient == Approx(numeric).epsilon(1e-6));
        }
}

TEST_CASE("a log-prob that is not finite gives no loss, and a gradient that spoils the step") {
  const double bad = -std::numeric_limits<double>::infinity();
  for (preset name : all_presets) {
    const token_loss l = evaluate_token(preset_defaults(name), at_log_probs(bad, -1, 1));
    CHECK(l.dropped);
    CHECK(l.loss == 0);
    CHECK(std::isnan(l.gradient));
  }
  CHECK(
      evaluate_token(preset_defaults(preset::group_normalised), at_log_probs(-1, bad, 1)).dropped);
  CHECK_FALSE(evaluate_token(preset_defaults(preset::sft), at_log_probs(-1, bad, 1)).dropped);
}

TEST_CASE("denominators") {
  loss_parameters p = preset_defaults(preset::group_normalised);
  CHECK(token_weight(p, 50, 5, 20) == Approx(1.0 / 50));
  p.divide_by = denominator::sequences;
  CHECK(token_weight(p, 50, 5, 20) == Approx(1.0 / 100));
  p.divide_by = denominator::constant;
  p.denominator_tokens = 300;
  CHECK(token_weight(p, 50, 5, 20) == Approx(1.0 / 1500));
}
