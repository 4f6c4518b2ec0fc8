// The switches of a suite as text.
#include "env/task/suite_policy.hpp"

#include <array>
#include <vector>

#include <fmt/ranges.h>

#include "base/text.hpp"

namespace quern::env {
namespace {

struct policy_switch {
  std::string_view name;
  bool suite_policy::*value;
};

constexpr std::array<policy_switch, 5> switches{
    {{"library_calls", &suite_policy::library_calls},
     {"lower_precision", &suite_policy::lower_precision},
     {"graphs", &suite_policy::graphs},
     {"host_entry", &suite_policy::host_entry},
     {"by_evidence", &suite_policy::by_evidence}}};
constexpr std::string_view no_switch = "none";

}  // namespace

std::string to_text(const suite_policy& policy) {
  std::vector<std::string_view> on;
  for (const auto& one : switches)
    if (policy.*one.value) on.push_back(one.name);
  return on.empty() ? std::string(no_switch) : fmt::format("{}", fmt::join(on, ","));
}

base::expected<suite_policy> with_switches(suite_policy policy, std::string_view list, bool on) {
  std::vector<std::string_view> known;
  for (const auto& one : switches)
    known.push_back(one.name);
  for (const auto part : base::split(list, ',')) {
    const auto name = base::trim(part);
    if (name == no_switch || (name.empty() && list.empty())) continue;
    bool found = false;
    for (const auto& one : switches)
      if (one.name == name) policy.*one.value = on, found = true;
    if (!found)
      return base::fail(base::errc::invalid_argument, "a suite has no switch '{}'{}; known are {}",
                        name, base::did_you_mean(name, known), fmt::join(known, ", "));
  }
  return policy;
}

base::expected<suite_policy> parse_suite_policy(std::string_view text) {
  suite_policy nothing;
  nothing.host_entry = false;
  return with_switches(nothing, text, true);
}

}  // namespace quern::env
