// JSON of verdicts: docs/formats/verdict.md.
#include <algorithm>
#include <functional>

#include "base/text.hpp"
#include "env/verdict/verdict.hpp"

namespace quern::env {

namespace {

using base::json;

constexpr std::size_t max_list = 4096;

template <class Report>
using number_of = std::pair<const char*, std::int64_t Report::*>;
constexpr number_of<launch_report> launch_numbers[] = {
    {"count", &launch_report::count},
    {"blocks", &launch_report::blocks},
    {"threads", &launch_report::threads},
    {"registers", &launch_report::registers},
    {"shared_bytes", &launch_report::shared_bytes},
    {"local_bytes", &launch_report::local_bytes},
    {"resident_blocks", &launch_report::resident_blocks}};
constexpr number_of<work_report> work_numbers[] = {
    {"bytes", &work_report::bytes},
    {"flops", &work_report::flops},
    {"bytes_per_s", &work_report::bytes_per_s},
    {"flops_per_s", &work_report::flops_per_s},
    {"multiprocessors", &work_report::multiprocessors},
    {"threads", &work_report::threads}};

template <class... Args>
tl::unexpected<base::error> refuse_verdict(fmt::format_string<Args...> format, Args&&... args) {
  return base::fail(base::errc::invalid_argument, format, std::forward<Args>(args)...);
}

/// Text of a key; absent reads as empty.
base::expected<std::string> text_of(const json& object, std::string_view key) {
  if (!object.contains(key)) return std::string();
  QUERN_TRY(std::string text, base::get<std::string>(object, key));
  if (text.size() > max_verdict_text) {
    return refuse_verdict(
        "verdict: '{}' has {} bytes, at most {} are allowed: cut it where it is made", key,
        text.size(), max_verdict_text);
  }
  return text;
}

base::expected<std::int64_t> integer_of(const json& object, std::string_view key,
                                        std::int64_t least) {
  QUERN_TRY(const std::int64_t value, base::get<std::int64_t>(object, key));
  if (value < least)
    return refuse_verdict("verdict: '{}' is {}, it must be at least {}", key, value, least);
  return value;
}

/// Elements of a list through `read`; absent reads as empty.
template <class T>
base::expected<std::vector<T>> list_of(const json& object, std::string_view key,
                                       const std::function<base::expected<T>(const json&)>& read) {
  std::vector<T> result;
  if (!object.contains(key)) return result;
  const json& list = object[key];
  if (!list.is_array() || list.size() > max_list) {
    return refuse_verdict("verdict: '{}' must be a list of at most {} elements", key, max_list);
  }
  for (const json& element : list) {
    QUERN_TRY(T value, read(element));
    result.push_back(std::move(value));
  }
  return result;
}

base::expected<std::vector<std::int64_t>> integers_of(const json& object, std::string_view key) {
  return list_of<std::int64_t>(
      object, key, [&](const json& element) -> base::expected<std::int64_t> {
        if (!element.is_number_integer() ||
            (element.is_number_unsigned() &&
             element.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX))) {
          return refuse_verdict("verdict: '{}' lists something that is no 64-bit integer", key);
        }
        return element.get<std::int64_t>();
      });
}

base::expected<std::vector<std::string>> texts_of(const json& object, std::string_view key) {
  return list_of<std::string>(object, key, [&](const json& element) -> base::expected<std::string> {
    if (!element.is_string() || element.get_ref<const std::string&>().size() > max_verdict_text) {
      return refuse_verdict("verdict: '{}' lists something that is no text of at most {} bytes",
                            key, max_verdict_text);
    }
    return element.get<std::string>();
  });
}

base::expected<const json*> object_at(const json& object, std::string_view key) {
  const json& value = object[key];
  if (!value.is_object()) return refuse_verdict("verdict: '{}' must be an object", key);
  return &value;
}

base::expected<check_result> read_check(const json& value) {
  if (!value.is_object())
    return refuse_verdict("verdict: 'checks' lists something that is no object");
  check_result result;
  QUERN_TRY(result.name, base::get<std::string>(value, "name"));
  QUERN_TRY(result.pass, base::get<bool>(value, "pass"));
  QUERN_TRY(result.detail, text_of(value, "detail"));
  return result;
}

base::status read_optional(const json& object, std::string_view key,
                           std::optional<std::int64_t>& into) {
  if (!object.contains(key)) return {};
  QUERN_TRY(into, integer_of(object, key, 0));
  return {};
}

base::expected<device_look> read_look(const json& value) {
  if (!value.is_object())
    return refuse_verdict("verdict: 'looks' lists something that is no object");
  device_look look;
  QUERN_TRY(const std::string when, text_of(value, "when"));
  look.after = when == "after";
  QUERN_CHECK(read_optional(value, "sm_mhz", look.sm_mhz));
  QUERN_CHECK(read_optional(value, "memory_mhz", look.memory_mhz));
  QUERN_CHECK(read_optional(value, "power_mw", look.power_mw));
  QUERN_CHECK(read_optional(value, "temperature_c", look.temperature_c));
  QUERN_CHECK(read_optional(value, "others", look.others));
  QUERN_TRY(look.throttle, texts_of(value, "throttle"));
  return look;
}

base::expected<device_conditions> read_device(const json& value) {
  device_conditions result;
  QUERN_TRY(result.bus_id, text_of(value, "bus_id"));
  QUERN_TRY(result.throttled, base::get<bool>(value, "throttled"));
  if (value.contains("shared")) {
    QUERN_TRY(result.shared, base::get<bool>(value, "shared"));
  }
  QUERN_TRY(result.looks, list_of<device_look>(value, "looks", read_look));
  const auto clocks = [&](const char* key, std::int64_t& baseline,
                          std::int64_t& candidate) -> base::status {
    if (!value.contains(key)) return {};
    QUERN_TRY(const auto both, integers_of(value, key));
    if (both.size() != 2)
      return refuse_verdict("verdict: '{}' has {} values, it must have 2: baseline, candidate", key,
                            both.size());
    if (both[0] < 0 || both[1] < 0)
      return refuse_verdict("verdict: '{}' has {} and {}, a clock is not negative", key, both[0],
                            both[1]);
    baseline = both[0];
    candidate = both[1];
    return {};
  };
  QUERN_CHECK(clocks("windows_sm_mhz", result.baseline_sm_mhz, result.candidate_sm_mhz));
  QUERN_CHECK(
      clocks("windows_memory_mhz", result.baseline_memory_mhz, result.candidate_memory_mhz));
  return result;
}

base::expected<launch_report> read_launch(const json& value) {
  if (!value.is_object())
    return refuse_verdict("verdict: 'launches' lists something that is no object");
  launch_report l;
  QUERN_TRY(l.kernel, text_of(value, "kernel"));
  for (const auto& [name, member] : launch_numbers) {
    QUERN_TRY(l.*member, integer_of(value, name, 0));
  }
  return l;
}

base::expected<work_report> read_work(const json& value) {
  work_report work;
  for (const auto& [name, member] : work_numbers) {
    QUERN_TRY(work.*member, integer_of(value, name, 0));
  }
  QUERN_TRY(work.launches, list_of<launch_report>(value, "launches", read_launch));
  return work;
}

base::status read_findings(const json& value, verdict& result) {
  QUERN_TRY(result.sandbox, texts_of(value, "sandbox"));
  QUERN_TRY(result.checks, list_of<check_result>(value, "checks", read_check));
  if (value.contains("first_diff")) {
    QUERN_TRY(const json* found, object_at(value, "first_diff"));
    first_difference diff;
    QUERN_TRY(diff.output, text_of(*found, "output"));
    QUERN_TRY(diff.index, integers_of(*found, "index"));
    QUERN_TRY(diff.got, text_of(*found, "got"));
    QUERN_TRY(diff.want, text_of(*found, "want"));
    result.first_diff = std::move(diff);
  }
  if (value.contains("time")) {
    QUERN_TRY(const json* found, object_at(value, "time"));
    timing time;
    QUERN_TRY(time.ref_ns, integers_of(*found, "ref_ns"));
    QUERN_TRY(time.cand_ns, integers_of(*found, "cand_ns"));
    QUERN_TRY(time.log_ratio_e9, integers_of(*found, "log_ratio_e9"));
    if (time.log_ratio_e9.size() != 3) {
      return refuse_verdict("verdict: 'log_ratio_e9' has {} values, it must have 3: low, mid, high",
                            time.log_ratio_e9.size());
    }
    QUERN_TRY(time.windows, integer_of(*found, "windows", 0));
    if (found->contains("device_ns")) {
      QUERN_TRY(time.device_ns, integer_of(*found, "device_ns", 0));
    }
    result.time = std::move(time);
  }
  if (value.contains("work")) {
    QUERN_TRY(const json* found, object_at(value, "work"));
    QUERN_TRY(result.work, read_work(*found));
  }
  if (value.contains("compiler")) {
    QUERN_TRY(const json* found, object_at(value, "compiler"));
    compiler_report report;
    QUERN_TRY(report.argv, texts_of(*found, "argv"));
    QUERN_TRY(report.ms, integer_of(*found, "ms", 0));
    QUERN_TRY(report.text, text_of(*found, "text"));
    result.compiler = std::move(report);
  }
  if (value.contains("device")) {
    QUERN_TRY(const json* found, object_at(value, "device"));
    QUERN_TRY(result.device, read_device(*found));
  }
  if (value.contains("evidence")) {
    QUERN_TRY(const json* found, object_at(value, "evidence"));
    QUERN_TRY(result.evidence, evidence_from_json(*found));
  }
  return {};
}

base::status read_kind(const json& value, verdict& result) {
  QUERN_TRY(const std::string name, base::get<std::string>(value, "verdict"));
  const auto kind = parse_verdict_kind(name);
  if (!kind) {
    std::vector<std::string_view> known;
    for (int i = 0; i < verdict_kind_count; ++i)
      known.push_back(name_of(static_cast<verdict_kind>(i)));
    return refuse_verdict("verdict: '{}' is no verdict{}: a newer evaluator may have made it", name,
                          base::did_you_mean(name, known));
  }
  result.kind = *kind;
  QUERN_TRY(result.reason, text_of(value, "kind"));
  const bool needs_reason = *kind == verdict_kind::malformed || *kind == verdict_kind::hack ||
                            *kind == verdict_kind::timeout;
  if (needs_reason && result.reason.empty())
    return refuse_verdict("verdict: '{}' needs 'kind', its reason", name);
  return {};
}

/// Sets `object[key]` unless the text is empty.
void put(json& object, const char* key, const std::string& text) {
  if (!text.empty()) object[key] = text;
}

json work_json(const work_report& work) {
  json result = json::object();
  for (const auto& [name, member] : work_numbers)
    result[name] = work.*member;
  for (const auto& l : work.launches) {
    json one = {{"kernel", l.kernel}};
    for (const auto& [name, member] : launch_numbers)
      one[name] = l.*member;
    result["launches"].push_back(std::move(one));
  }
  return result;
}

json timing_json(const timing& time) {
  json result = {{"ref_ns", time.ref_ns},
                 {"cand_ns", time.cand_ns},
                 {"log_ratio_e9", time.log_ratio_e9},
                 {"windows", time.windows}};
  if (time.device_ns) result["device_ns"] = *time.device_ns;
  return result;
}

json look_json(const device_look& look) {
  json result = {{"when", look.after ? "after" : "before"}};
  const auto put_number = [&](const char* key, const std::optional<std::int64_t>& value) {
    if (value) result[key] = *value;
  };
  put_number("sm_mhz", look.sm_mhz);
  put_number("memory_mhz", look.memory_mhz);
  put_number("power_mw", look.power_mw);
  put_number("temperature_c", look.temperature_c);
  put_number("others", look.others);
  if (!look.throttle.empty()) result["throttle"] = look.throttle;
  return result;
}

json device_json(const device_conditions& device) {
  json result = {{"bus_id", device.bus_id}, {"throttled", device.throttled}};
  if (device.shared) result["shared"] = *device.shared;
  for (const device_look& look : device.looks)
    result["looks"].push_back(look_json(look));
  if (device.baseline_sm_mhz > 0 || device.candidate_sm_mhz > 0)
    result["windows_sm_mhz"] = {device.baseline_sm_mhz, device.candidate_sm_mhz};
  if (device.baseline_memory_mhz > 0 || device.candidate_memory_mhz > 0)
    result["windows_memory_mhz"] = {device.baseline_memory_mhz, device.candidate_memory_mhz};
  return result;
}

}  // namespace

json to_json(const verdict& what) {
  json result = {
      {"quern_verdict", verdict_version}, {"verdict", name_of(what.kind)}, {"cached", what.cached}};
  put(result, "kind", what.reason);
  put(result, "detail", what.detail);
  put(result, "task", what.task);
  put(result, "source", what.source);
  put(result, "protocol", what.protocol);
  if (what.baseline)
    result["baseline"] = {{"name", what.baseline->name}, {"settings", what.baseline->settings}};
  put(result, "device_class", what.device_class);
  put(result, "env", what.env);
  if (what.confirmed) result["confirmed"] = *what.confirmed;
  if (!what.sandbox.empty()) result["sandbox"] = what.sandbox;
  if (!what.checks.empty()) {
    json checks = json::array();
    for (const check_result& check : what.checks) {
      checks.push_back({{"name", check.name}, {"pass", check.pass}, {"detail", check.detail}});
    }
    result["checks"] = std::move(checks);
  }
  if (what.first_diff) {
    result["first_diff"] = {{"output", what.first_diff->output},
                            {"index", what.first_diff->index},
                            {"got", what.first_diff->got},
                            {"want", what.first_diff->want}};
  }
  if (what.time) result["time"] = timing_json(*what.time);
  if (what.speedup_e2) result["speedup_e2"] = *what.speedup_e2;
  if (what.claim_e2) result["claim_e2"] = *what.claim_e2;
  if (what.compiler) {
    result["compiler"] = {
        {"argv", what.compiler->argv}, {"ms", what.compiler->ms}, {"text", what.compiler->text}};
  }
  if (what.device) result["device"] = device_json(*what.device);
  if (what.work) result["work"] = work_json(*what.work);
  if (what.evidence) result["evidence"] = to_json(*what.evidence);
  return result;
}

base::expected<verdict> verdict_from_json(const json& value) {
  if (!value.is_object())
    return refuse_verdict("a verdict must be a JSON object, found {}", value.type_name());
  QUERN_TRY(const std::int64_t version, base::get<std::int64_t>(value, "quern_verdict"));
  if (version != verdict_version) {
    return base::fail(
        base::errc::version, "the verdict has quern_verdict {}, this program reads version {}: {}",
        version, verdict_version,
        version > verdict_version ? "use a newer Quern" : "evaluate the candidate again");
  }
  verdict result;
  QUERN_CHECK(read_kind(value, result));
  QUERN_TRY(result.detail, text_of(value, "detail"));
  QUERN_TRY(result.task, text_of(value, "task"));
  QUERN_TRY(result.source, text_of(value, "source"));
  QUERN_TRY(result.protocol, text_of(value, "protocol"));
  QUERN_TRY(result.device_class, text_of(value, "device_class"));
  QUERN_TRY(result.env, text_of(value, "env"));
  if (value.contains("baseline")) {
    QUERN_TRY(const json* found, object_at(value, "baseline"));
    baseline_report baseline;
    QUERN_TRY(baseline.name, text_of(*found, "name"));
    QUERN_TRY(baseline.settings, text_of(*found, "settings"));
    result.baseline = std::move(baseline);
  }
  if (value.contains("confirmed")) {
    QUERN_TRY(result.confirmed, base::get<bool>(value, "confirmed"));
  }
  if (value.contains("cached")) {
    QUERN_TRY(result.cached, base::get<bool>(value, "cached"));
  }
  if (value.contains("speedup_e2")) {
    QUERN_TRY(result.speedup_e2, integer_of(value, "speedup_e2", 0));
  }
  QUERN_CHECK(read_optional(value, "claim_e2", result.claim_e2));
  QUERN_CHECK(read_findings(value, result));
  if (result.kind == verdict_kind::ok && result.time && !result.speedup_e2) {
    return refuse_verdict("verdict: ok with 'time' needs 'speedup_e2'");
  }
  return result;
}

base::expected<verdict> parse_verdict(std::string_view text) {
  QUERN_TRY(const json value, base::parse_json(text));
  return verdict_from_json(value);
}

}  // namespace quern::env
