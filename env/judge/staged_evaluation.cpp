// What the evaluations of all lanes have in common.
#include "env/judge/staged_evaluation.hpp"

#include <utility>

namespace quern::env {
namespace {

std::string cut_text(std::string text) {
  constexpr std::size_t limit = 16 * 1024;
  if (text.size() > limit) text.resize(limit);
  return text;
}

}  // namespace

bool repeated_evaluations::allow(interruption why) {
  if (why == interruption::none) return false;
  return !std::exchange(used_[static_cast<std::size_t>(why)], true);
}

bool is_measured(const evaluation_request& request, const measure_name& how) {
  return !request.verify_only && how.protocol != protocol_cost_model;
}

bool staged_evaluation::recall(verdict_cache& cache, const verdict_key& key, double p) {
  if (const auto* known = cache.find(key)) {
    if (!request_.recheck && !measure_again(known->kept_verdict, key, request_.seed, p)) {
      verdict_ = known->kept_verdict;
      verdict_.cached = true;
      return true;
    }
    runs_ = known->runs;
    claim_e2_ = known->claim_e2;
  }
  if (request_.recheck && request_.claim_e2 > 0) claim_e2_ = request_.claim_e2;
  return false;
}

void staged_evaluation::keep(verdict_cache& cache, const verdict_key& key) {
  cache.store(key, {verdict_, std::move(runs_), claim_e2_});
}

bool staged_evaluation::settle(const finding& found) {
  const finding f = qualified(found);
  verdict_.kind = f.kind;
  verdict_.reason = f.reason;
  verdict_.detail = cut_text(f.detail);
  if (f.first_diff) verdict_.first_diff = f.first_diff;
  cause_ = f.cause;
  doubtful_ = f.doubtful;
  return f.ok();
}

void staged_evaluation::begin_checks_again() {
  (void)settle({});
  verdict_.first_diff.reset();
  verdict_.checks.clear();
}

bool staged_evaluation::fail_host(const base::error& e) {
  doubtful_ = false;
  verdict_.kind = e.code == base::errc::invalid_argument ? verdict_kind::invalid_reference
                                                         : verdict_kind::infra_error;
  verdict_.detail = cut_text(e.message);
  return false;
}

bool staged_evaluation::settle_screen(const std::optional<screen_finding>& broken) {
  verdict_.checks.push_back({"static screen", !broken, broken ? broken->text : ""});
  if (!broken) return true;
  return settle({verdict_kind::rejected_static, std::string(name_of(broken->rule)),
                 fmt::format("line {}: {}", broken->line, broken->text), std::nullopt});
}

void staged_evaluation::note_compiler(const compile_result& built) {
  compiler_report report;
  report.argv = built.argv;
  report.ms = built.ms;
  report.text = cut_text(built.text);
  verdict_.compiler = std::move(report);
}

}  // namespace quern::env
