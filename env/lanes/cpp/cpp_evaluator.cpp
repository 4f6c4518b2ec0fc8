// The evaluator: opening it, its cache, and what it tells about itself.
#include "env/lanes/cpp/cpp_evaluator.hpp"

#include <sys/random.h>

#include "base/json.hpp"
#include "base/log.hpp"
#include "base/program.hpp"
#include "env/judge/cost_model.hpp"
#include "env/judge/machine.hpp"
#include "env/lanes/cpp/cpp_state.hpp"
#include "env/lanes/cpp/screen/cpp_screen.hpp"
#include "env/screen/canonical.hpp"

namespace quern::env {

namespace {

/// A self-test takes a second, and what ails a core's host is over sooner than what ails a GPU: a
/// folder that was full, memory that was short.
constexpr device_quarantine::limits core_quarantine{.first_pause = 5'000'000'000,
                                                    .longest_pause = 300'000'000'000};

std::string cpu_baseline_settings(baseline_choice baseline) {
  return baseline == baseline_choice::plain ? "compiled as a candidate is" : "ATen on one core";
}

}  // namespace

cpp_evaluator::cpp_evaluator(std::unique_ptr<state> s) : state_(std::move(s)) {}
cpp_evaluator::~cpp_evaluator() = default;

base::expected<std::unique_ptr<cpp_evaluator>> cpp_evaluator::open(cpp_evaluator_options options) {
  auto s = std::make_unique<state>();
  if (options.runner_program.empty()) {
    QUERN_TRY(options.runner_program, base::sibling_program("quern-runner"));
  }
  if (options.reference_program.empty()) {
    QUERN_TRY(options.reference_program, base::sibling_program("quern-torch"));
  }
  if (options.time_budget_s <= 0 || options.call_cpu_s <= 0)
    return base::fail(base::errc::invalid_argument,
                      "time_budget_s {} and call_cpu_s {} must be positive", options.time_budget_s,
                      options.call_cpu_s);
  if (!(options.precision > 0 && options.precision <= 0.06))
    return base::fail(base::errc::invalid_argument, "precision {} is not within (0, 0.06]",
                      options.precision);
  if (!(options.noise_limit >= options.precision && options.noise_limit <= 0.5))
    return base::fail(base::errc::invalid_argument,
                      "noise_limit {} is not between the precision {} and 0.5", options.noise_limit,
                      options.precision);
  if (!options.input_seed) {
    std::uint64_t secret = 0;
    if (getrandom(&secret, sizeof secret, 0) != static_cast<ssize_t>(sizeof secret))
      return base::fail_errno("getrandom");
    options.input_seed = secret;
  }
  const auto mode = options.sandbox_required ? sandbox_mode::required : sandbox_mode::best_effort;
  QUERN_TRY(s->core, core_choice::choose(options.core));
  QUERN_TRY(s->children, spawner::create(mode));
  cpp_compiler_options compiling;
  compiling.cache_dir = options.cache_dir;
  if (compiling.cache_dir.empty()) {
    QUERN_TRY(auto folder, base::temp_folder::make_held("quern-cc"));
    s->private_cache.emplace(std::move(folder));
    compiling.cache_dir = s->private_cache->path();
    compiling.prelude_dir = base::user_cache_folder();
  }
  s->compiling = compiling;
  s->compiling.core = core_beside(s->core.core());
  QUERN_TRY(s->cxx, cpp_compiler::create(*s->children, std::move(compiling)));
  s->device_class = cpu_device_class();
  s->environment = environment_fingerprint({base::to_hex(s->cxx->fingerprint()), base::build_id()});
  QUERN_TRY(const auto calibrated,
            null_distribution::calibrated(options.null_file, s->device_class));
  if (calibrated) {
    s->null = *calibrated;
    s->environment =
        environment_fingerprint({s->environment, base::dump(s->null.to_json(s->device_class))});
  }
  s->tasks = std::make_unique<task_shelf>(options.reference_program, mode, s->core.core(),
                                          *options.input_seed, options.expectation_cache_bytes,
                                          options.restart_reference);
  s->quarantine = device_quarantine(options.quarantine.value_or(core_quarantine));
  s->options = std::move(options);
  return std::unique_ptr<cpp_evaluator>(new cpp_evaluator(std::move(s)));
}

verdict cpp_evaluator::evaluate(const evaluation_request& request) {
  verdict v;
  v.task = task_id(*request.subject);
  v.source = base::to_hex(source_hash(request.source));
  v.protocol = request.protocol;
  v.device_class = state_->device_class;
  v.env = state_->environment;
  ++state_->seconds.evaluations;
  const auto how = parse_measure_name(request.protocol);
  if (!how || (how->protocol != protocol_paired && how->protocol != protocol_cost_model)) {
    v.detail = fmt::format("lane cpp knows the protocols {} and {}, not '{}'", protocol_paired,
                           protocol_cost_model, request.protocol);
    return v;
  }
  const baseline_choice own = own_baseline(*request.subject);
  if (how->baseline != baseline_choice::of_task && how->baseline != own) {
    v.detail = fmt::format(
        "lane cpp measures against the baseline of the task file, which is '{}' for {}, not '{}'",
        name_of(own), request.subject->name, name_of(how->baseline));
    return v;
  }
  if (how->protocol == protocol_paired && !request.verify_only)
    v.baseline = baseline_report{std::string(name_of(own)), cpu_baseline_settings(own)};
  if (request.subject->lane != &cpp_lane) {
    v.detail = fmt::format("task {} is of lane {}; this evaluator has lane cpp",
                           request.subject->name, request.subject->lane->name);
    return v;
  }
  verdict_key key{v.task, v.source, v.protocol, v.device_class, v.env};
  if (request.verify_only) key.protocol += "+verify";
  if (!state_->options.static_screen) key.protocol += "+unscreened";

  const verdict unjudged = v;
  const double again = state_->options.remeasure_probability;
  std::optional<cpp_evaluation> one(std::in_place, *state_, request, v);
  if (one->recall(state_->cache, key, again)) {
    ++state_->seconds.cache_hits;
    return v;
  }
  repeated_evaluations once_more;
  for (one->run(); once_more.allow(one->interrupted()); one->run()) {
    base::log_warn("evaluator", "an evaluation was interrupted ({}): once more", v.detail);
    if (one->interrupted() == interruption::reference_lost) state_->tasks->renew();
    v = unjudged;
    one.emplace(*state_, request, v);
    // Drawn by the request: what was to be measured again still is.
    (void)one->recall(state_->cache, key, again);
  }
  one->keep(state_->cache, key);
  if (one->used_host()) state_->look_after(v);
  return v;
}

void cpp_evaluator::warm_up() {
  (void)state_->tasks->service();
}

void cpp_evaluator::compile_ahead(const evaluation_request& request) {
  if (state_->options.static_screen && screen_cpp(request.source)) return;
  std::call_once(state_->ahead_once, [&] {
    if (auto made = cpp_compiler::create(*state_->children, state_->compiling))
      state_->ahead = std::move(*made);
  });
  if (!state_->ahead) return;
  // What goes wrong here goes wrong again, and is told, when the candidate's turn comes.
  const auto built = state_->compilations.compile(
      *state_->ahead, compile_request_for(*request.subject, request.source));
  if (!built || built->what != compile_result::kind::built) return;
  // Its baseline will be needed, too; from the second candidate of a task on it is in the cache.
  if (request.subject->baseline == baseline_kind::plain)
    (void)state_->compilations.compile(
        *state_->ahead, compile_request_for(*request.subject, request.subject->plain));
  if (auto process = start_candidate(*state_, built->artefact, candidate_wall_s))
    state_->started.put(built->artefact, std::move(*process));
}

const std::string& cpp_evaluator::device_class() const {
  return state_->device_class;
}
const std::string& cpp_evaluator::environment() const {
  return state_->environment;
}
int cpp_evaluator::core() const {
  return state_->core.core();
}
stage_seconds cpp_evaluator::stages() const {
  return state_->seconds;
}

}  // namespace quern::env
