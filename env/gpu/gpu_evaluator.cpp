// The evaluator of lane `cuda`: opening it, its cache, and what it tells about itself.
#include "env/gpu/gpu_evaluator.hpp"

#include <algorithm>

#include <sys/random.h>

#include "base/program.hpp"
#include "env/device/gpu_probe.hpp"
#include "env/gpu/gpu_state.hpp"
#include "env/judge/cost_model.hpp"
#include "env/judge/machine.hpp"
#include "env/screen/canonical.hpp"
#include "env/screen/screen.hpp"

namespace quern::env {

gpu_evaluator::gpu_evaluator(std::unique_ptr<state> s) : state_(std::move(s)) {}
gpu_evaluator::~gpu_evaluator() = default;

std::string gpu_device_class(std::string_view name) {
  constexpr std::string_view maker = "NVIDIA ";
  if (name.starts_with(maker)) name.remove_prefix(maker.size());
  // As the contract writes it: the form factor where the driver's name leaves it out.
  if (name == "H200") return "H200-SXM";
  if (name == "H100 80GB HBM3") return "H100-SXM";
  std::string result;
  for (const char c : name)
    result += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '-';
  return result;
}

base::expected<std::unique_ptr<gpu_evaluator>> gpu_evaluator::open(evaluator_options options) {
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
      {base::to_hex(s->nvcc->fingerprint()), base::build_id(), facts.name, s->architecture});
  QUERN_TRY(auto access, gpu_sandbox_paths(facts.bus_id));
  if (!s->options.null_file.empty()) {
    QUERN_TRY(auto text, base::read_file(s->options.null_file, 1U << 20U));
    QUERN_TRY(auto value, base::parse_json(text));
    QUERN_TRY(s->null, null_distribution::from_json(value, s->device_class));
  } else {
    s->null = null_distribution::of_gpus();
  }
  s->stand =
      std::make_unique<gpu_stand>(*s->children, s->options, std::move(access), std::move(desk),
                                  base::program_folder() / "libquern_cuda.so", s->secret);
  return std::unique_ptr<gpu_evaluator>(new gpu_evaluator(std::move(s)));
}

verdict gpu_evaluator::evaluate(const evaluation_request& request) {
  verdict v;
  v.task = task_id(*request.subject);
  v.source = base::to_hex(source_hash(request.source));
  v.protocol = request.protocol;
  v.device_class = state_->device_class;
  v.env = state_->environment;
  ++state_->seconds.evaluations;
  if (request.protocol != protocol_paired) {
    v.detail = fmt::format("unknown protocol '{}'; lane cuda knows: {}", request.protocol,
                           protocol_paired);
    return v;
  }
  if (request.subject->lane != lane::cuda) {
    v.detail = fmt::format("task {} is of lane {}; this evaluator has lane cuda",
                           request.subject->name, name_of(request.subject->lane));
    return v;
  }
  verdict_key key{v.task, v.source, v.protocol, v.device_class, v.env};
  if (request.verify_only) key.protocol += "+verify";
  if (request.as_host_entry) key.protocol += "+host_entry";
  if (!state_->options.static_screen) key.protocol += "+unscreened";
  gpu_evaluation one(*state_, request, v);
  if (const auto* known = state_->cache.find(key)) {
    if (!request.recheck &&
        !measure_again(known->what, key, request.seed, state_->options.remeasure_probability)) {
      ++state_->seconds.cache_hits;
      v = known->what;
      v.cached = true;
      return v;
    }
    one.runs = known->runs;
    one.claim_e2 = known->claim_e2;
  }
  one.run();
  state_->cache.store(key, {v, std::move(one.runs), one.claim_e2});
  return v;
}

void gpu_evaluator::warm_up() {
  for (std::size_t i = 0; i < resident_runners; ++i)
    (void)state_->stand->resident(i);
}

void gpu_evaluator::compile_ahead(const evaluation_request& request) {
  if (state_->options.static_screen &&
      static_screen(request.source, {state_->options.library_calls, true}))
    return;
  // What goes wrong here goes wrong again, and is told, when the candidate's turn comes.
  (void)build_candidate(*state_->nvcc, state_->compilations, *request.subject, request.source,
                        state_->architecture,
                        {state_->options.host_entry, state_->options.library_calls,
                         request.as_host_entry});
}

const std::string& gpu_evaluator::device_class() const {
  return state_->device_class;
}
const std::string& gpu_evaluator::environment() const {
  return state_->environment;
}
stage_seconds gpu_evaluator::stages() const {
  return state_->seconds;
}
device_seconds gpu_evaluator::device_time() const {
  return state_->device;
}

}  // namespace quern::env
