// The evaluator: opening it, its cache, and what it tells about itself.
#include "env/lanes/cpp/cpp_evaluator.hpp"

#include "base/json.hpp"
#include "base/log.hpp"
#include "base/program.hpp"
#include "env/judge/machine.hpp"
#include "env/lanes/cpp/cpp_state.hpp"
#include "env/lanes/cpp/screen/cpp_screen.hpp"
#include "env/tensor_task/tensor_body.hpp"

namespace quern::env {

cpp_evaluator::cpp_evaluator(std::unique_ptr<state> s)
    : staged_judge(s->options, s->seconds), state_(std::move(s)) {}
cpp_evaluator::~cpp_evaluator() = default;

base::expected<std::unique_ptr<cpp_evaluator>> cpp_evaluator::open(cpp_evaluator_options options) {
  auto s = std::make_unique<state>();
  QUERN_CHECK(fill_in(options));
  QUERN_CHECK(check_measuring(options));
  if (!(options.call_cpu_s > 0))
    return base::fail(base::errc::invalid_argument, "call_cpu_s {} is not positive",
                      options.call_cpu_s);
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
  s->tasks = std::make_unique<prepared_task_cache>(
      options.reference_program, mode, s->core.core(), *options.input_seed,
      options.expectation_cache_bytes, options.restart_reference, s->peak);
  s->care = core_care(s->core.core(), options.quarantine.value_or(core_quarantine));
  s->options = std::move(options);
  return std::unique_ptr<cpp_evaluator>(new cpp_evaluator(std::move(s)));
}

std::unique_ptr<staged_evaluation> cpp_evaluator::begin(const evaluation_request& request,
                                                        const measure_name& how, verdict& v) {
  return std::make_unique<cpp_evaluation>(*state_, request, how, v);
}

base::expected<baseline_terms> cpp_evaluator::terms_of(baseline_choice baseline) {
  return baseline_terms{
      baseline == baseline_choice::plain ? "compiled as a candidate is" : "ATen on one core",
      state_->environment};
}

void cpp_evaluator::renew_reference() {
  state_->tasks->renew();
}

void cpp_evaluator::look_after(verdict& v, runner::cause /*why*/) {
  state_->look_after(v);
}

void cpp_evaluator::warm_up() {
  (void)state_->tasks->service();
}

void cpp_evaluator::compile_ahead(const evaluation_request& request) {
  if (request.subject->lane != &cpp_lane) return;
  if (state_->options.static_screen && screen_cpp(request.source)) return;
  std::call_once(state_->ahead_once, [&] {
    if (auto made = cpp_compiler::create(*state_->children, state_->compiling))
      state_->ahead = std::move(*made);
  });
  if (!state_->ahead) return;
  // What goes wrong here goes wrong again, and is told, when the candidate's turn comes.
  const auto built = state_->compilations.compile(
      *state_->ahead, compile_request_for(*request.subject, request.source));
  if (!built || built->outcome != compile_result::kind::built) return;
  // Its baseline will be needed, too; from the second candidate of a task on it is in the cache.
  if (request.subject->baseline == baseline_kind::plain)
    (void)state_->compilations.compile(
        *state_->ahead, compile_request_for(*request.subject, tensors_of(*request.subject).plain));
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

}  // namespace quern::env
