// Names, default values and admissible ranges of the loss presets.
#include "policy/loss/preset.hpp"

#include <array>
#include <cmath>

#include "base/text.hpp"

namespace quern::policy {
namespace {

using base::errc;
using base::fail;

constexpr std::array<std::string_view, 5> preset_texts{"sft", "reinforce", "group_normalised",
                                                       "group_centred", "group_smoothed"};

/// Names of papers that presets had, whose formulas are others.
struct earlier_name {
  std::string_view name;
  preset now;
};
constexpr std::array<earlier_name, 3> earlier_names{{{"grpo", preset::group_normalised},
                                                     {"dr_grpo", preset::group_centred},
                                                     {"cuda_l1", preset::group_smoothed}}};
constexpr std::array<std::string_view, 3> denominator_texts{"tokens", "sequences", "constant"};
constexpr std::array<std::string_view, 2> anchor_texts{"behaviour", "proximal"};

template <class Enum, std::size_t N>
base::expected<Enum> parse(std::string_view text, const std::array<std::string_view, N>& texts,
                           std::string_view what) {
  for (std::size_t i = 0; i < N; ++i)
    if (texts[i] == text) return static_cast<Enum>(i);
  std::string known;
  for (std::string_view name : texts)
    known += fmt::format("{}{}", known.empty() ? "" : ", ", name);
  return fail(errc::invalid_argument, "unknown {} '{}'{}; known: {}", what, text,
              base::did_you_mean(text, texts), known);
}

std::optional<loss_fault> out_of_range(std::string_view name, double value, double low,
                                       double high) {
  if (value >= low && value <= high) return std::nullopt;
  // Of NaN, too.
  return loss_fault{name, fmt::format("is {}, but must lie in [{}, {}]", value, low, high)};
}

}  // namespace

loss_parameters preset_defaults(preset name) {
  loss_parameters p;
  p.name = name;
  switch (name) {
    case preset::sft:
    case preset::reinforce:
    case preset::group_normalised:
      break;
    case preset::group_centred:
      p.divide_by = denominator::constant;
      p.denominator_tokens = 1024;
      break;
    case preset::group_smoothed:
      p.kl_coefficient = 0.01;
      p.smoothing_clip = 1.5;
      break;
  }
  return p;
}

std::optional<loss_fault> find_fault(const loss_parameters& p) {
  constexpr double big = 1e6;
  struct range {
    std::string_view name;
    double value, low, high;
  };
  for (const range& one : {range{"std_epsilon", p.std_epsilon, 1e-12, 1},
                           {"clip_low", p.clip_low, 0, 1},
                           {"clip_high", p.clip_high, 0, big},
                           {"log_ratio_clamp", p.log_ratio_clamp, 0.1, 80},
                           {"importance_cap", p.importance_cap, 1, 100},
                           {"negative_ratio_cap", p.negative_ratio_cap, 1 + p.clip_high, big},
                           {"negative_scale", p.negative_scale, 0, 1},
                           {"kl_coefficient", p.kl_coefficient, 0, 10},
                           {"smoothing_clip", p.smoothing_clip, 0, big},
                           {"smoothing_block", static_cast<double>(p.smoothing_block), 2, big}})
    if (auto fault = out_of_range(one.name, one.value, one.low, one.high)) return fault;
  if (p.divide_by == denominator::constant)
    if (auto fault = out_of_range("denominator_tokens", p.denominator_tokens, 1, 1e9)) return fault;
  const bool smoothed = p.name == preset::group_smoothed;
  if (smoothed && p.smoothing_clip == 0)
    return loss_fault{"smoothing_clip",
                      "is 0, but group_smoothed smooths its rewards; take preset group_normalised "
                      "for unsmoothed rewards"};
  if (!smoothed && p.smoothing_clip != 0)
    return loss_fault{"smoothing_clip",
                      fmt::format("is {}, but {} does not smooth rewards; only group_smoothed does",
                                  p.smoothing_clip, to_string(p.name))};
  if (!uses_group_baseline(p.name) && p.kl_coefficient != 0)
    return loss_fault{
        "kl_coefficient",
        fmt::format("is {}, but {} has no KL term; group_normalised, group_centred and "
                    "group_smoothed have one",
                    p.kl_coefficient, to_string(p.name))};
  return std::nullopt;
}

base::status check(const loss_parameters& p) {
  if (const auto fault = find_fault(p))
    return fail(errc::invalid_argument, "{} {}", fault->parameter, fault->text);
  return {};
}

bool uses_group_baseline(preset name) {
  return name != preset::sft && name != preset::reinforce;
}

bool needs_reference(const loss_parameters& parameters) {
  return parameters.kl_coefficient > 0;
}

std::string_view to_string(preset name) {
  return preset_texts[static_cast<std::size_t>(name)];
}
std::string_view to_string(denominator value) {
  return denominator_texts[static_cast<std::size_t>(value)];
}
std::string_view to_string(ratio_anchor value) {
  return anchor_texts[static_cast<std::size_t>(value)];
}

base::expected<preset> parse_preset(std::string_view text) {
  for (const auto& [name, now] : earlier_names)
    if (text == name)
      return fail(
          errc::invalid_argument,
          "loss preset '{0}' is called {1}: its formula is not that of the paper; name {1}, "
          "and quern explain loss {1} prints it",
          text, to_string(now));
  return parse<preset>(text, preset_texts, "loss preset");
}

base::expected<denominator> parse_denominator(std::string_view text) {
  return parse<denominator>(text, denominator_texts, "denominator");
}

base::expected<ratio_anchor> parse_ratio_anchor(std::string_view text) {
  return parse<ratio_anchor>(text, anchor_texts, "ratio anchor");
}

std::vector<std::string> preset_names() {
  return {preset_texts.begin(), preset_texts.end()};
}

}  // namespace quern::policy
