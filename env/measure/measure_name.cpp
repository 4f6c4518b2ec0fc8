// A protocol and its baseline in one word.
#include "env/measure/measure_name.hpp"

#include <vector>

#include <fmt/ranges.h>

#include "base/text.hpp"

namespace quern::env {
namespace {

base::expected<std::string> full_protocol_name(std::string_view given) {
  std::vector<std::string_view> known;
  for (const auto& one : all_protocols())
    known.push_back(one.name);
  known.push_back(protocol_cost_model);
  for (const auto name : known)
    if (name == given || name.substr(0, name.find('/')) == given) return std::string(name);
  return base::fail(base::errc::not_found, "there is no measurement protocol '{}'{}; known are {}",
                    given, base::did_you_mean(given, known), fmt::join(known, ", "));
}

}  // namespace

base::expected<measure_name> parse_measure_name(std::string_view text) {
  measure_name result;
  const std::size_t at = text.find('@');
  QUERN_TRY(result.protocol, full_protocol_name(text.substr(0, at)));
  if (at == std::string_view::npos) return result;
  const auto baseline = text.substr(at + 1);
  const auto found = parse_baseline(baseline);
  if (!found)
    return base::fail(base::errc::not_found, "there is no baseline '{}'{}; known are {}", baseline,
                      base::did_you_mean(baseline, all_baselines()),
                      fmt::join(all_baselines(), ", "));
  if (result.protocol == protocol_cost_model && *found != baseline_choice::of_task)
    return base::fail(base::errc::invalid_argument,
                      "{} measures nothing, so that it has no baseline '{}': leave it out",
                      protocol_cost_model, baseline);
  result.baseline = *found;
  return result;
}

std::string to_text(const measure_name& name) {
  if (name.baseline == baseline_choice::of_task) return name.protocol;
  return fmt::format("{}@{}", name.protocol, name_of(name.baseline));
}

double usual_seconds(const measure_name& name, double otherwise) {
  const auto protocol = find_protocol(name.protocol);
  return protocol && protocol->seconds > 0 ? protocol->seconds : otherwise;
}

}  // namespace quern::env
