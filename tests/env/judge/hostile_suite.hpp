// The hostile candidates of tests/hostile/cpp, as their manifest describes them, and how one is
// judged.
#pragma once

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>

#include "base/file.hpp"
#include "base/json.hpp"
#include "env/lanes/cpp/cpp_evaluator.hpp"
#include "env/task/task_codec.hpp"
#include "support/test.hpp"

namespace quern::test::hostile {

using namespace quern::env;

inline const std::filesystem::path folder = source_dir() / "tests/hostile/cpp";

/// How often a `noisy` candidate is judged: a busy machine is no outcome.
inline constexpr int most_judgements = 9;

/// The suite is about what is let through, not about how precisely it is timed: a busy machine must
/// not turn an honest kernel into `noisy`. The widest limit that an evaluator takes.
inline constexpr double widest_noise_limit = 0.5;

/// Artefacts of all evaluators of this process: none compiles what another one has compiled.
inline const std::filesystem::path& artefacts() {
  static const auto made = base::temp_folder::make("quern-hostile-cache").value();
  return made.path();
}

/// `candidate`: one of the manifest, which may name other limits.
inline std::unique_ptr<cpp_evaluator> open(bool screen, bool locked = true,
                                           const base::json& candidate = base::json::object()) {
  cpp_evaluator_options o;
  o.runner_program = program_dir() / (locked ? "quern-runner" : "quern-runner-unlocked");
  o.reference_program = program_dir() / "quern-torch";
  o.cache_dir = artefacts();
  o.sandbox_required = false;
  o.static_screen = screen;
  o.call_cpu_s = candidate.value("call_cpu_s", 1.0);
  o.time_budget_s = candidate.value("budget_s", 0.1);
  o.noise_limit = candidate.value("noise_limit", widest_noise_limit);
  return cpp_evaluator::open(o).value();
}

inline base::json manifest() {
  return base::parse_json(base::read_file(folder / "manifest.json").value()).value();
}

/// What the manifest, or a candidate of it, names as its task.
inline std::shared_ptr<const task> subject(const base::json& entry) {
  return std::make_shared<const task>(load_task(folder / entry["task"].get<std::string>()).value());
}

/// Whether a candidate names limits, so that it needs an evaluator of its own.
inline bool has_limits(const base::json& candidate) {
  return candidate.contains("call_cpu_s") || candidate.contains("budget_s") ||
         candidate.contains("noise_limit");
}

/// Whether what a candidate gains is no verdict but a claim.
inline bool gains_speed(const base::json& candidate) {
  return candidate.contains("pays_at_most_e2");
}

/// Whether this machine has the architecture whose system calls a candidate names.
inline bool for_this_machine(const base::json& candidate) {
  if (!candidate.contains("only")) return true;
#if defined(__x86_64__)
  return candidate["only"] == "x86_64";
#else
  return false;
#endif
}

inline evaluation_request request_for(std::shared_ptr<const task> subject, const std::string& file,
                                      bool verify_only) {
  evaluation_request r;
  r.subject = std::move(subject);
  r.source = base::read_file(folder / file).value();
  r.verify_only = verify_only;
  r.recheck = true;  // never from the cache: the next one has to run
  return r;
}

/// The verdict, or the last one of most_judgements that were `noisy`.
inline verdict judge(cpp_evaluator& judging, const evaluation_request& request) {
  auto v = judging.evaluate(request);
  for (int i = 1; i < most_judgements && v.kind == verdict_kind::noisy; ++i)
    v = judging.evaluate(request);
  return v;
}

/// `right`: one outcome of the manifest, "kind" or "kind:reason", or several.
inline bool is_right(const verdict& v, const base::json& right) {
  const std::string kind(name_of(v.kind));
  const auto is = [&](const base::json& outcome) {
    return outcome == kind || outcome == kind + ":" + v.reason;
  };
  return right.is_array() ? std::any_of(right.begin(), right.end(), is) : is(right);
}

}  // namespace quern::test::hostile
