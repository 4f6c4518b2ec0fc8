// A verdict for a person.
#include "env/judge/explain.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/ranges.h>

#include "base/text.hpp"
#include "env/judge/claim_words.hpp"
#include "env/judge/compare.hpp"
#include "env/judge/evaluation_request.hpp"
#include "env/judge/roofline.hpp"
#include "env/judge/runner_end.hpp"
#include "env/measure/stats.hpp"
#include "env/verdict/baseline.hpp"

namespace quern::env {
namespace {

double median_ns(const std::vector<std::int64_t>& buckets) {
  return median_of(std::vector<double>(buckets.begin(), buckets.end()));
}

std::string speed_text(std::int64_t e2) {
  return fmt::format("{}.{:02}x", e2 / 100, e2 % 100);
}

/// The detail of a wrong value begins with what `first_diff` says: said once.
std::string wrong_text(const verdict& v) {
  if (!v.first_diff) return {};
  const std::string wrong = describe(*v.first_diff);
  return fmt::format("wrong     {}\n", v.detail.starts_with(wrong) ? v.detail : wrong);
}

std::string because_text(const verdict& v) {
  const bool said = (v.first_diff && v.detail.starts_with(describe(*v.first_diff))) ||
                    (v.compiler && v.compiler->text.find(v.detail) != std::string::npos);
  if (v.detail.empty() || said) return {};
  // Some of it may be a candidate's: no line of it stands where a verdict could.
  std::string detail;
  for (const char c : v.detail) {
    detail += c;
    if (c == '\n') detail += "          ";
  }
  return fmt::format("because   {}\n", detail);
}

/// Checks that were made again, before and after the times, stand there once.
std::string checks_text(const verdict& v) {
  std::string text;
  for (auto at = v.checks.begin(); at != v.checks.end(); ++at) {
    if (std::find(v.checks.begin(), at, *at) != at) continue;
    const auto times = std::count(at, v.checks.end(), *at);
    text += fmt::format("  {}  {}{}{}\n", at->pass ? "pass" : "FAIL", at->name,
                        at->detail.empty() ? "" : ": " + at->detail,
                        times > 1 ? fmt::format(" ({} times)", times) : "");
  }
  return text;
}

std::string_view over_text(const verdict& v, const task& what) {
  const auto named = v.baseline ? parse_baseline(v.baseline->name) : std::nullopt;
  switch (named.value_or(own_baseline(what))) {
    case baseline_choice::graph:
      return "reference (ATen under a CUDA graph)";
    case baseline_choice::compile:
      return "reference (torch.compile)";
    case baseline_choice::reduce_overhead:
      return "reference (torch.compile, reduce-overhead)";
    case baseline_choice::max_autotune:
      return "reference (torch.compile, max-autotune)";
    case baseline_choice::plain:
      return "plain baseline";
    default:
      return "reference (ATen)";
  }
}

std::string times_text(const verdict& v, const task& what) {
  if (!v.time || v.time->log_ratio_e9.size() != 3) return {};
  const auto ratio = [&](std::size_t i) {
    return std::exp(static_cast<double>(v.time->log_ratio_e9[i]) * 1e-9);
  };
  return fmt::format(
      "time      {} a call, {} {}: {:.3f}x, 95 % interval {:.3f} to {:.3f} ({} window pairs)\n",
      base::human_duration(std::llround(median_ns(v.time->cand_ns))), over_text(v, what),
      base::human_duration(std::llround(median_ns(v.time->ref_ns))), ratio(1), ratio(0), ratio(2),
      v.time->windows);
}

std::string device_text(const device_conditions& d) {
  std::string text =
      fmt::format("\ndevice {}, {}, {}\n", d.bus_id, d.throttled ? "THROTTLED" : "not throttled",
                  !d.shared   ? "shared: not known"
                  : *d.shared ? "SHARED with others"
                              : "not shared");
  for (const device_look& look : d.looks) {
    std::vector<std::string> parts;
    const auto add = [&](const std::optional<std::int64_t>& value, const char* format) {
      if (value) parts.push_back(fmt::format(fmt::runtime(format), *value));
    };
    add(look.sm_mhz, "sm {} MHz");
    add(look.memory_mhz, "memory {} MHz");
    if (look.power_mw) parts.push_back(fmt::format("{} W", (*look.power_mw + 500) / 1000));
    add(look.temperature_c, "{} C");
    if (!look.throttle.empty())
      parts.push_back(fmt::format("clocks held by {}", fmt::join(look.throttle, "+")));
    add(look.others, "{} processes of others");
    text += fmt::format("  {}  {}\n", look.after ? "after " : "before", fmt::join(parts, ", "));
  }
  if (d.baseline_sm_mhz > 0)
    text += fmt::format(
        "  windows of the baseline at {} MHz (memory {}), the candidate's at {} "
        "(memory {})\n",
        d.baseline_sm_mhz, d.baseline_memory_mhz, d.candidate_sm_mhz, d.candidate_memory_mhz);
  return text;
}

}  // namespace

std::string_view advice_on_ended_kernel(const verdict& v) {
  if (v.kind != verdict_kind::runtime_error) return {};
  if (v.reason == end_reason::closed_channel)
    return "close no file descriptor: the process has only those that it needs, and answers over "
           "one of them";
  if (v.reason == end_reason::ended)
    return "return from the kernel: neither it nor what it calls may end the process (exit, abort)";
  if (v.reason == end_reason::forbidden_call)
    return "make no system calls: a kernel computes and returns, and the sandbox ends a process "
           "that asks the system for more";
  return {};
}

std::string advice_for(const verdict& v, const task& what) {
  switch (v.kind) {
    case verdict_kind::ok:
      if (v.confirmed && !*v.confirmed)
        return "judge it again: the second measurement that a claim of this size needs was missing "
               "or too noisy";
      if (!v.speedup_e2) return "it computes the right thing; measure it to see how fast";
      return *v.speedup_e2 > 100 ? "nothing: it is right and faster than the baseline"
                                 : "it is right but not faster than the baseline: look at memory "
                                   "traffic first, then at vectorisation";
    case verdict_kind::compile_error:
      // No compiler said it: the lane knows what did.
      if (!v.compiler) return what.lane->advice(v, what);
      return fmt::format("fix the first error; the entry must be exactly: {}",
                         what.lane->entry(what));
    case verdict_kind::timeout:
      if (v.reason == whole_evaluation)
        return "give the evaluation more time (--timeout), or make what takes it faster: the "
               "candidate's build, its calls, or the sizes of the task";
      if (v.reason == "compile")
        return "make the build shorter: fewer templates, headers and generated cases; or give the "
               "evaluator more time, where --timeout limits it";
      if (v.reason == "time")
        return "it was right while it was checked, and too slow or without an end under the clock: "
               "look for work that grows from call to call, and for waits; where it is only slow, "
               "give the measurement more seconds (--budget-s)";
      return "look for a loop that does not end at small or odd sizes";
    case verdict_kind::wrong_value:
      return "compute the first wrong element by hand; tails, row ends and large magnitudes are "
             "the usual places";
    case verdict_kind::wrong_shape:
    case verdict_kind::wrong_dtype:
      return "return exactly the shapes and types that the task lists for its outputs";
    case verdict_kind::nondeterministic:
      return "initialise everything that is read: outputs and workspace hold garbage before the "
             "call";
    case verdict_kind::hack:
      return "the result was not earned by computing it: compute every output from this call's "
             "inputs, inside the call and inside the bounds";
    case verdict_kind::rejected_static:
    case verdict_kind::runtime_error:
    case verdict_kind::oom:
    case verdict_kind::noisy:
      return what.lane->advice(v, what);
    case verdict_kind::unconfirmed:
      return "the first measurement was luck or interference: try again";
    case verdict_kind::invalid_reference:
      return "the task itself is broken, not the candidate: run `quern tasks check`";
    case verdict_kind::infra_error:
      return "this host failed, not the candidate: run `quern doctor`";
    case verdict_kind::unsupported:
      return "no host of this device class can run it: judge it where what it needs is installed";
    default:
      return "see the detail";
  }
}

std::string outcome_line(const verdict& v) {
  std::string text(name_of(v.kind));
  if (v.speedup_e2) text += " " + speed_text(*v.speedup_e2);
  if (!v.reason.empty()) text += fmt::format(" ({})", v.reason);
  std::string_view why = v.detail;
  // A compiler's first line says where it was; the first error says what is wrong.
  if (v.kind == verdict_kind::compile_error && v.compiler)
    for (const std::string_view line : base::split(v.compiler->text, '\n'))
      if (line.find("error") != line.npos) {
        why = line;
        break;
      }
  const std::string wrong = v.first_diff ? describe(*v.first_diff) : std::string();
  if (v.first_diff && !v.detail.starts_with(wrong)) why = wrong;
  why = why.substr(0, why.find('\n'));
  return why.empty() ? text : fmt::format("{}: {}", text, why);
}

std::string describe_verdict(const verdict& v, const task& what) {
  std::string text =
      fmt::format("{}{}{}", name_of(v.kind), v.reason.empty() ? "" : fmt::format(" ({})", v.reason),
                  v.speedup_e2 ? " " + speed_text(*v.speedup_e2) : "");
  if (v.confirmed && !*v.confirmed) text += " (unconfirmed)";
  if (v.cached) text += " (cached)";
  text += fmt::format("   {}\n", what.name);
  text += wrong_text(v) + because_text(v);
  if (v.kind == verdict_kind::compile_error && v.compiler)
    text += v.compiler->text + (v.compiler->text.ends_with('\n') ? "" : "\n");
  text += times_text(v, what);
  if (const std::string words = claim_words(v); !words.empty())
    text += fmt::format("claim     {}: {}\n", speed_text(*v.speedup_e2), words);
  text += fmt::format("to do     {}\n", advice_for(v, what));
  return text;
}

std::string explain_verdict(const verdict& v, const task& what) {
  std::string text = describe_verdict(v, what);
  text += "\nchecks\n" + checks_text(v);
  if (v.time) {
    text += "\nbuckets, ns a call (consecutive in time)\n";
    text += fmt::format("  baseline   {}\n  candidate  {}\n", fmt::join(v.time->ref_ns, " "),
                        fmt::join(v.time->cand_ns, " "));
  }
  text += roofline_text(v);
  if (v.evidence) text += evidence_text(*v.evidence);
  if (v.device) text += device_text(*v.device);
  if (v.compiler) {
    text +=
        fmt::format("\ncompiler, {} ms\n  {}\n", v.compiler->ms, fmt::join(v.compiler->argv, " "));
    if (!v.compiler->text.empty() && v.kind != verdict_kind::compile_error)
      text += v.compiler->text + "\n";
  }
  text += fmt::format(
      "\ntask          {}\nsource        {}\nprotocol      {}\nbaseline      {}\ndevice class  "
      "{}\nenvironment   "
      "{}\nsandbox       {}\n",
      v.task, v.source, v.protocol,
      v.baseline ? fmt::format("{} ({})", v.baseline->name, v.baseline->settings) : "none",
      v.device_class, v.env, fmt::join(v.sandbox, " "));
  text += fmt::format("tolerance     |got - want| <= {:g} + {:g} |want|\n", what.tolerance.atol,
                      what.tolerance.rtol);
  return text;
}

}  // namespace quern::env
