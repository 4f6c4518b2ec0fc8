// Times a candidate against its baseline.
#include "env/core/timing.hpp"

#include <algorithm>
#include <utility>

#include "base/random.hpp"
#include "env/core/cache_flush.hpp"
#include "env/core/handshake.hpp"
#include "env/core/idle_charge.hpp"
#include "env/core/measuring_clock.hpp"
#include "env/core/window_contents.hpp"
#include "env/core/window_outputs.hpp"
#include "env/core/window_time.hpp"
#include "env/judge/compare.hpp"
#include "env/judge/core_lock.hpp"
#include "env/judge/judge_layer.hpp"
#include "env/judge/timing_session.hpp"
#include "env/measure/stats.hpp"
#include "env/measure/window_plan.hpp"

namespace quern::env {
namespace {

constexpr question_limits baseline_limits{30, 120};
/// Calls of the rehearsal, at most.
constexpr std::int64_t rehearsal_slots = 4;
/// In every window, so that a result that belongs to another call is seen.
constexpr std::int64_t least_slots = 2;
/// Share of pairs before which there is a window with some hidden content; before one there are
/// windows with all of it.
constexpr double hidden_share = 1.0 / 16;

finding host_error(std::string text) {
  return {verdict_kind::infra_error, "", std::move(text), std::nullopt};
}

/// Both sides on one core, in turns: windows by this process's clock.
class core_sides final : public timed_sides {
 public:
  explicit core_sides(const timing_request& request)
      : request_(request),
        task_(*request.task),
        instance_(task_.timed.instance),
        order_(request.order_seed, "window order") {}

  timing_result measure();

  finding rehearse() override;
  finding between() override;
  finding pair(std::size_t list, bool candidate_first, std::optional<window_pair>& took) override;
  [[nodiscard]] bool narrow(std::span<const process_pairs> lists) const override {
    const process_pairs net = charged(lists.front());
    return narrow_enough({&net, 1}, request_.limits);
  }
  [[nodiscard]] bool even(std::span<const process_pairs> lists, double /*budgets*/) const override {
    const process_pairs net = charged(lists.front());
    return even_enough({&net, 1}, request_.limits);
  }

 private:
  finding prepare_baseline(std::int64_t slots, const tensor_arena& inputs,
                           candidate_memory& memory);
  finding set_up(std::int64_t slots);
  finding measure_baseline_once();
  /// Why the baseline did not answer: its own fault, or its process is lost.
  finding baseline_failed(const runner_failure& why);
  finding refresh();
  /// All calls of a window, their inputs shown: nanoseconds from questions to answers.
  answered<std::int64_t> run_calls(runner_link& link, question_limits limits);
  finding window(bool candidate, double& ns, bool& disturbed);
  [[nodiscard]] process_pairs charged(process_pairs pairs) const;
  finding check_outputs();
  finding pair_of_windows(bool candidate_first, window_pair& per_call, bool& disturbed);
  finding pair_unkept(window_pair& per_call);
  finding hidden_windows();

  runner_link& baseline_link() { return *request_.baseline.link; }

  const timing_request& request_;
  const core_task& task_;
  const task_instance& instance_;
  base::random_stream order_;
  base::steady_clock steady_;
  measuring_clock clock_{steady_, static_cast<base::nanoseconds_t>(4e9 * request_.budget_s)};
  cache_flush flush_;
  waiting_time own_waiting_ = waiting_time::of_this_thread();
  std::optional<window_contents> contents_;
  candidate_memory baseline_memory_, candidate_memory_;
  std::int64_t slots_ = 0;  ///< calls of a window
  std::uint64_t call_ = 0;
  /// Pairs that were asked for, and the one before which all hidden content comes.
  std::int64_t round_ = 0, surely_hidden_ = 0;
  std::int64_t next_hidden_ = 0;
  handshake handshake_;
  idle_charge idle_;
  timing_result result_;
};

finding core_sides::prepare_baseline(std::int64_t slots, const tensor_arena& inputs,
                                     candidate_memory& memory) {
  if (request_.baseline.plain != nullptr) {
    candidate_checker side(*request_.baseline.plain, baseline_limits);
    // Loaded before in a process that is kept; then this only tells whether it has a workspace.
    auto f = side.load(request_.baseline.plain_artefact.string());
    if (f.ok()) f = side.prepare(instance_, slots, &inputs, memory);
    // Its process is of no more use, whatever it was.
    result_.baseline_gone = f.doubtful;
    return f.ok() ? finding{} : of_plain_baseline(f);
  }
  auto outputs = tensor_arena::create(memory_use::outputs, instance_.outputs, slots);
  if (!outputs) return host_error(outputs.error().message);
  memory.outputs.emplace(std::move(*outputs));
  auto plan = make_plan(instance_, inputs, *memory.outputs);
  if (!plan) return host_error(plan.error().message);
  auto& link = baseline_link();
  auto step = link.map(inputs.request(0), inputs.fd(), baseline_limits);
  if (step)
    step = link.map(memory.outputs->request(1, inputs), memory.outputs->fd(), baseline_limits);
  if (step) step = link.plan(*plan, baseline_limits);
  if (!step) return baseline_failed(step.error());
  return {};
}

finding core_sides::baseline_failed(const runner_failure& why) {
  using enum runner_failure::kind;
  result_.baseline_gone = why.failure_kind == gone || why.failure_kind == forged || why.stopped;
  const bool own_fault = why.failure_kind == refused || why.failure_kind == fault;
  return {own_fault ? verdict_kind::invalid_reference : verdict_kind::infra_error, "",
          "baseline: " + why.text, std::nullopt};
}

finding core_sides::set_up(std::int64_t slots) {
  slots_ = slots;
  auto contents = window_contents::create(
      instance_, slots, request_.calls_one_by_one && judges_with(judge_layer::unseen_inputs));
  if (!contents) return host_error(contents.error().message);
  contents_.emplace(std::move(*contents));
  idle_.forget();
  if (auto f = refresh(); !f.ok()) return f;
  if (auto f = prepare_baseline(slots, contents_->shared(), baseline_memory_); !f.ok()) return f;
  return request_.checker->prepare(instance_, slots, &contents_->shared(), candidate_memory_);
}

finding core_sides::measure_baseline_once() {
  auto inputs = make_input_arena(instance_, 1);
  if (!inputs) return host_error(inputs.error().message);
  for (std::size_t i = 0; i < instance_.inputs.size(); ++i)
    std::copy(task_.timed.cases[0].inputs[i].begin(), task_.timed.cases[0].inputs[i].end(),
              inputs->at(i, 0).begin());
  candidate_memory memory;
  if (auto f = prepare_baseline(1, *inputs, memory); !f.ok()) return f;
  std::vector<double> times;
  for (int i = 0; i < 4; ++i) {
    auto ns = baseline_link().run(0, 1, baseline_limits);
    if (ns && request_.baseline.delivers)
      if (auto flushed = baseline_link().flush(baseline_limits); !flushed)
        return baseline_failed(flushed.error());
    if (!ns) return baseline_failed(ns.error());
    times.push_back(static_cast<double>(*ns));
  }
  // A plain kernel that computes something else would be what timed outputs are compared with.
  if (request_.baseline.plain != nullptr)
    for (std::size_t o = 0; o < instance_.outputs.size(); ++o)
      if (auto wrong = compare_tensor(instance_.outputs[o], request_.limit.at(o),
                                      memory.outputs->at(o, 0), task_.timed.cases[0].want[o]))
        return {verdict_kind::invalid_reference, "",
                fmt::format("the plain kernel does not compute what the reference does: {}",
                            describe(*wrong)),
                std::move(wrong)};
  result_.baseline_ns = *std::min_element(times.begin(), times.end());
  return {};
}

finding core_sides::refresh() {
  if (!judges_with(judge_layer::fresh_content)) call_ = request_.first_call;
  if (request_.maker != nullptr) {
    clock_.pause();
    const auto made = request_.maker->fill(call_, contents_->all());
    clock_.go_on();
    call_ += static_cast<std::uint64_t>(contents_->all().slots());
    return made ? finding{} : host_error(made.error().message);
  }
  draw_timed_inputs(task_, call_, slots_, contents_->all());
  call_ += static_cast<std::uint64_t>(slots_);
  return {};
}

answered<std::int64_t> core_sides::run_calls(runner_link& link, question_limits limits) {
  const std::int64_t at_once = contents_->calls_at_once(slots_);
  std::int64_t wall_ns = 0;
  for (std::int64_t call = 0; call < slots_; call += at_once) {
    contents_->show(call);
    const auto took = link.run(call, call + at_once, limits);
    if (!took) return took;
    wall_ns += *took;
  }
  return wall_ns;
}

finding core_sides::window(bool candidate, double& ns, bool& disturbed) {
  auto& link = candidate ? request_.candidate->link() : baseline_link();
  const double expected_s =
      (result_.baseline_ns + request_.checker->call_ns()) * static_cast<double>(slots_) * 1e-9;
  const question_limits limits =
      candidate ? question_limits{1 + 20 * expected_s, 30 + 200 * expected_s} : baseline_limits;
  flush_();
  const std::int64_t child_before = link.waited_ns(), own_before = own_waiting_.ns();
  const std::int64_t cpu = link.cpu_ns();
  idle_.asked(candidate, cpu);
  // New inputs, the baseline's window and the flushed cache lie between the last answer and this
  // question: milliseconds in which work that was put off would cost nothing.
  if (candidate)
    if (auto f = request_.checker->check_still_quiet(cpu); !f.ok()) return f;
  const base::nanoseconds_t asked = clock_.now_ns();
  const auto wall = run_calls(link, limits);
  const std::int64_t cpu_after = link.cpu_ns();
  const base::nanoseconds_t looked = clock_.now_ns() - asked;
  if (!wall) {
    if (candidate)
      return request_.checker->explain(wall.error(), &candidate_memory_, &instance_, "time");
    return baseline_failed(wall.error());
  }
  const auto questions = static_cast<double>(slots_ / contents_->calls_at_once(slots_));
  const auto wall_ns = static_cast<double>(*wall), cpu_ns = static_cast<double>(cpu_after - cpu);
  const window_time took =
      time_of_window({wall_ns, cpu_ns, static_cast<double>(link.waited_ns() - child_before),
                      static_cast<double>(own_waiting_.ns() - own_before),
                      questions * handshake_.wall_ns, questions * handshake_.cpu_ns});
  ns = took.ns;
  disturbed |= took.disturbed;
  // What it may have used between its answer and our look at its clock is held against the answer.
  const std::int64_t late = std::clamp<std::int64_t>(
      cpu_after - cpu - *wall, 0, std::max<base::nanoseconds_t>(looked - *wall, 0));
  idle_.answered(candidate, cpu_after - late);
  if (candidate) {
    // One core: more CPU time than wall time beyond that is work that was done elsewhere.
    if (judges_with(judge_layer::cpu_and_wall) &&
        cpu_ns - static_cast<double>(late) > 1.2 * wall_ns + 5e5)
      return {verdict_kind::hack, std::string(name_of(hack_kind::timing)),
              fmt::format("{} us of CPU time in a window of {:.0f} us", (cpu_after - cpu) / 1000,
                          ns / 1000),
              std::nullopt};
    return request_.checker->check_quiet(candidate_memory_, instance_, slots_, cpu_after - late);
  }
  if (request_.baseline.delivers) {
    if (auto flushed = link.flush(baseline_limits); !flushed)
      return baseline_failed(flushed.error());
    idle_.answered(false, link.cpu_ns());
  }
  return {};
}

/// The pairs so far, with what was done behind answers.
process_pairs core_sides::charged(process_pairs pairs) const {
  if (!judges_with(judge_layer::idle_charge)) return pairs;
  return idle_.charged(std::move(pairs), slots_);
}

finding core_sides::check_outputs() {
  // A plain baseline is itself only within the tolerance of the reference.
  const bool is_plain = request_.baseline.plain != nullptr;
  const output_limits limit = is_plain ? request_.limit.widened(2) : request_.limit;
  return check_window_outputs(instance_, limit, slots_, *candidate_memory_.outputs,
                              *baseline_memory_.outputs);
}

finding core_sides::pair_of_windows(bool candidate_first, window_pair& per_call, bool& disturbed) {
  double ref_ns = 0, cand_ns = 0;
  for (bool candidate : {candidate_first, !candidate_first})
    if (auto f = window(candidate, candidate ? cand_ns : ref_ns, disturbed); !f.ok()) return f;
  per_call = {ref_ns / static_cast<double>(slots_), cand_ns / static_cast<double>(slots_)};
  return check_outputs();
}

finding core_sides::pair_unkept(window_pair& per_call) {
  bool disturbed = false;
  return pair_of_windows(false, per_call, disturbed);
}

finding core_sides::pair(std::size_t, bool candidate_first, std::optional<window_pair>& took) {
  window_pair per_call;
  bool disturbed = false;
  if (auto f = refresh(); !f.ok()) return f;
  if (auto f = pair_of_windows(candidate_first, per_call, disturbed); !f.ok()) return f;
  if (disturbed) {
    ++result_.disturbed;
    return {};
  }
  took = per_call;
  idle_.begin_pair();
  return {};
}

finding core_sides::between() {
  const bool now = order_.chance(hidden_share);
  const auto hidden = round_ == surely_hidden_ ? std::ssize(task_.timed.cases) - 1 : now ? 1 : 0;
  ++round_;
  for (std::int64_t done = 0; done < hidden; done += slots_)
    if (auto f = hidden_windows(); !f.ok()) return f;
  return {};
}

/// Windows that do not count, with hidden distributions in some of its calls, the next ones in
/// turn: a kernel that is careful only while it is checked cannot tell that it is, neither by
/// poison nor by counting calls. The baseline runs, too, and its outputs are read: what is touched
/// once more than the other side's stays in the cache, and made a kernel 5 % faster than itself.
finding core_sides::hidden_windows() {
  const auto& cases = task_.timed.cases;
  const auto hidden = static_cast<std::int64_t>(cases.size()) - 1;
  if (hidden < 1 || !judges_with(judge_layer::hidden_windows) ||
      !judges_with(judge_layer::fresh_content))
    return {};
  const std::int64_t some = std::min(hidden, slots_);
  const auto first = static_cast<std::int64_t>(order_.below(static_cast<std::uint64_t>(slots_)));
  const auto case_of = [&](std::int64_t k) -> const expected_case& {
    return cases[static_cast<std::size_t>(1 + (next_hidden_ + k) % hidden)];
  };
  if (auto f = refresh(); !f.ok()) return f;
  for (std::int64_t k = 0; k < some; ++k)
    for (std::size_t i = 0; i < instance_.inputs.size(); ++i)
      std::copy(case_of(k).inputs[i].begin(), case_of(k).inputs[i].end(),
                contents_->all().at(i, (first + k) % slots_).begin());
  double ns = 0;
  bool disturbed = false;
  const bool candidate_first = order_.chance(0.5);
  for (bool candidate : {candidate_first, !candidate_first})
    if (auto f = window(candidate, ns, disturbed); !f.ok()) return f;
  for (std::int64_t k = 0; k < some; ++k)
    if (auto f = check_hidden_call(task_.timed, case_of(k), request_.limit, (first + k) % slots_,
                                   *candidate_memory_.outputs, *baseline_memory_.outputs);
        !f.ok())
      return f;
  next_hidden_ += some;
  return {};
}

/// Chooses the calls in a window and sets them up. What is known so far is a call that was repeated
/// on the same data: a few calls, each on its own, tell how long one takes when its data come from
/// memory.
finding core_sides::rehearse() {
  if (result_.baseline_ns <= 0)
    if (auto f = measure_baseline_once(); !f.ok()) return f;
  window_request sizes;
  sizes.ref_call_ns = result_.baseline_ns;
  sizes.cand_call_ns = request_.checker->call_ns();
  sizes.bytes_per_call = static_cast<std::int64_t>(tensor_arena::slot_bytes(instance_.inputs) +
                                                   2 * tensor_arena::slot_bytes(instance_.outputs));
  sizes.budget_ns = request_.budget_s * 1e9;
  window_pair per_call;
  const auto few = std::clamp(calls_per_window(sizes), least_slots, rehearsal_slots);
  if (auto f = set_up(few); !f.ok()) return f;
  // The first pass touches every page of both sides.
  if (auto f = pair_unkept(per_call); !f.ok()) return f;
  idle_.forget();
  handshake_ = handshake_of(baseline_link(), baseline_limits);
  result_.handshake_ns = handshake_.wall_ns;
  if (auto f = pair_unkept(per_call); !f.ok()) return f;
  sizes.ref_call_ns = per_call.ref_ns;
  sizes.cand_call_ns = per_call.cand_ns;
  const auto slots = std::max(least_slots, calls_per_window(sizes));
  slots_ = slots;  // in memory that is there, unless there are more
  if (slots > few) {
    if (auto f = set_up(slots); !f.ok()) return f;
    if (auto f = pair_unkept(per_call); !f.ok()) return f;
  }
  surely_hidden_ = static_cast<std::int64_t>(order_.below(bucket_count));
  return {};
}

timing_result core_sides::measure() {
  timing_session session(*this, paired_protocol, request_.budget_s, order_, clock_);
  call_ = request_.first_call;
  come_first(baseline_link().pid());
  come_first(request_.candidate->link().pid());
  result_.baseline_ns = task_.baseline_ns;
  result_.outcome = session.run();
  result_.next_call = call_;
  result_.seconds = session.seconds();
  result_.calls_per_window = slots_;
  if (!result_.outcome.ok()) return std::move(result_);

  auto& pairs = session.times().pairs.front();
  std::vector<double> refs;
  for (const auto& p : pairs)
    refs.push_back(p.ref_ns);
  if (!refs.empty()) result_.baseline_ns = median_of(refs);
  idle_.asked(true, request_.candidate->link().cpu_ns());
  result_.pairs = charged(std::move(pairs));
  return std::move(result_);
}

}  // namespace

timing_result time_candidate(const timing_request& request) {
  return core_sides(request).measure();
}

}  // namespace quern::env
