// The evaluator on a GPU: opening it, its tasks, and what it tells about itself.
#include "env/lanes/pytorch/gpu/pytorch_device_evaluator.hpp"

#include "base/json.hpp"
#include "base/program.hpp"
#include "base/thread_deadline.hpp"
#include "env/build/python.hpp"
#include "env/build/tool.hpp"
#include "env/device/part_build.hpp"
#include "env/judge/machine.hpp"
#include "env/lanes/pytorch/gpu/module_gpu.hpp"
#include "env/lanes/pytorch/gpu/pytorch_device_state.hpp"

namespace quern::env {
namespace {

/// Beside the one that it measures on, where it goes while that one is shared.
constexpr std::size_t cores_to_go_to = 2;

/// Tasks whose weights and limits stay.
constexpr std::size_t most_device_modules = 8;
/// Candidates' processes that stand ready once an order is carried out, and fewer than how many
/// lead to one. Four contexts made side by side take 0.82 s on an H200, one 0.45 s, and those in
/// making stand still while an evaluation is timed: made one by one, each was waited for. With 8
/// and 5 one of twelve evaluations waited: the next order comes behind up to two processes of an
/// evaluation that is timed for seconds, or several of candidates that fail at once.
constexpr int candidates_ahead = 12, ordered_below = 8;

}  // namespace

base::expected<python_zygote*> module_device_manager::zygote() {
  if (!zygote_) {
    QUERN_TRY(auto started, python_zygote::start(mode_, gpu_));
    zygote_.emplace(std::move(started));
  }
  return &*zygote_;
}

base::expected<device_module_task*> module_device_manager::get(
    const std::shared_ptr<const task>& subject, drawing where) {
  if (!tasks_) tasks_.emplace(most_device_modules);
  const std::string id = task_id(*subject);
  const bool is_current = current_ != nullptr && current_->id == id;
  if (is_current && (where == drawing::on_device || current_->making.draws_on_core)) {
    QUERN_CHECK(lend_again(*current_, memory_));
    return current_;
  }
  auto made = change_to(id, subject, where);
  if (!made && made.error().code == base::errc::unavailable) {
    renew();  // it died: once more with fresh processes
    tasks_.emplace(most_device_modules);
    made = change_to(id, subject, where);
  }
  return made;
}

base::expected<device_module_task*> module_device_manager::change_to(
    const std::string& id, const std::shared_ptr<const task>& subject, drawing where) {
  QUERN_TRY(auto* from, zygote());
  module_processes left;
  if (current_ != nullptr) {
    const step_clock step(steps_, "task: the one before is left");
    left = leave(*current_);
  }
  current_ = nullptr;
  const module_terms terms{secret_,    core_, where == drawing::on_core, sheets_.known(*subject),
                           window_ns_, steps_};
  auto* known = tasks_->find(id);
  if (known != nullptr && (!terms.draws_on_core || (*known)->making.draws_on_core)) {
    QUERN_CHECK(resume(**known, std::move(left), *from, memory_, terms));
    current_ = known->get();
    return current_;
  }
  QUERN_TRY(auto made,
            prepare_device_module(subject, std::move(left), *from, *context_, memory_, terms));
  current_ = made.get();
  if (known != nullptr)
    *known = std::move(made);
  else
    (void)tasks_->add(id, std::move(made));
  return current_;
}

base::expected<device_module*> module_device_manager::baseline(baseline_choice which) {
  QUERN_TRY(auto* from, zygote());
  if (current_ == nullptr)
    return base::fail(base::errc::unavailable, "baseline {} of no task", name_of(which));
  return baseline_of(*current_, which, *from, *context_, memory_, core_);
}

bool module_device_manager::is_known(const std::string& id) const {
  return tasks_ && tasks_->contains(id);
}

bool module_device_manager::has_room_ahead() const {
  return ahead_of_use_.size() < most_device_modules;
}

void module_device_manager::prefork() {
  if (!zygote_) return;
  if (!ahead_) ahead_.emplace(quiet_, *zygote_);
  ahead_->order(device_start(false), candidates_ahead, ordered_below);
}

void module_device_manager::renew() {
  current_ = nullptr;
  ahead_of_use_.clear();
  tasks_.reset();
  ahead_.reset();
  zygote_.reset();
}

pytorch_device_evaluator::pytorch_device_evaluator(std::unique_ptr<state> s)
    : staged_judge(s->options, s->seconds), state_(std::move(s)) {}
pytorch_device_evaluator::~pytorch_device_evaluator() = default;

base::expected<std::unique_ptr<pytorch_device_evaluator::state>> open_device_state(
    pytorch_device_options options, bool builds) {
  auto s = std::make_unique<pytorch_device_evaluator::state>();
  QUERN_CHECK(fill_in(options));
  if (auto there = check_module_gpus(); !there)
    return base::in_context(fmt::format("GPU {}", options.gpu), std::move(there).error());
  s->options = std::move(options);
  s->mode = s->options.sandbox_required ? sandbox_mode::required : sandbox_mode::best_effort;
  QUERN_CHECK(env::admit(probe_host(), s->mode, sandboxed_code::host_code_on_gpu));
  QUERN_TRY(auto context, device_context::open(s->options.gpu));
  const auto& facts = context->facts();
  QUERN_TRY(s->gpu.access, module_gpu_access(facts));
  QUERN_TRY(s->core, core_choice::choose(s->options.core, cores_to_go_to));
  s->gpu.library = base::program_folder() / "libquern_cuda.so";
  s->device_class = module_device_class(facts.name);
  QUERN_TRY(const auto processes, python_fingerprint());
  QUERN_TRY(s->children, spawner::create(s->mode));
  s->builds = std::make_unique<candidate_builds>(*s->children, s->options.cache_dir);
  if (builds) s->builds->warm_up();
  s->recorder = std::make_unique<recording_python>(s->mode);
  s->recorder->warm_up();  // beside what follows
  s->kernels =
      std::make_unique<candidate_kernels>(*s->children, *s->recorder, s->options.cache_dir);
  s->sheets = std::make_unique<task_sheets>(*s->recorder);
  s->null = null_distribution::of_modules_on_gpus();
  QUERN_TRY(const auto calibrated_null,
            null_distribution::calibrated(s->options.null_file, s->device_class));
  QUERN_TRY(auto care, device_care::begin(*s, s->options.gpu, *context));
  s->care.emplace(std::move(care));
  s->set_up(std::move(context));
  QUERN_TRY(auto* zygote, s->manager->zygote());
  s->versions = zygote->versions();
  std::string compiler;
  if (const auto found = find_compiler())
    compiler = last_line_of({found->string(), "-dumpfullversion"}).value_or("");
  s->environment = environment_fingerprint({s->versions, processes, compiler, base::build_id(),
                                            cuda_part_build(), s->manager->context().facts().name});
  if (calibrated_null) {
    s->null = *calibrated_null;
    s->environment =
        environment_fingerprint({s->environment, base::dump(s->null.to_json(s->device_class))});
  }
  return s;
}

base::expected<std::unique_ptr<pytorch_device_evaluator>> pytorch_device_evaluator::open(
    pytorch_device_options options) {
  QUERN_TRY(auto s, open_device_state(std::move(options), true));
  s->manager->prefork();
  return std::unique_ptr<pytorch_device_evaluator>(new pytorch_device_evaluator(std::move(s)));
}

std::optional<std::string> pytorch_device_evaluator::state::try_out() {
  auto zygote = manager->zygote();
  if (!zygote) return zygote.error().message;
  auto child = (*zygote)->fork(device_start(false));
  return child ? std::nullopt : std::optional(child.error().message);
}

std::unique_ptr<staged_evaluation> pytorch_device_evaluator::begin(
    const evaluation_request& request, const measure_name& how, verdict& v) {
  // It is gone where a device in trouble was taken down.
  if (state_->manager) state_->manager->note_use(task_id(*request.subject));
  return std::make_unique<pytorch_device_evaluation>(*state_, request, how, v);
}

std::string pytorch_device_evaluator::key_suffix(const evaluation_request& request) const {
  const suite_policy policy = request.policy.value_or(state_->options.policy);
  return policy.by_evidence ? "+" + to_text(policy) : std::string();
}

base::expected<baseline_terms> pytorch_device_evaluator::terms_of(baseline_choice baseline) {
  std::string by = "PyTorch on this GPU";
  if (baseline == baseline_choice::graph) by += " by CUDA graphs";
  if (is_compiled(baseline)) {
    // What its process will look for, before a candidate is built for nothing.
    if (const auto compiler = find_compiler(); !compiler)
      return base::in_context(fmt::format("baseline {}", name_of(baseline)), compiler.error());
    const auto versions = base::parse_json(state_->versions);
    if (!versions || !versions->contains("triton"))
      return base::fail(base::errc::unavailable,
                        "baseline {} needs Triton, which the Python of lane pytorch has not: "
                        "tools/setup.sh --pytorch",
                        name_of(baseline));
    const std::string mode =
        baseline == baseline_choice::compile ? "default" : std::string(name_of(baseline));
    by += fmt::format(" by torch.compile(mode=\"{}\")", mode);
  }
  return baseline_terms{by + ", its settings as they are: " + state_->versions,
                        state_->environment};
}

void pytorch_device_evaluator::renew_reference() {
  state_->manager->renew();
}

void pytorch_device_evaluator::look_after(verdict& v, runner::cause why) {
  state_->care->look_after(v, why);
}

std::optional<device_trouble> pytorch_device_evaluator::trouble() const {
  return state_->care->trouble();
}

void pytorch_device_evaluator::recover() {
  state_->care->recover();
}

void pytorch_device_evaluator::warm_up() {
  state_->recorder->warm_up();
  state_->builds->warm_up();
}

void pytorch_device_evaluator::compile_ahead(const evaluation_request& request) {
  if (request.subject->lane != &pytorch_lane) return;
  // What goes wrong here goes wrong again, and is told, when the candidate's turn comes.
  const python_facts facts = facts_of_python(tokenize_python(request.source));
  const bool extensions = facts.uses_load || facts.uses_load_inline;
  // Also for the preparation of its task, which has the device by then.
  const auto sheet = state_->sheets->of(*request.subject);
  if (facts.uses_triton_jit && sheet) (void)state_->kernels->build(request.source, *sheet);
  if (extensions)
    (void)state_->builds->build_ahead_for_gpu(request.source, *state_->recorder,
                                              sheet ? &*sheet : nullptr,
                                              {module_recording, module_recording});
}

bool pytorch_device_evaluator::state::prepare_ahead(const evaluation_request& request) {
  if (request.subject->lane != &pytorch_lane || care->trouble()) return false;
  verdict v;
  v.task = task_id(*request.subject);
  if (manager->is_known(v.task)) return true;
  if (!manager->has_room_ahead()) return false;
  std::optional<base::thread_deadline> limit(std::in_place, request.time_limit_s);
  // Its builds ask for it, too, and the device need not answer what is known without it.
  (void)sheets->of(*request.subject);
  const measure_name how;
  pytorch_device_evaluation one(*this, request, how, v);
  if (one.prepare_task()) {
    manager->note_ahead(v.task);
    return true;
  }
  const bool cut = base::thread_deadline::is_over();
  limit.reset();
  if (one.used_device()) care->look_after(v, one.cause());
  if (manager && (cut || one.interrupted() == interruption::reference_lost)) manager->renew();
  return false;
}

bool pytorch_device_evaluator::prepare_ahead(const evaluation_request& request) {
  return state_->prepare_ahead(request);
}

void pytorch_device_evaluator::wait_until_warm() {
  state_->builds->wait_until_warm();
}

const std::string& pytorch_device_evaluator::device_class() const {
  return state_->device_class;
}

const std::string& pytorch_device_evaluator::environment() const {
  return state_->environment;
}

double pytorch_device_evaluator::waited_for_device_s() const {
  return state_->waited_s;
}

const step_seconds& pytorch_device_evaluator::steps() const {
  return state_->steps;
}

double pytorch_device_evaluator::ready_share() const {
  return state_->asked == 0
             ? 1
             : static_cast<double>(state_->stood_ready) / static_cast<double>(state_->asked);
}

}  // namespace quern::env
