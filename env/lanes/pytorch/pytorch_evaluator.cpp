// The evaluator: opening it, its tasks, and what it tells about itself.
#include "env/lanes/pytorch/pytorch_evaluator.hpp"

#include "base/json.hpp"
#include "base/program.hpp"
#include "env/build/python.hpp"
#include "env/build/tool.hpp"
#include "env/judge/machine.hpp"
#include "env/lanes/pytorch/pytorch_state.hpp"
#include "env/task/task_codec.hpp"

namespace quern::env {
namespace {

constexpr std::size_t most_modules = 16;

constexpr const char* module_self_test = R"(quern_task: 1
name: self_test
lane: pytorch
family: elementwise
tolerance: {atol: 1.0e-4, rtol: 1.0e-4}
baseline: reference
reference: |
  import torch

  class Model(torch.nn.Module):
      def forward(self, x):
          return x * 2

  def get_inputs():
      return [torch.rand(64)]
)";

}  // namespace

base::expected<python_zygote*> module_task_cache::zygote() {
  if (!zygote_) {
    QUERN_TRY(auto started, python_zygote::start(mode_));
    zygote_.emplace(std::move(started));
    prefork();
  }
  return &*zygote_;
}

bool module_task_cache::can_fork() {
  auto from = zygote();
  return from && (*from)->fork({}).has_value();
}

void module_task_cache::prefork() {
  if (zygote_ && children_ahead_ > 0) zygote_->prefork(children_ahead_);
}

void module_task_cache::renew() {
  if (!restarts_) return;
  order_.clear();
  used_ = 0;
  zygote_.reset();
}

base::expected<module_task*> module_task_cache::get(const std::shared_ptr<const task>& subject) {
  const std::string id = task_id(*subject);
  for (auto at = order_.begin(); at != order_.end(); ++at)
    if ((*at)->id == id) {
      order_.splice(order_.begin(), order_, at);
      return order_.front().get();
    }
  base::expected<std::unique_ptr<module_task>> prepared;
  for (int attempt = 0; attempt < 2; ++attempt) {
    QUERN_TRY(auto* from, zygote());
    prepared = prepare_module(subject, *from, input_seed_, peak_);
    if (prepared || prepared.error().code != base::errc::unavailable) break;
    renew();  // it died: once more with a fresh one
  }
  if (!prepared && prepared.error().code == base::errc::unavailable && can_fork())
    return base::fail(base::errc::invalid_argument,
                      "its process ended twice, and others live ({}): does it end itself, or need "
                      "more than 8 GiB?",
                      prepared.error().message);
  if (!prepared) return tl::make_unexpected(prepared.error());
  used_ += (*prepared)->bytes;
  order_.push_front(std::move(*prepared));
  while (order_.size() > 1 && (order_.size() > most_modules || used_ > limit_)) {
    used_ -= order_.back()->bytes;
    order_.pop_back();
  }
  return order_.front().get();
}

pytorch_evaluator::pytorch_evaluator(std::unique_ptr<state> s)
    : staged_judge(s->options, s->seconds), state_(std::move(s)) {}
pytorch_evaluator::~pytorch_evaluator() = default;

base::expected<std::unique_ptr<pytorch_evaluator>> pytorch_evaluator::open(
    pytorch_evaluator_options options) {
  auto s = std::make_unique<state>();
  QUERN_CHECK(fill_in(options));
  QUERN_CHECK(check_measuring(options));
  if (!(options.call_cpu_s > 0 && options.load_cpu_s > 0))
    return base::fail(base::errc::invalid_argument,
                      "call_cpu_s {} and load_cpu_s {} must be positive", options.call_cpu_s,
                      options.load_cpu_s);
  const auto mode = options.sandbox_required ? sandbox_mode::required : sandbox_mode::best_effort;
  QUERN_CHECK(env::admit(probe_host(), mode));
  QUERN_TRY(s->core, core_choice::choose(options.core));
  QUERN_TRY(auto zygote, python_zygote::start(mode));
  QUERN_TRY(const auto processes, python_fingerprint());
  s->versions = zygote.versions();
  s->device_class = torch_device_class();
  // What builds extensions, where there is a compiler.
  std::string compiler;
  if (const auto found = find_compiler())
    compiler = last_line_of({found->string(), "-dumpfullversion"}).value_or("");
  s->environment = environment_fingerprint({s->versions, processes, compiler, base::build_id()});
  s->null = null_distribution::of_modules();
  QUERN_TRY(const auto calibrated_null,
            null_distribution::calibrated(options.null_file, s->device_class));
  if (calibrated_null) {
    s->null = *calibrated_null;
    s->environment =
        environment_fingerprint({s->environment, base::dump(s->null.to_json(s->device_class))});
  }
  QUERN_TRY(s->children, spawner::create(mode));
  s->builds = std::make_unique<candidate_builds>(*s->children, options.cache_dir);
  s->tasks = std::make_unique<module_task_cache>(std::move(zygote), mode, options, s->peak);
  s->care = core_care(s->core.core(), options.quarantine.value_or(core_quarantine));
  s->options = std::move(options);
  return std::unique_ptr<pytorch_evaluator>(new pytorch_evaluator(std::move(s)));
}

std::unique_ptr<staged_evaluation> pytorch_evaluator::begin(const evaluation_request& request,
                                                            const measure_name& how, verdict& v) {
  return std::make_unique<pytorch_evaluation>(*state_, request, how, v);
}

base::expected<baseline_terms> pytorch_evaluator::terms_of(baseline_choice /*baseline*/) {
  return baseline_terms{"PyTorch on one core: " + state_->versions, state_->environment};
}

void pytorch_evaluator::renew_reference() {
  state_->tasks->renew();
}

void pytorch_evaluator::look_after(verdict& v, runner::cause /*why*/) {
  if (state_->options.restart_reference) state_->care.look_after(v);
}

void pytorch_evaluator::warm_up() {
  (void)state_->tasks->zygote();
}

void pytorch_evaluator::compile_ahead(const evaluation_request& request) {
  if (request.subject->lane != &pytorch_lane) return;
  // What goes wrong here goes wrong again, and is told, when the candidate's turn comes.
  (void)state_->builds->build_ahead(request.source);
}

std::optional<std::string> pytorch_evaluator::state::self_test() {
  auto subject = parse_task(module_self_test);
  if (!subject) return subject.error().message;
  tasks->renew();
  evaluation_request request;
  request.subject = std::make_shared<const task>(std::move(*subject));
  request.source = fmt::format(
      "import torch\n\nclass ModelNew(torch.nn.Module):\n    number = {}\n\n"
      "    def forward(self, x):\n        return x + x\n",
      ++self_tests);
  request.verify_only = true;
  verdict v;
  const measure_name how;
  pytorch_evaluation one(*this, request, how, v);
  one.run();
  if (v.kind != verdict_kind::ok) return fmt::format("{}: {}", name_of(v.kind), v.detail);
  return std::nullopt;
}

std::optional<device_trouble> pytorch_evaluator::trouble() const {
  return state_->care.trouble();
}

void pytorch_evaluator::recover() {
  state_->care.recover([this] { return state_->self_test(); });
}

const std::string& pytorch_evaluator::device_class() const {
  return state_->device_class;
}

const std::string& pytorch_evaluator::environment() const {
  return state_->environment;
}

}  // namespace quern::env
