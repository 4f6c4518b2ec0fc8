#include "env/judge/staged_judge.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/log.hpp"
#include "base/thread_deadline.hpp"
#include "env/judge/cost_model.hpp"

namespace quern::env {
namespace {

/// The verdict of an evaluation that its limit has ended.
void cut_off(verdict& v, double limit_s) {
  const bool late = v.kind == verdict_kind::timeout;
  std::string at = late ? fmt::format("; {}: {}", v.reason, v.detail) : std::string();
  // What was not built by then is told apart in figures.
  if (!late || v.reason != "compile") v.reason = whole_evaluation;
  v.kind = verdict_kind::timeout;
  v.detail =
      fmt::format("the whole evaluation took longer than its limit of {:g} s{}", limit_s, at);
  v.detail.resize(std::min(v.detail.size(), max_verdict_text));
  v.speedup_e2.reset();
  v.claim_e2.reset();
  v.confirmed.reset();
  v.first_diff.reset();
}

}  // namespace

base::expected<measure_name> staged_judge::admit(const evaluation_request& request, verdict& v) {
  const task& subject = *request.subject;
  if (subject.lane != &lane())
    return base::fail(base::errc::invalid_argument,
                      "task {} is of lane {}; this evaluator has lane {}", subject.name,
                      subject.lane->name, lane().name);
  QUERN_TRY(measure_name how, parse_measure_name(request.protocol));
  QUERN_CHECK(check_protocol(lane(), options_.on_gpu, how.protocol));
  QUERN_CHECK(check_baseline(subject, options_.on_gpu, how.baseline));
  if (how.baseline == baseline_choice::of_task) how.baseline = own_baseline(subject);
  if (!is_measured(request, how)) return how;
  QUERN_TRY(baseline_terms terms, terms_of(how.baseline));
  v.env = std::move(terms.environment);
  v.baseline = baseline_report{std::string(name_of(how.baseline)), std::move(terms.settings)};
  return how;
}

verdict_key staged_judge::key_of(const evaluation_request& request, const verdict& head) const {
  verdict_key key{head.task, head.source, head.protocol, head.device_class, head.env};
  if (request.verify_only) key.protocol += "+verify";
  key.protocol += key_suffix(request);
  if (!options_.static_screen) key.protocol += "+unscreened";
  return key;
}

verdict staged_judge::evaluate(const evaluation_request& request) {
  std::optional<base::thread_deadline> limit(std::in_place, request.time_limit_s);
  verdict v;
  v.task = task_id(*request.subject);
  v.source = base::to_hex(lane().identity(request.source));
  v.protocol = request.protocol;
  v.device_class = device_class();
  v.env = environment();
  ++seconds_.evaluations;
  const auto how = admit(request, v);
  if (!how) {
    v.detail = how.error().message;
    return v;
  }
  const verdict_key key = key_of(request, v);
  const verdict head = v;
  const double again = options_.remeasure_probability;
  auto one = begin(request, *how, v);
  if (one->recall(cache_, key, again)) {
    ++seconds_.cache_hits;
    return v;
  }
  repeated_evaluations once_more;
  for (one->run(); !base::thread_deadline::is_over() && once_more.allow(one->interrupted());
       one->run()) {
    base::log_warn("evaluator", "an evaluation was interrupted ({}): once more", v.detail);
    if (one->interrupted() == interruption::reference_lost) renew_reference();
    // What it holds of the device goes before the next one takes it.
    one.reset();
    v = head;
    one = begin(request, *how, v);
    // Drawn by the request: what was to be measured again still is.
    (void)one->recall(cache_, key, again);
  }
  if (v.kind == verdict_kind::ok && !request.verify_only && how->protocol == protocol_cost_model)
    v.speedup_e2 = cost_model_e2(v.task, request.source);
  const bool cut = base::thread_deadline::is_over();
  // What follows is about the device.
  limit.reset();
  if (one->used_device()) look_after(v, one->cause());
  // A device in trouble may be why the time was not enough: then nothing is known of the candidate.
  const bool device_failed = v.kind == verdict_kind::infra_error && trouble().has_value();
  if (cut && !device_failed) cut_off(v, request.time_limit_s);
  one->keep(cache_, key);
  if (cut) {
    // It may still be at a question whose answer nobody waited for.
    one.reset();
    renew_reference();
  }
  return v;
}

base::expected<std::string> staged_judge::environment_for(const std::string& protocol) {
  QUERN_TRY(const measure_name how, parse_measure_name(protocol));
  // A task's own baseline adds nothing to the environment of the host.
  if (how.baseline == baseline_choice::of_task) return environment();
  QUERN_TRY(baseline_terms terms, terms_of(how.baseline));
  return std::move(terms.environment);
}

}  // namespace quern::env
