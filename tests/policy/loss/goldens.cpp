// Every loss preset against values and gradients that PyTorch's autograd gives in float64.
#include <cmath>

#include "base/file.hpp"
#include "base/json.hpp"
#include "policy/loss/advantage.hpp"
#include "policy/loss/preset.hpp"
#include "policy/loss/token_loss.hpp"
#include "support/test.hpp"

using namespace quern::policy;
namespace base = quern::base;
using base::json;

namespace {

json read_cases() {
  const auto text = base::read_file(quern::test::source_dir() / "tests/golden/policy/losses.json");
  REQUIRE(text);
  const auto cases = base::parse_json(*text);
  REQUIRE(cases);
  return *cases;
}

loss_parameters parameters_of(const json& item) {
  const json& values = item["parameters"];
  loss_parameters p;
  p.name = *parse_preset(item["preset"].get<std::string>());
  p.anchor = *parse_ratio_anchor(values["anchor"].get<std::string>());
  p.divide_by = *parse_denominator(values["denominator"].get<std::string>());
  p.denominator_tokens = values["denominator_tokens"];
  p.std_epsilon = values["std_epsilon"];
  p.clip_low = values["clip_low"];
  p.clip_high = values["clip_high"];
  p.log_ratio_clamp = values["log_ratio_clamp"];
  p.importance_cap = values["importance_cap"];
  p.negative_ratio_cap = values["negative_ratio_cap"];
  p.negative_scale = values["negative_scale"];
  p.kl_coefficient = values["kl_coefficient"];
  p.smoothing_clip = values["smoothing_clip"];
  p.smoothing_block = values["smoothing_block"];
  return p;
}

std::vector<double> advantages_of(const json& item, const loss_parameters& p) {
  auto rewards = item["rewards"].get<std::vector<double>>();
  if (p.smoothing_clip > 0) {
    reward_statistics statistics;
    for (const double reward : item["history"].get<std::vector<double>>())
      statistics.add(reward, p.smoothing_block);
    for (double& reward : rewards)
      reward = statistics.smooth(reward, p.smoothing_clip);
  }
  std::vector<double> result(rewards.size());
  for (const auto& group : item["groups"].get<std::vector<std::vector<std::size_t>>>()) {
    std::vector<double> members;
    for (const std::size_t i : group)
      members.push_back(rewards[i]);
    const auto advantages = group_advantages(p, members);
    for (std::size_t i = 0; i < group.size(); ++i)
      result[group[i]] = advantages[i];
  }
  return result;
}

double near(double value) {
  return 1e-12 * std::max(1.0, std::abs(value));
}

}  // namespace

TEST_CASE("losses and gradients are those of autograd") {
  const json cases = read_cases();
  REQUIRE(cases.size() >= 16);
  for (const json& item : cases) {
    const auto name = item["name"].get<std::string>();
    CAPTURE(name);
    const loss_parameters p = parameters_of(item);
    REQUIRE(check(p));
    const auto advantages = advantages_of(item, p);
    const auto expected = item["advantages"].get<std::vector<double>>();
    for (std::size_t i = 0; i < expected.size(); ++i)
      CHECK(std::abs(advantages[i] - expected[i]) <= near(expected[i]));

    double batch_tokens = 0;
    for (const json& sequence : item["sequences"])
      for (const int trained : sequence["mask"].get<std::vector<int>>())
        batch_tokens += trained;
    const auto batch_sequences = static_cast<double>(item["sequences"].size());
    double loss = 0;
    for (std::size_t s = 0; s < item["sequences"].size(); ++s) {
      const json& sequence = item["sequences"][s];
      const auto mask = sequence["mask"].get<std::vector<int>>();
      double sequence_tokens = 0;
      for (const int trained : mask)
        sequence_tokens += trained;
      const double weight = token_weight(p, batch_tokens, batch_sequences, sequence_tokens);
      for (std::size_t t = 0; t < mask.size(); ++t) {
        const token_loss token =
            evaluate_token(p, {sequence["log_prob"][t], sequence["behaviour_log_prob"][t],
                               sequence["proximal_log_prob"][t], sequence["reference_log_prob"][t],
                               advantages[s]});
        CHECK_FALSE(token.dropped);
        const double gradient = mask[t] * weight * token.gradient;
        const double wanted = sequence["gradient"][t];
        CAPTURE(s);
        CAPTURE(t);
        CHECK(std::abs(gradient - wanted) <= near(wanted));
        loss += mask[t] * weight * token.loss;
      }
    }
    CHECK(std::abs(loss - item["loss"].get<double>()) <= near(loss));
  }
}
