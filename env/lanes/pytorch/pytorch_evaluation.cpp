// One evaluation, stage by stage.
#include "base/thread_deadline.hpp"
#include "env/lanes/pytorch/pytorch_state.hpp"

namespace quern::env {

question_limits pytorch_evaluation::load_limits() const {
  const double s = state_.options.load_cpu_s;
  return {s, 60 + 4 * s};
}

question_limits pytorch_evaluation::call_limits() const {
  const double s = state_.options.call_cpu_s;
  return {s, 60 + 4 * s};
}

bool pytorch_evaluation::fail_task(const base::error& e) {
  if (e.code != base::errc::exhausted) return fail_reference(e);
  return settle({verdict_kind::unsupported, "", e.message, std::nullopt});
}

bool pytorch_evaluation::prepare() {
  stage_clock clock(state_.seconds.reference);
  used_device_ = true;
  auto prepared = state_.tasks->get(request_.subject);
  if (!prepared) return fail_task(prepared.error());
  task_ = *prepared;
  auto file = write_module("candidate.py", request_.source);
  if (!file) return fail_host(file.error());
  file_.emplace(std::move(*file));
  return true;
}

finding pytorch_evaluation::qualified(const finding& f) const {
  if (f.cause != runner::cause::not_here || obstacle_.empty()) return f;
  return {verdict_kind::unsupported, "", obstacle_, std::nullopt};
}

bool pytorch_evaluation::build() {
  stage_clock clock(state_.seconds.compile);
  const auto refuse = [&](std::string why) {
    return settle({verdict_kind::unsupported, "", std::move(why), std::nullopt});
  };
  const python_facts facts = facts_of_python(tokenize_python(request_.source));
  obstacle_ = cannot_run_here(facts);
  if (!facts.uses_load && !facts.uses_load_inline) return true;
  auto zygote = state_.tasks->zygote();
  if (!zygote) return fail_reference(zygote.error());
  const auto requests = recorded_extensions(**zygote, file_->path.string(), &task_->sheet,
                                            {load_limits(), call_limits()});
  if (!requests)
    if (const auto found = finding_of_recording(requests.error())) return settle(*found);
  if (!requests) return fail_reference(requests.error());
  if (std::string why = cannot_run_here(*requests); !why.empty()) return refuse(std::move(why));
  auto built = state_.builds->build(*requests, file_->folder.path());
  if (base::thread_deadline::is_over())
    return settle(
        {verdict_kind::timeout, "compile", "its extensions were not built", std::nullopt});
  if (!built) return fail_host({base::errc::unavailable, built.error().message});
  built_ = std::move(*built);
  if (built_.told) note_compiler(*built_.told);
  return true;
}

std::unique_ptr<module_process> pytorch_evaluation::start() {
  stage_clock clock(state_.seconds.start);
  auto zygote = state_.tasks->zygote();
  if (!zygote) {
    fail_reference(zygote.error());
    return nullptr;
  }
  const std::string path = file_->path.string();
  python_start how;
  how.core = state_.core.core();
  how.read_only = built_.files;
  how.read_only.push_back(path);
  how.classes = {"ModelNew", "Model"};
  how.extensions = built_.folder;
  auto child = (*zygote)->fork(how);
  if (!child) {
    fail_reference(child.error());
    return nullptr;
  }
  auto process = std::make_unique<module_process>(**zygote, std::move(*child));
  candidate_checker checker(*process, load_limits());
  // What a module does when it is imported is its build: KernelBench says the same.
  const auto loaded = process->child().load(path, load_limits());
  verdict_.sandbox = process->layers().names();
  if (!loaded) {
    finding f = checker.explain(loaded.error(), nullptr, nullptr, "load");
    if (loaded.error().failure_kind == runner_failure::kind::refused) {
      f = {verdict_kind::compile_error, "", why_not_loaded(built_, loaded.error().text),
           std::nullopt};
      f.cause = loaded.error().last.why;
    }
    settle(f);
    return nullptr;
  }
  const auto made = process->child().construct(task_->making, task_->sheet, task_->weights,
                                               load_limits(), named_);
  if (!made) {
    settle(checker.explain(made.error(), nullptr, nullptr, "load"));
    return nullptr;
  }
  weights_changed_ = made->weights_changed;
  return process;
}

bool pytorch_evaluation::verify() {
  first_process_ = start();
  if (!first_process_) return false;
  stage_clock clock(state_.seconds.verify);
  candidate_checker checker(*first_process_, call_limits());
  if (settle(checker.probe(task_->timed, task_->limit, verdict_.checks))) {
    call_ns_ = checker.call_ns();
    return true;
  }
  const bool may_be_by_weights = verdict_.kind == verdict_kind::wrong_value && weights_changed_ &&
                                 named_ == named_weights::of_reference;
  if (!may_be_by_weights) return false;
  const verdict first = verdict_;
  named_ = named_weights::as_constructed;
  begin_checks_again();
  verdict_.checks.push_back({"weights", true, "as its constructor made them"});
  if (verify()) return true;
  // What the first try showed is for its author; what went wrong on this host is not its doing.
  if (judges_candidate(verdict_.kind)) verdict_ = first;
  return false;
}

bool pytorch_evaluation::measure_once(std::uint64_t round, process_pairs& into) {
  std::unique_ptr<module_process> process = std::move(first_process_);
  if (!process) process = start();
  if (!process) return false;
  auto zygote = state_.tasks->zygote();
  if (!zygote) return fail_reference(zygote.error());
  std::unique_ptr<module_process> reference;
  {
    stage_clock clock(state_.seconds.start);
    auto fresh = fresh_reference(*task_, **zygote, state_.core.core());
    if (!fresh) return fail_task(fresh.error());
    reference = std::move(*fresh);
  }
  candidate_checker checker(*process, call_limits());
  const measured_sides sides{process.get(), &checker,
                             baseline_side::of_reference(reference->link(), false),
                             task_->content.get(), task_->timed.in_a_row.empty()};
  const bool timed = time_sides(*task_, task_->limit, sides, round, into);
  // Here, and not when they were taken: a fork beside a window would be a neighbour of it. No
  // window begins before a reference has been asked for, which waits until these stand.
  state_.tasks->prefork();
  if (!timed) return false;
  stage_clock clock(state_.seconds.reverify);
  return settle(checker.probe(task_->timed, task_->limit, verdict_.checks));
}

void pytorch_evaluation::run() {
  if (prepare() && build() && verify() && is_measured(request_, measure_)) time(*task_);
  // What ended without a window. The next evaluation finds children while this verdict is on its
  // way.
  state_.tasks->prefork();
}

}  // namespace quern::env
