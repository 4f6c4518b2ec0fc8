// Names of baselines.
#include "env/verdict/baseline.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace quern::env {
namespace {

constexpr std::array<std::string_view, 7> baseline_name_list{
    "task", "eager", "graph", "compile", "plain", "reduce-overhead", "max-autotune"};

}  // namespace

std::span<const std::string_view> all_baselines() {
  return baseline_name_list;
}

std::string_view name_of(baseline_choice which) {
  return baseline_name_list[static_cast<std::size_t>(which)];
}

std::optional<baseline_choice> parse_baseline(std::string_view name) {
  const auto at = std::find(baseline_name_list.begin(), baseline_name_list.end(), name);
  if (at == baseline_name_list.end()) return std::nullopt;
  return static_cast<baseline_choice>(at - baseline_name_list.begin());
}

std::string to_text(const reference_settings& settings) {
  const auto word = [](bool on) { return on ? "on" : "off"; };
  return fmt::format("TF32 {}, cudnn.benchmark {}, cuDNN attention {}, deterministic {}",
                     word(settings.tf32), word(settings.cudnn_benchmark),
                     word(settings.cudnn_attention), word(settings.deterministic));
}

}  // namespace quern::env
