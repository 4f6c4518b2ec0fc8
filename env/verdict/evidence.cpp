// Evidence as JSON (docs/formats/verdict.md) and as text.
#include "env/verdict/evidence.hpp"

#include <fmt/ranges.h>

#include "base/printable.hpp"
#include "base/text.hpp"

namespace quern::env {
namespace {

constexpr std::size_t most_kinds = 32, most_types = 16, longest_word = 64, longest_reason = 1024;

template <class... Args>
tl::unexpected<base::error> refuse_evidence(fmt::format_string<Args...> format, Args&&... args) {
  return base::fail(base::errc::invalid_argument, format, std::forward<Args>(args)...);
}

base::expected<std::string> short_text(const base::json& object, std::string_view key,
                                       std::size_t most) {
  QUERN_TRY(std::string text, base::get<std::string>(object, key));
  if (text.size() > most)
    return refuse_evidence("evidence: '{}' has {} bytes, at most {} are allowed", key, text.size(),
                           most);
  return text;
}

base::expected<std::int64_t> count_in(const base::json& object, std::string_view key) {
  QUERN_TRY(const std::int64_t value, base::get<std::int64_t>(object, key));
  if (value < 0) return refuse_evidence("evidence: '{}' is {}, it must be at least 0", key, value);
  return value;
}

base::status read_kernels(const base::json& value, evidence_report& into) {
  if (!value.contains("kernels")) return {};
  const base::json& list = value["kernels"];
  if (!list.is_array() || list.size() > max_kernels)
    return refuse_evidence("evidence: 'kernels' must be a list of at most {}", max_kernels);
  for (const base::json& one : list) {
    if (!one.is_object())
      return refuse_evidence("evidence: 'kernels' lists something that is no object");
    kernel_time kernel;
    QUERN_TRY(kernel.name, short_text(one, "name", max_kernel_name));
    QUERN_TRY(kernel.kind, short_text(one, "kind", longest_word));
    QUERN_TRY(kernel.count, count_in(one, "count"));
    QUERN_TRY(kernel.ns, count_in(one, "ns"));
    into.kernels.push_back(std::move(kernel));
  }
  return {};
}

base::status read_kinds(const base::json& value, evidence_report& into) {
  if (!value.contains("kinds")) return {};
  const base::json& kinds = value["kinds"];
  if (!kinds.is_object() || kinds.size() > most_kinds)
    return refuse_evidence("evidence: 'kinds' must be an object of at most {} keys", most_kinds);
  for (const auto& [kind, unused] : kinds.items()) {
    if (kind.size() > longest_word)
      return refuse_evidence("evidence: a kind of {} bytes, at most {}", kind.size(), longest_word);
    QUERN_TRY(into.ns_by_kind[kind], count_in(kinds, kind));
  }
  return {};
}

base::status read_types(const base::json& value, evidence_report& into) {
  if (!value.contains("lower_precision")) return {};
  const base::json& types = value["lower_precision"];
  if (!types.is_array() || types.size() > most_types)
    return refuse_evidence("evidence: 'lower_precision' must be a list of at most {}", most_types);
  for (const base::json& one : types) {
    if (!one.is_string() || one.get_ref<const std::string&>().size() > longest_word)
      return refuse_evidence("evidence: 'lower_precision' lists something that is no type");
    into.lower_precision.push_back(one.get<std::string>());
  }
  return {};
}

base::status read_flag_of(const base::json& value, std::string_view key,
                          std::optional<bool>& into) {
  if (!value.contains(key)) return {};
  QUERN_TRY(into, base::get<bool>(value, key));
  return {};
}

base::status read_count_of(const base::json& value, std::string_view key,
                           std::optional<std::int64_t>& into) {
  if (!value.contains(key)) return {};
  QUERN_TRY(into, count_in(value, key));
  return {};
}

std::string_view answer(const std::optional<bool>& what) {
  if (!what) return "not known";
  return *what ? "yes" : "no";
}

}  // namespace

std::optional<double> share_of(const evidence_report& what, std::string_view kind) {
  if (!what.unknown.empty() || what.device_ns <= 0) return std::nullopt;
  const auto at = what.ns_by_kind.find(kind);
  const std::int64_t ns = at == what.ns_by_kind.end() ? 0 : at->second;
  return static_cast<double>(ns) / static_cast<double>(what.device_ns);
}

base::json to_json(const evidence_report& what) {
  base::json result = base::json::object();
  if (!what.unknown.empty()) {
    result["unknown"] = what.unknown;
  } else {
    result["device_ns"] = what.device_ns;
    result["lower_precision"] = what.lower_precision;
    base::json kinds = base::json::object();
    for (const auto& [kind, ns] : what.ns_by_kind)
      kinds[kind] = ns;
    result["kinds"] = std::move(kinds);
    base::json kernels = base::json::array();
    for (const kernel_time& one : what.kernels)
      kernels.push_back(
          {{"name", one.name}, {"kind", one.kind}, {"count", one.count}, {"ns", one.ns}});
    result["kernels"] = std::move(kernels);
  }
  if (what.graphs) result["graphs"] = *what.graphs;
  if (what.aliases_output) result["aliases_output"] = *what.aliases_output;
  if (what.late_builds) result["late_builds"] = *what.late_builds;
  if (what.roofline_e4) result["roofline_e4"] = *what.roofline_e4;
  return result;
}

base::expected<evidence_report> evidence_from_json(const base::json& value) {
  if (!value.is_object())
    return refuse_evidence("evidence must be an object, found {}", value.type_name());
  evidence_report report;
  if (value.contains("unknown")) {
    QUERN_TRY(report.unknown, short_text(value, "unknown", longest_reason));
  }
  if (value.contains("device_ns")) {
    QUERN_TRY(report.device_ns, count_in(value, "device_ns"));
  }
  QUERN_CHECK(read_kernels(value, report));
  QUERN_CHECK(read_kinds(value, report));
  QUERN_CHECK(read_types(value, report));
  QUERN_CHECK(read_flag_of(value, "graphs", report.graphs));
  QUERN_CHECK(read_flag_of(value, "aliases_output", report.aliases_output));
  QUERN_CHECK(read_count_of(value, "late_builds", report.late_builds));
  QUERN_CHECK(read_count_of(value, "roofline_e4", report.roofline_e4));
  return report;
}

std::string evidence_text(const evidence_report& what) {
  std::string text = "\nevidence, told by a process that ran the candidate\n";
  if (!what.unknown.empty())
    text += fmt::format("  kernels are not known: {}\n", base::printable(what.unknown));
  if (what.unknown.empty()) {
    std::vector<std::string> shares;
    for (const auto& [kind, ns] : what.ns_by_kind)
      shares.push_back(fmt::format("{} {:.0f} %", kind, 100 * share_of(what, kind).value_or(0)));
    text += fmt::format("  kernels take {} a call: {}\n", base::human_duration(what.device_ns),
                        fmt::join(shares, ", "));
    for (const kernel_time& one : what.kernels)
      text += fmt::format("    {:>9}  {:>3}x  {:<13}  {}\n", base::human_duration(one.ns),
                          one.count, one.kind, base::printable(one.name));
    text += fmt::format("  narrower types than the task's: {}\n",
                        what.lower_precision.empty()
                            ? "none seen"
                            : fmt::format("{}", fmt::join(what.lower_precision, ", ")));
  }
  text += fmt::format("  CUDA graphs: {}; one buffer for all results: {}; late builds: {}\n",
                      answer(what.graphs), answer(what.aliases_output),
                      what.late_builds ? fmt::format("{}", *what.late_builds) : "not known");
  if (what.roofline_e4)
    text += fmt::format("  by the evaluator: {:.1f} % of the roofline\n",
                        static_cast<double>(*what.roofline_e4) / 100);
  return text;
}

}  // namespace quern::env
