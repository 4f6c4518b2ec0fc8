// The evaluator of lane `cuda`: opening it, its cache, and what it tells about itself.
#include "env/lanes/cuda/cuda_evaluator.hpp"

#include <algorithm>

#include <sys/random.h>

#include "base/log.hpp"
#include "base/program.hpp"
#include "env/device/gpu_class.hpp"
#include "env/device/gpu_probe.hpp"
#include "env/device/part_build.hpp"
#include "env/judge/cost_model.hpp"
#include "env/judge/machine.hpp"
#include "env/lanes/cuda/cuda_state.hpp"
#include "env/lanes/cuda/screen/cuda_screen.hpp"
#include "env/screen/canonical.hpp"

namespace quern::env {

namespace {

baseline_choice baseline_of(const measure_name& how, const task& subject) {
  return how.baseline == baseline_choice::of_task ? own_baseline(subject) : how.baseline;
}

/// Error: the baseline cannot be had on this host.
base::expected<std::string> settings_of(cuda_evaluator::state& with, baseline_choice baseline) {
  if (baseline == baseline_choice::plain) return std::string("compiled as a candidate is");
  std::string by = "ATen";
  if (baseline == baseline_choice::compile) {
    QUERN_TRY(by, with.compiled->versions());
  }
  return by + ", " + to_text(stated_settings);
}

/// Times against another compiler are other times.
std::string environment_of(const cuda_evaluator::state& with, baseline_choice baseline,
                           const std::string& settings) {
  return baseline == baseline_choice::compile
             ? environment_fingerprint({with.environment, settings})
             : with.environment;
}

}  // namespace

cuda_evaluator::cuda_evaluator(std::unique_ptr<state> s) : state_(std::move(s)) {}
cuda_evaluator::~cuda_evaluator() = default;

base::expected<std::unique_ptr<cuda_evaluator>> cuda_evaluator::open(evaluator_options options) {
  auto s = std::make_unique<state>();
  if (options.runner_program.empty()) {
    QUERN_TRY(options.runner_program, base::sibling_program("quern-runner"));
  }
  if (options.reference_program.empty()) {
    QUERN_TRY(options.reference_program, base::sibling_program("quern-torch"));
  }
  if (!has_nvidia_driver())
    return base::fail(base::errc::unavailable,
                      "lane cuda needs an NVIDIA GPU: no driver is loaded (/dev/nvidiactl is not "
                      "there); quern doctor tells more");
  if (!options.input_seed) {
    std::uint64_t drawn = 0;
    if (getrandom(&drawn, sizeof drawn, 0) != static_cast<ssize_t>(sizeof drawn))
      return base::fail_errno("getrandom");
    options.input_seed = drawn;
  }
  s->secret = *options.input_seed;
  s->options = std::move(options);
  const auto mode =
      s->options.sandbox_required ? sandbox_mode::required : sandbox_mode::best_effort;
  if (s->options.layers) {
    QUERN_TRY(s->children, spawner::create(sandbox_mode::best_effort, *s->options.layers));
  } else {
    // Now, and not with the first reference.
    QUERN_CHECK(admit(probe_host(), mode, sandboxed_code::on_gpu));
    QUERN_TRY(s->children, spawner::create(mode));
  }
  cuda_compiler_options compiling;
  compiling.cache_dir = s->options.cache_dir;
  if (compiling.cache_dir.empty()) compiling.cache_dir = base::user_cache_folder() / "cuda";
  compiling.runner_program = s->options.runner_program;
  QUERN_TRY(s->nvcc, cuda_compiler::create(*s->children, std::move(compiling)));
  QUERN_TRY(auto desk, device_desk::open(s->options.gpu));
  const auto& facts = desk->facts();
  s->architecture = cuda_architecture_for(facts.major, facts.minor);
  if (s->architecture.empty())
    return base::fail(base::errc::unavailable,
                      "GPU {} ({}) has compute capability {}.{}, which "
                      "this build does not know",
                      s->options.gpu, facts.name, facts.major, facts.minor);
  s->device_class = gpu_device_class(facts.name);
  s->environment = environment_fingerprint(
      {base::to_hex(s->nvcc->fingerprint()), base::build_id(), cuda_part_build(), aten_part_build(),
       compiled_reference_build(), facts.name, s->architecture, to_text(stated_settings)});
  QUERN_TRY(auto access, gpu_sandbox_paths(facts.bus_id));
  QUERN_TRY(const auto calibrated,
            null_distribution::calibrated(s->options.null_file, s->device_class));
  s->null = calibrated.value_or(null_distribution::of_gpus());
  if (calibrated)
    s->environment =
        environment_fingerprint({s->environment, base::dump(s->null.to_json(s->device_class))});
  s->access = std::move(access);
  s->watch = device_watch(facts.bus_id);
  if (!s->watch.problem().empty())
    base::log_info("evaluator", "GPU {}: clocks and faults are not known: {}", s->options.gpu,
                   s->watch.problem());
  s->watch.look_for_faults(s->quarantine, s->clock.now_ns());
  QUERN_TRY(s->free_at_first, desk->free_bytes());
  s->unaccounted_at_first = s->watch.unaccounted_bytes();
  s->compiled.emplace(*s->children, base::program_folder() / "libquern_cuda.so", s->access, 0);
  s->make_stand(std::move(desk));
  return std::unique_ptr<cuda_evaluator>(new cuda_evaluator(std::move(s)));
}

verdict cuda_evaluator::evaluate(const evaluation_request& request) {
  verdict v;
  v.task = task_id(*request.subject);
  v.source = base::to_hex(source_hash(request.source));
  v.protocol = request.protocol;
  v.device_class = state_->device_class;
  v.env = state_->environment;
  ++state_->seconds.evaluations;
  const auto how = parse_measure_name(request.protocol);
  const auto protocol = how ? find_protocol(how->protocol)
                            : base::expected<measure_protocol>(tl::make_unexpected(how.error()));
  if (!protocol) {
    v.detail = "lane cuda: " + protocol.error().message;
    return v;
  }
  if (request.subject->lane != &cuda_lane) {
    v.detail = fmt::format("task {} is of lane {}; this evaluator has lane cuda",
                           request.subject->name, request.subject->lane->name);
    return v;
  }
  const auto baseline = baseline_of(*how, *request.subject);
  if (!request.verify_only) {
    auto settings = settings_of(*state_, baseline);
    if (!settings) {
      v.detail = settings.error().message;
      return v;
    }
    v.env = environment_of(*state_, baseline, *settings);
    v.baseline = baseline_report{std::string(name_of(baseline)), std::move(*settings)};
  }
  verdict_key key{v.task, v.source, v.protocol, v.device_class, v.env};
  if (request.verify_only) key.protocol += "+verify";
  if (request.as_host_entry) key.protocol += "+host_entry";
  // What one suite refuses, another allows.
  key.protocol += "+" + to_text(request.policy.value_or(state_->options.policy));
  if (!state_->options.static_screen) key.protocol += "+unscreened";
  const verdict unjudged = v;
  const double again = state_->options.remeasure_probability;
  std::optional<cuda_evaluation> one(std::in_place, *state_, request, *protocol, baseline, v);
  if (one->recall(state_->cache, key, again)) {
    ++state_->seconds.cache_hits;
    return v;
  }
  repeated_evaluations once_more;
  for (one->run(); one->doubtful() && once_more.allow(interruption::candidate_ended); one->run()) {
    base::log_warn("evaluator", "an evaluation was interrupted ({}): once more", v.detail);
    v = unjudged;
    one.emplace(*state_, request, *protocol, baseline, v);
    // Drawn by the request: what was to be measured again still is.
    (void)one->recall(state_->cache, key, again);
  }
  if (one->used_device()) state_->look_after(v, one->cause());
  one->keep(state_->cache, key);
  return v;
}

void cuda_evaluator::warm_up() {
  for (std::size_t i = 0; i < resident_runners; ++i)
    (void)state_->stand->resident(i);
}

void cuda_evaluator::compile_ahead(const evaluation_request& request) {
  const suite_policy policy = request.policy.value_or(state_->options.policy);
  if (state_->options.static_screen &&
      screen_cuda(request.source, {policy.library_calls, policy.graphs}))
    return;
  // What goes wrong here goes wrong again, and is told, when the candidate's turn comes.
  (void)build_candidate(*state_->nvcc, state_->compilations, *request.subject, request.source,
                        state_->architecture,
                        {policy.host_entry, policy.library_calls, request.as_host_entry});
}

void cuda_evaluator::measure_for(double budget_s, double precision) {
  state_->options.time_budget_s = budget_s;
  state_->options.precision = precision;
}

const std::string& cuda_evaluator::device_class() const {
  return state_->device_class;
}
const std::string& cuda_evaluator::environment() const {
  return state_->environment;
}
base::expected<std::string> cuda_evaluator::environment_for(const std::string& protocol) {
  QUERN_TRY(const auto how, parse_measure_name(protocol));
  if (how.baseline != baseline_choice::compile) return state_->environment;
  QUERN_TRY(const auto settings, settings_of(*state_, how.baseline));
  return environment_of(*state_, how.baseline, settings);
}
stage_seconds cuda_evaluator::stages() const {
  return state_->seconds;
}
double cuda_evaluator::waited_for_device_s() const {
  return state_->parts.seconds(static_cast<std::size_t>(gpu_part::lease));
}
const gpu_parts& cuda_evaluator::parts() const {
  return state_->parts;
}
device_seconds cuda_evaluator::device_time() const {
  return state_->device;
}

}  // namespace quern::env
