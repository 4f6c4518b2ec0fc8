#include "tools/cli/measure_options.hpp"

#include <algorithm>
#include <string_view>

#include "base/text.hpp"
#include "tools/cli/lane_words.hpp"
#include "tools/cli/parse.hpp"

namespace quern::tools {

void add_measure_options(CLI::App& app, measure_options& options) {
  app.add_option("--protocol", options.protocol,
                 "how to measure. " + lane_protocols() + "; cost_model/1: by a formula, no time")
      ->capture_default_str();
  app.add_option("--baseline", options.baseline,
                 "what speed-up is over: task (what its file says) | eager | graph | compile | "
                 "plain | reduce-overhead | max-autotune; default: the suite's");
}

void add_timeout_option(CLI::App& app, double& seconds) {
  app.add_option("--timeout", seconds,
                 "seconds that a whole evaluation may take, its build included; then it is a "
                 "timeout. Default: the limits of its stages alone")
      ->check(number_within(0.1, 86400));
}

void add_policy_options(CLI::App& app, measure_options& options) {
  app.add_option(
      "--allow", options.allow,
      "switches of the suite's policy to turn on: library_calls, lower_precision, graphs, "
      "host_entry, by_evidence");
  app.add_option("--forbid", options.forbid, "the same, to turn off");
}

base::expected<env::measure_name> measure_of(const measure_options& options,
                                             env::baseline_choice of_suite, const env::lane& lane,
                                             bool on_gpu) {
  std::string whole = options.protocol;
  if (!options.baseline.empty() && whole.find('@') != std::string::npos)
    return base::fail(base::errc::invalid_argument,
                      "--protocol {} names a baseline and --baseline {} another time: say it once",
                      whole, options.baseline);
  if (!options.baseline.empty()) whole += "@" + options.baseline;
  auto name = env::parse_measure_name(whole);
  if (!name) return base::fail(base::errc::invalid_argument, "{}", name.error().message);
  if (options.baseline.empty() && name->baseline == env::baseline_choice::of_task &&
      name->protocol != env::protocol_cost_model)
    name->baseline = of_suite;
  if (auto known = env::check_protocol(lane, on_gpu, name->protocol); !known)
    return base::in_context("--protocol", std::move(known).error());
  return name;
}

base::status check_baseline(const env::measure_name& measured, const env::task& what, bool on_gpu) {
  auto fits = env::check_baseline(what, on_gpu, measured.baseline);
  return fits ? fits : base::in_context("the baseline", std::move(fits).error());
}

base::expected<env::suite_policy> policy_of(const measure_options& options,
                                            const env::suite_policy& of_suite) {
  const auto forbidden = base::split(options.forbid, ',');
  for (const std::string_view one : base::split(options.allow, ','))
    if (!one.empty() && std::find(forbidden.begin(), forbidden.end(), one) != forbidden.end())
      return base::fail(base::errc::invalid_argument,
                        "'{}' is both in --allow and in --forbid: leave it out of one", one);
  QUERN_TRY(const auto more, env::with_switches(of_suite, options.allow, true));
  return env::with_switches(more, options.forbid, false);
}

}  // namespace quern::tools
