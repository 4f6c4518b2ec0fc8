#include "tools/benchmarks/bench_gpu_judge.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>

namespace quern::tools {
namespace {

constexpr int most_tries = 3;
/// A claim that is more than the twin's is measured so often again, the twin beside it each time.
/// As host code the claims of one honest kernel lie up to a quarter apart on a busy host: noise
/// counts against a kernel, so that its claims are low at times. With one more pair some of a
/// hundred files look like a gain by chance; what pays does so each time.
constexpr int most_pairs_again = 3;

std::optional<std::int64_t> claim_of_twin(env::cuda_evaluator& with, candidate_file f, bool anew) {
  for (int i = 0; i < most_tries; ++i) {
    f.request.recheck = anew || i > 0;
    const auto v = with.evaluate(f.request);
    if (v.kind == env::verdict_kind::ok && v.speedup_e2) return v.speedup_e2;
    std::printf("** twin %s (%s): %s %s\n", f.file.c_str(), f.form.c_str(),
                short_verdict(v).c_str(), v.detail.substr(0, 300).c_str());
  }
  return std::nullopt;
}

bool says_nothing(const env::verdict& v) {
  return v.kind == env::verdict_kind::noisy || v.kind == env::verdict_kind::unconfirmed ||
         v.kind == env::verdict_kind::infra_error;
}

}  // namespace

std::pair<std::string, bool> twin_speeds::key_of(const candidate_file& f) {
  return {f.twin, f.form != "device_only"};
}

twin_speeds::twin_speeds(env::cuda_evaluator& with, const gpu_bench_options& o,
                         const std::vector<candidate_file>& list) {
  gpu_bench_options all = o;
  all.only = all.form = "";
  const auto files = hostile_files(all);
  for (const auto& f : list) {
    if (f.twin.empty() || twins_.contains(key_of(f))) continue;
    const auto at = std::find_if(files.begin(), files.end(),
                                 [&](const candidate_file& one) { return one.file == f.twin; });
    if (at == files.end()) continue;
    twin one{*at, std::nullopt};
    one.file.request.as_host_entry = key_of(f).second;
    one.file.form = key_of(f).second ? "as_host" : "device_only";
    one.speedup_e2 = claim_of_twin(with, one.file, false);
    std::printf("   twin %s (%s): x%.2f\n", f.twin.c_str(), one.file.form.c_str(),
                static_cast<double>(one.speedup_e2.value_or(0)) / 100);
    twins_.emplace(key_of(f), std::move(one));
  }
}

std::optional<std::int64_t> twin_speeds::of(const candidate_file& f) const {
  const auto at = twins_.find(key_of(f));
  return f.twin.empty() || at == twins_.end() ? std::nullopt : at->second.speedup_e2;
}

std::optional<std::int64_t> twin_speeds::again(env::cuda_evaluator& with,
                                               const candidate_file& f) const {
  const auto at = twins_.find(key_of(f));
  if (f.twin.empty() || at == twins_.end()) return std::nullopt;
  return claim_of_twin(with, at->second.file, true);
}

judged_file judge_file(env::cuda_evaluator& with, const candidate_file& f,
                       const env::evaluation_request& request, const twin_speeds& twins) {
  const hostile_rule rule{f.right, f.legal, f.pays_at_most_e2};
  judged_file j;
  j.twin_e2 = twins.of(f);
  auto asked = request;
  const auto judge = [&] {
    for (j.tries = 1;; ++j.tries) {
      j.judged = with.evaluate(asked);
      j.outcome = outcome_of(j.judged, rule, j.twin_e2);
      asked.recheck = true;
      if (j.tries == most_tries || !says_nothing(j.judged) ||
          j.outcome != hostile_outcome::undecided)
        return;
    }
  };
  judge();
  const auto claims_more = [&] {
    return j.outcome == hostile_outcome::accepted && is_right(j.judged, f.right);
  };
  for (int pair = 0; pair < most_pairs_again && claims_more(); ++pair) {
    const auto before = j.judged.speedup_e2.value_or(0);
    j.twin_e2 = twins.again(with, f);
    judge();
    std::printf("   %s claimed x%.2f, which is more than its twin; again: x%.2f, twin x%.2f\n",
                f.file.c_str(), static_cast<double>(before) / 100,
                static_cast<double>(j.judged.speedup_e2.value_or(0)) / 100,
                static_cast<double>(j.twin_e2.value_or(0)) / 100);
  }
  return j;
}

std::string times_text(const judged_file& j) {
  const auto& v = j.judged;
  if (!v.time || v.time->ref_ns.empty()) return "";
  std::string text = fmt::format("  ref {:.1f} us, cand {:.1f} us, x{:.2f}",
                                 static_cast<double>(v.time->ref_ns[3]) / 1000,
                                 static_cast<double>(v.time->cand_ns[3]) / 1000,
                                 static_cast<double>(v.speedup_e2.value_or(0)) / 100);
  // For who looks for false alarms: what the second clock said.
  static const bool clocks = std::getenv("QUERN_BENCH_CLOCKS") != nullptr;
  for (const auto& check : v.checks)
    if (clocks && check.name == "clocks") text += "\n        " + check.detail + "\n        ";
  if (j.twin_e2) text += fmt::format(" (twin x{:.2f})", static_cast<double>(*j.twin_e2) / 100);
  return text;
}

}  // namespace quern::tools
