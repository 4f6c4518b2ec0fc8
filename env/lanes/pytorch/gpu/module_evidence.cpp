// Evidence of a module on a GPU.
#include "env/lanes/pytorch/gpu/module_evidence.hpp"

#include <algorithm>
#include <limits>

#include <fmt/ranges.h>

#include "base/json.hpp"
#include "base/utf8.hpp"
#include "env/lanes/pytorch/gpu/kernel_names.hpp"

namespace quern::env {
namespace {

constexpr std::size_t most_names = 400, longest_unknown = 400;
/// Of one kernel in one call: more is no time of a call.
constexpr std::int64_t most_kernel_ns = 3'600'000'000'000, most_launches = 10'000'000;

tl::unexpected<base::error> no_evidence(std::string_view what) {
  return base::fail(base::errc::invalid_argument, "a process told no evidence: {}", what);
}

/// What is left of a text of at most so many bytes.
void cut(std::string& text, std::size_t most) {
  text.resize(std::min(text.size(), most));
  text.resize(base::first_invalid_utf8(text));
}

/// [name, launches, ns].
base::expected<kernel_time> kernel_from(const base::json& value) {
  if (!value.is_array() || value.size() != 3 || !value[0].is_string() ||
      !value[1].is_number_integer() || !value[2].is_number_integer())
    return no_evidence("a kernel is a name, launches and ns");
  kernel_time kernel;
  kernel.name = value[0].get<std::string>();
  cut(kernel.name, max_kernel_name);
  kernel.count = value[1].get<std::int64_t>();
  kernel.ns = value[2].get<std::int64_t>();
  if (kernel.count < 0 || kernel.count > most_launches || kernel.ns < 0 ||
      kernel.ns > most_kernel_ns)
    return no_evidence("a kernel has launches or ns that no call has");
  kernel.kind = name_of(kind_of_kernel(kernel.name));
  return kernel;
}

void add_types(const std::string& name, std::vector<std::string>& types) {
  for (std::string& type : narrow_types_of(name))
    if (std::ranges::find(types, type) == types.end()) types.push_back(std::move(type));
}

base::status read_profile(const base::json& told, bool is_fp32, evidence_report& into) {
  const auto kernels = told.find("kernels");
  if (kernels == told.end() || !kernels->is_array() || kernels->size() > most_names)
    return no_evidence("no list of kernels");
  for (const base::json& one : *kernels) {
    QUERN_TRY(auto kernel, kernel_from(one));
    into.device_ns += kernel.ns;
    into.ns_by_kind[kernel.kind] += kernel.ns;
    if (is_fp32) add_types(kernel.name, into.lower_precision);
    into.kernels.push_back(std::move(kernel));
  }
  std::ranges::stable_sort(into.kernels, std::greater<>(), &kernel_time::ns);
  into.kernels.resize(std::min(into.kernels.size(), max_kernels));
  QUERN_TRY(into.graphs, base::get<bool>(told, "graphs"));
  return {};
}

finding forbidden(std::string_view policy_switch, const std::string& seen) {
  return {verdict_kind::rejected_static, std::string(policy_switch),
          fmt::format("{}, as a profile of a call shows; the suite's policy goes by_evidence and "
                      "has {} off",
                      seen, policy_switch),
          std::nullopt};
}

/// What it runs of a vendor's library, for people; empty: nothing.
std::string vendors_kernel(const evidence_report& seen) {
  for (const kernel_kind kind :
       {kernel_kind::cublas, kernel_kind::cudnn, kernel_kind::other_library}) {
    if (!seen.ns_by_kind.contains(name_of(kind))) continue;
    const auto at = std::ranges::find(seen.kernels, name_of(kind), &kernel_time::kind);
    return fmt::format("{} of {}", at == seen.kernels.end() ? "a kernel" : at->name, name_of(kind));
  }
  return {};
}

}  // namespace

base::expected<evidence_report> parse_evidence(std::string_view answer, bool is_fp32) {
  QUERN_TRY(const auto told, base::parse_json(answer, 16));
  evidence_report report;
  QUERN_TRY(report.aliases_output, base::get<bool>(told, "aliases_output"));
  QUERN_TRY(report.late_builds, base::get<std::int64_t>(told, "late_builds"));
  if (*report.late_builds < 0 || *report.late_builds > std::numeric_limits<std::int32_t>::max())
    return no_evidence("a number of builds that nobody makes");
  if (told.contains("unknown")) {
    QUERN_TRY(report.unknown, base::get<std::string>(told, "unknown"));
    cut(report.unknown, longest_unknown);
    if (report.unknown.empty()) report.unknown = "its process does not say why";
    return report;
  }
  QUERN_CHECK(read_profile(told, is_fp32, report));
  return report;
}

finding held_against(const evidence_report& seen, const suite_policy& policy) {
  if (!policy.by_evidence || !seen.unknown.empty()) return {};
  if (!policy.library_calls) {
    if (const std::string found = vendors_kernel(seen); !found.empty())
      return forbidden("library_calls", "it runs " + found);
    const double torch = share_of(seen, name_of(kernel_kind::torch)).value_or(0);
    if (torch > most_of_torch)
      return forbidden("library_calls",
                       fmt::format("PyTorch's own kernels take {:.0f} % of its device time, at "
                                   "most {:.0f} % are allowed",
                                   100 * torch, 100 * most_of_torch));
  }
  if (!policy.lower_precision && !seen.lower_precision.empty())
    return forbidden("lower_precision",
                     fmt::format("it computes in {}", fmt::join(seen.lower_precision, ", ")));
  if (!policy.graphs && seen.graphs.value_or(false))
    return forbidden("graphs", "it replays a CUDA graph");
  return {};
}

}  // namespace quern::env
