// Looks at a device, gathered and judged.
#include "env/device/condition_watch.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/ranges.h>

#include "env/measure/stats.hpp"

namespace quern::env {
namespace {

std::optional<std::int64_t> widened(const std::optional<std::uint32_t>& value) {
  return value ? std::optional<std::int64_t>(*value) : std::nullopt;
}

std::int64_t median_clock(const std::vector<double>& looks) {
  return looks.empty() ? 0 : std::llround(median_of(looks));
}

std::optional<std::string> clocks_differ(const char* name, const std::vector<double>& baseline,
                                         const std::vector<double>& candidate) {
  if (baseline.size() < least_clock_looks || candidate.size() < least_clock_looks)
    return std::nullopt;
  const double base = median_of(baseline), cand = median_of(candidate);
  const double larger = std::max(base, cand);
  if (larger <= 0 || std::abs(base - cand) <= most_clock_difference * larger) return std::nullopt;
  return fmt::format(
      "the {} clock was {:.0f} MHz in the baseline's windows and {:.0f} MHz in the candidate's: "
      "{:.1f} % apart, more than {:.0f} %",
      name, base, cand, 100 * std::abs(base - cand) / larger, 100 * most_clock_difference);
}

}  // namespace

void condition_watch::look(const device_health_sample& sample, bool after, bool knows_own) {
  device_look one;
  one.after = after;
  one.sm_mhz = widened(sample.sm_mhz);
  one.memory_mhz = widened(sample.memory_mhz);
  one.power_mw = widened(sample.power_mw);
  one.temperature_c = widened(sample.temperature_c);
  if (sample.throttle_reasons) {
    one.throttle = throttle_words(*sample.throttle_reasons);
    throttled_ = throttled_ || is_throttled(*sample.throttle_reasons);
  }
  if (knows_own && sample.other_processes) {
    one.others = widened(sample.other_processes);
    shared_ = shared_.value_or(false) || sample.host_shared;
  }
  looks_.push_back(std::move(one));
}

void condition_watch::begin() {
  baseline_ = {};
  candidate_ = {};
}

void condition_watch::begin(const device_health_sample& before, bool knows_own) {
  begin();
  look(before, false, knows_own);
}

void condition_watch::window(bool candidate, const device_clocks& clocks) {
  side_clocks& side = candidate ? candidate_ : baseline_;
  if (clocks.sm_mhz) side.sm_mhz.push_back(*clocks.sm_mhz);
  if (clocks.memory_mhz) side.memory_mhz.push_back(*clocks.memory_mhz);
}

void condition_watch::end(const device_health_sample& after, bool knows_own) {
  look(after, true, knows_own);
}

std::optional<std::string> condition_watch::unfair() const {
  if (auto sm = clocks_differ("SM", baseline_.sm_mhz, candidate_.sm_mhz)) return sm;
  return clocks_differ("memory", baseline_.memory_mhz, candidate_.memory_mhz);
}

std::optional<device_conditions> condition_watch::conditions(const std::string& bus_id) const {
  if (looks_.empty()) return std::nullopt;
  device_conditions result;
  result.bus_id = bus_id;
  result.throttled = throttled_;
  result.shared = shared_;
  result.looks = looks_;
  result.baseline_sm_mhz = median_clock(baseline_.sm_mhz);
  result.candidate_sm_mhz = median_clock(candidate_.sm_mhz);
  result.baseline_memory_mhz = median_clock(baseline_.memory_mhz);
  result.candidate_memory_mhz = median_clock(candidate_.memory_mhz);
  return result;
}

std::string what_disturbed(const device_conditions& seen) {
  std::vector<std::string> causes;
  for (const device_look& look : seen.looks)
    for (const std::string& reason : look.throttle)
      if (seen.throttled && std::find(causes.begin(), causes.end(), reason) == causes.end())
        causes.push_back(reason);
  std::string text;
  if (seen.throttled)
    text = fmt::format("; the device was throttled ({})", fmt::join(causes, ", "));
  if (seen.shared.value_or(false)) text += "; processes of others were on the device";
  return text;
}

}  // namespace quern::env
