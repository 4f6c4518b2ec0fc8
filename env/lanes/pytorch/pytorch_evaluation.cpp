// One evaluation, stage by stage.
#include <algorithm>
#include <cmath>

#include "base/random.hpp"
#include "base/thread_deadline.hpp"
#include "env/judge/claim.hpp"
#include "env/judge/judge_layer.hpp"
#include "env/lanes/pytorch/pytorch_state.hpp"

namespace quern::env {
namespace {

constexpr double module_lease_wait_s = 120;

}  // namespace

question_limits pytorch_evaluation::load_limits() const {
  const double s = with_.options.load_cpu_s;
  return {s, 60 + 4 * s};
}

question_limits pytorch_evaluation::call_limits() const {
  const double s = with_.options.call_cpu_s;
  return {s, 60 + 4 * s};
}

std::string pytorch_evaluation::what_failed(const std::string& told) const {
  if (!built_.told || built_.told->what == compile_result::kind::built) return told;
  // The compiler's text stands in the verdict; the module says no more than that it was refused.
  const std::string& text = built_.told->text;
  return text.substr(0, text.find('\n'));
}

bool pytorch_evaluation::fail_reference(const base::error& e) {
  lost_reference_ = e.code == base::errc::unavailable;
  return fail_host(e);
}

interruption pytorch_evaluation::interrupted() const {
  const auto why = staged_evaluation::interrupted();
  if (why != interruption::none) return why;
  return lost_reference_ && with_.options.restart_reference ? interruption::reference_lost
                                                            : interruption::none;
}

bool pytorch_evaluation::prepare() {
  stage_clock clock(with_.seconds.reference);
  used_device_ = true;
  auto prepared = with_.tasks->get(request_.subject);
  if (!prepared && prepared.error().code == base::errc::exhausted)
    return settle({verdict_kind::unsupported, "", prepared.error().message, std::nullopt});
  if (!prepared) return fail_reference(prepared.error());
  task_ = *prepared;
  auto file = write_module("candidate.py", request_.source);
  if (!file) return fail_host(file.error());
  file_.emplace(std::move(*file));
  return true;
}

bool pytorch_evaluation::build() {
  stage_clock clock(with_.seconds.compile);
  const auto refuse = [&](std::string why) {
    return settle({verdict_kind::unsupported, "", std::move(why), std::nullopt});
  };
  const python_facts facts = facts_of_python(tokenize_python(request_.source));
  if (std::string why = cannot_run_here(facts); !why.empty()) return refuse(std::move(why));
  if (!facts.uses_load && !facts.uses_load_inline) return true;
  auto zygote = with_.tasks->zygote();
  if (!zygote) return fail_reference(zygote.error());
  const std::string path = file_->path.string();
  python_start how;
  how.read_only = {path};
  auto child = (*zygote)->fork(how);
  if (!child) return fail_reference(child.error());
  const auto answer = child->record(path, task_->sheet.init, load_limits());
  // One that ends its own process, or takes too long, is found out when it is loaded.
  if (!answer) return true;
  const auto requests = parse_recorded_extensions(*answer);
  if (!requests)
    return settle({verdict_kind::compile_error, "", requests.error().message, std::nullopt});
  if (std::string why = cannot_run_here(*requests); !why.empty()) return refuse(std::move(why));
  auto built = with_.builds->build(*requests, file_->folder.path());
  if (base::thread_deadline::is_over())
    return settle(
        {verdict_kind::timeout, "compile", "its extensions were not built", std::nullopt});
  if (!built) return fail_host({base::errc::unavailable, built.error().message});
  built_ = std::move(*built);
  if (built_.told) note_compiler(*built_.told);
  return true;
}

std::unique_ptr<module_process> pytorch_evaluation::start() {
  stage_clock clock(with_.seconds.start);
  auto zygote = with_.tasks->zygote();
  if (!zygote) {
    fail_reference(zygote.error());
    return nullptr;
  }
  const std::string path = file_->path.string();
  python_start how;
  how.core = with_.core.core();
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
    if (loaded.error().what == runner_failure::kind::refused)
      f = {verdict_kind::compile_error, "", what_failed(loaded.error().text), std::nullopt};
    settle(f);
    return nullptr;
  }
  const auto made =
      process->child().construct(task_->making, task_->sheet, task_->weights, load_limits());
  if (!made) {
    settle(checker.explain(made.error(), nullptr, nullptr, "load"));
    return nullptr;
  }
  return process;
}

bool pytorch_evaluation::verify() {
  first_process_ = start();
  if (!first_process_) return false;
  stage_clock clock(with_.seconds.verify);
  candidate_checker checker(*first_process_, call_limits());
  if (!settle(checker.probe(task_->timed, task_->limit, verdict_.checks))) return false;
  call_ns_ = checker.call_ns();
  return true;
}

bool pytorch_evaluation::measure_once(std::unique_ptr<module_process> process, std::uint64_t round,
                                      process_pairs& into) {
  if (!process) process = start();
  if (!process) return false;
  auto zygote = with_.tasks->zygote();
  if (!zygote) return fail_reference(zygote.error());
  std::unique_ptr<module_process> reference;
  {
    stage_clock clock(with_.seconds.start);
    auto fresh = fresh_reference(*task_, **zygote, with_.core.core());
    if (!fresh) return fail_reference(fresh.error());
    reference = std::move(*fresh);
  }
  candidate_checker checker(*process, call_limits());
  checker.expect_call_ns(call_ns_);

  timing_request timed;
  timed.task = task_;
  timed.limit = task_->limit;
  timed.baseline = baseline_side::of_reference(reference->link(), false);
  timed.candidate = process.get();
  timed.checker = &checker;
  timed.maker = task_->content.get();
  base::random_stream addresses(request_.seed, "timing", {round});
  timed.order_seed = addresses.next_u64();
  timed.first_call = addresses.next_u64() >> 8;
  timed.budget_s = with_.options.time_budget_s;
  timed.limits = measuring_limits();
  timing_result result;
  {
    auto lease = core_lease::take(with_.core.core(), module_lease_wait_s);
    if (!lease) return fail_host(lease.error());
    stage_clock clock(with_.seconds.time);
    result = time_candidate(timed);
  }
  if (result.baseline_ns > 0) task_->baseline_ns = result.baseline_ns;
  lost_reference_ = result.baseline_gone;
  verdict_.checks.push_back({"timed outputs", result.what.ok(), result.what.detail});
  if (!settle(result.what)) return false;
  into = std::move(result.pairs);

  // What was right before the clock ran must be right after it.
  stage_clock clock(with_.seconds.reverify);
  return settle(checker.probe(task_->timed, task_->limit, verdict_.checks));
}

estimate_limits pytorch_evaluation::measuring_limits() const {
  estimate_limits limits;
  limits.bucket_deviation *= with_.options.noise_limit / limits.half_width;
  limits.half_width = with_.options.noise_limit;
  limits.narrow = with_.options.precision;
  return limits;
}

void pytorch_evaluation::time() {
  judgement_rules rules;
  rules.null = with_.null;
  rules.limits = measuring_limits();
  rules.claims = {std::llround(100 * request_.recheck_above), request_.best_known_e2};
  rules.floor_ns = judges_with(judge_layer::floor) ? static_cast<double>(task_->floor_ns) : 0;

  measuring how;
  how.measure = [&](std::uint64_t round, std::vector<process_pairs>& into) {
    process_pairs pairs;
    if (!measure_once(std::move(first_process_), round, pairs)) return false;
    into.push_back(std::move(pairs));
    return true;
  };
  how.judge = [&](std::span<const process_pairs> all) {
    judgement j = judge_times(all, rules);
    if (j.kind != verdict_kind::hack) return j;
    // Before anybody is accused: was the floor measured on a busy machine?
    const auto& at = task_->timed.instance;
    task_->floor_ns = roofline_floor_ns(at, with_.tasks->peak().at(at.cost_bytes, true));
    rules.floor_ns = judges_with(judge_layer::floor) ? static_cast<double>(task_->floor_ns) : 0;
    return judge_times(all, rules);
  };
  how.claims = rules.claims;
  how.recheck = request_.recheck;
  how.confirm_at_once = with_.options.confirm_at_once;
  measure_and_settle(how, runs_, claim_e2_, verdict_);
  const auto& timed = task_->timed.instance;
  if (verdict_.time)
    verdict_.work = work_on_core(timed, with_.tasks->peak().at(timed.cost_bytes, false));
}

void pytorch_evaluation::run() {
  if (!prepare() || !build() || !verify()) return;
  if (is_measured(request_, how_)) time();
}

}  // namespace quern::env
