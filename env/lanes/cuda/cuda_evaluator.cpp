// The evaluator of lane `cuda`: opening it, its cache, and what it tells about itself.
#include "env/lanes/cuda/cuda_evaluator.hpp"

#include <algorithm>

#include "base/log.hpp"
#include "base/program.hpp"
#include "env/device/gpu_class.hpp"
#include "env/device/gpu_probe.hpp"
#include "env/device/part_build.hpp"
#include "env/judge/machine.hpp"
#include "env/lanes/cuda/cuda_state.hpp"
#include "env/lanes/cuda/screen/cuda_screen.hpp"

namespace quern::env {

cuda_evaluator::cuda_evaluator(std::unique_ptr<state> s)
    : staged_judge(s->options, s->seconds), state_(std::move(s)) {}
cuda_evaluator::~cuda_evaluator() = default;

base::expected<std::unique_ptr<cuda_evaluator>> cuda_evaluator::open(evaluator_options options) {
  auto s = std::make_unique<state>();
  QUERN_CHECK(fill_in(options));
  if (!has_nvidia_driver())
    return base::fail(base::errc::unavailable,
                      "lane cuda needs an NVIDIA GPU: no driver is loaded (/dev/nvidiactl is not "
                      "there); quern doctor tells more");
  s->secret = *options.input_seed;
  s->options = std::move(options);
  const auto mode =
      s->options.sandbox_required ? sandbox_mode::required : sandbox_mode::best_effort;
  if (s->options.layers) {
    QUERN_TRY(s->children, spawner::create(sandbox_mode::best_effort, *s->options.layers));
  } else {
    // Now, and not with the first reference.
    QUERN_CHECK(env::admit(probe_host(), mode, sandboxed_code::on_gpu));
    QUERN_TRY(s->children, spawner::create(mode));
  }
  cuda_compiler_options compiling;
  compiling.cache_dir = s->options.cache_dir;
  if (compiling.cache_dir.empty()) compiling.cache_dir = base::user_cache_folder() / "cuda";
  compiling.runner_program = s->options.runner_program;
  QUERN_TRY(s->nvcc, cuda_compiler::create(*s->children, std::move(compiling)));
  QUERN_TRY(auto context, device_context::open(s->options.gpu));
  const auto& facts = context->facts();
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
  QUERN_TRY(auto care, device_care::begin(*s, s->options.gpu, *context));
  s->care.emplace(std::move(care));
  s->compiled.emplace(*s->children, base::program_folder() / "libquern_cuda.so", s->access, 0);
  s->set_up(std::move(context));
  return std::unique_ptr<cuda_evaluator>(new cuda_evaluator(std::move(s)));
}

std::unique_ptr<staged_evaluation> cuda_evaluator::begin(const evaluation_request& request,
                                                         const measure_name& how, verdict& v) {
  return std::make_unique<cuda_evaluation>(*state_, request, how, v);
}

base::expected<baseline_terms> cuda_evaluator::terms_of(baseline_choice baseline) {
  if (baseline == baseline_choice::plain)
    return baseline_terms{"compiled as a candidate is", state_->environment};
  if (baseline != baseline_choice::compile)
    return baseline_terms{"ATen, " + to_text(stated_settings), state_->environment};
  QUERN_TRY(const std::string by, state_->compiled->versions());
  std::string settings = by + ", " + to_text(stated_settings);
  // Times against another compiler are other times.
  std::string environment = environment_fingerprint({state_->environment, settings});
  return baseline_terms{std::move(settings), std::move(environment)};
}

std::string cuda_evaluator::key_suffix(const evaluation_request& request) const {
  // What one suite refuses, another allows.
  return (request.as_host_entry ? "+host_entry+" : "+") +
         to_text(request.policy.value_or(state_->options.policy));
}

void cuda_evaluator::look_after(verdict& v, runner::cause why) {
  state_->care->look_after(v, why);
}
std::optional<device_trouble> cuda_evaluator::trouble() const {
  return state_->care->trouble();
}
void cuda_evaluator::recover() {
  state_->care->recover();
}

void cuda_evaluator::state::set_up(std::unique_ptr<device_context> context) {
  manager =
      std::make_unique<device_manager>(*children, options, access, std::move(context),
                                       base::program_folder() / "libquern_cuda.so", secret, &parts);
}

void cuda_evaluator::state::take_down() {
  manager.reset();
  for (std::size_t i = 0; compiled && i < compiled_references::count; ++i)
    compiled->retire(i);
}

std::optional<std::string> cuda_evaluator::state::try_out() {
  auto runner = manager->resident(0);
  return runner ? std::nullopt : std::optional(runner.error().message);
}

void cuda_evaluator::warm_up() {
  for (std::size_t i = 0; i < resident_runners; ++i)
    (void)state_->manager->resident(i);
}

void cuda_evaluator::compile_ahead(const evaluation_request& request) {
  if (request.subject->lane != &cuda_lane) return;
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
