// What a candidate must be right on before and behind the clock, and what memory it takes
// meanwhile.
#include <cerrno>
#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include <signal.h>

#include "env/core/candidate_checks.hpp"
#include "env/gpu/check_layer.hpp"
#include "env/judge/judgement.hpp"
#include "env/lanes/pytorch/gpu/module_limits.hpp"
#include "env/lanes/pytorch/gpu/pytorch_device_state.hpp"

namespace quern::env {
namespace {

/// Of a first call: libraries choose their kernels.
constexpr double first_call_s = 60;
/// Share of the device's memory that a candidate may take beyond what it is lent.
constexpr double most_of_device_for_candidate = 0.5;

}  // namespace

void pytorch_device_evaluation::begin_look(step_clock& step, std::uint64_t others) {
  step.next(memory_step);
  looking_.emplace(&*own_memory_, others);
}

void pytorch_device_evaluation::end_look(step_clock& step) {
  if (!looking_) return;
  step.next(memory_step);
  looking_.reset();
}

bool pytorch_device_evaluation::within_memory() {
  if (!own_memory_ || !is_on(check_layer::memory)) return true;
  const auto most = static_cast<std::uint64_t>(
      most_of_device_for_candidate *
      static_cast<double>(state_.manager->context().facts().memory_bytes));
  const std::uint64_t taken = own_memory_->bytes();
  if (taken <= most) return true;
  return settle({verdict_kind::oom, "",
                 fmt::format("the candidate's process took {} MiB of device memory beyond what it "
                             "is lent, the limit is {} MiB",
                             taken >> 20, most >> 20),
                 std::nullopt});
}

std::optional<finding> pytorch_device_evaluation::called_on(device_module_calls& calls,
                                                            const module_case& one,
                                                            const std::string& name, bool looks) {
  device_window took;
  const std::span<const module_case> window(&one, 1);
  step_clock step(state_.steps, "checks: content");
  finding f = calls.make(window);
  step.next("checks: the reference");
  if (f.ok()) f = calls.reference(1, false, took);
  if (f.ok()) {
    if (looks) begin_look(step);
    step.next("checks: the candidate");
    f = calls.candidate(1, first_call_s, took);
  }
  // What it took may be why it failed.
  if (looks || !f.ok()) end_look(step);
  if (!within_memory()) return std::nullopt;
  // What follows is looked at together, with what the reference takes. It has its memory by now,
  // and gives it back where it runs in f64.
  if (looks && f.ok()) begin_look(step, moved_by_reference);
  step.next("checks: comparing");
  if (f.ok()) f = calls.compare(window, name, &step);
  begins_again_ = calls.begins_again();
  return f;
}

device_module_calls pytorch_device_evaluation::calls_by(std::uint64_t seed) {
  device_module_calls calls(*task_, state_.manager->context(), state_.manager->memory(),
                            *candidate_, seed);
  calls.end_candidate_by([this] { return end_candidate(); });
  return calls;
}

bool pytorch_device_evaluation::end_candidate() {
  looking_.reset();
  const int pid = candidate_->child().pid();
  if (auto zygote = state_.manager->zygote()) (void)(*zygote)->end(candidate_->child());
  candidate_.reset();
  // A process with much memory of the device takes seconds to end.
  constexpr int most_looks = 1000;
  constexpr auto between_looks = std::chrono::milliseconds(10);
  for (int i = 0; i < most_looks; ++i) {
    if (::kill(pid, 0) != 0) return errno == ESRCH;
    std::this_thread::sleep_for(between_looks);
  }
  return false;
}

bool pytorch_device_evaluation::check(device_module_calls& calls, const module_case& one,
                                      const std::string& name, bool looks) {
  const auto f = called_on(calls, one, name, looks);
  if (!f || begins_again_) return false;
  verdict_.checks.push_back({name, f->ok(), f->detail});
  return settle_call(*f);
}

std::optional<bool> pytorch_device_evaluation::check_narrowly(device_module_calls& calls,
                                                              std::size_t place,
                                                              const std::string& name,
                                                              double& stage, bool looks) {
  if (task_->cases[place].limit) return std::nullopt;
  {
    stage_clock clock(state_.seconds.reference);
    const step_clock step(state_.steps, "limits of results, by scale");
    const auto found =
        find_narrow_limit(*task_, place, state_.manager->context(), state_.manager->memory());
    // What it lacks beside the candidate it may have alone.
    if (!found.value_or(false)) return std::nullopt;
  }
  stage_clock clock(stage);
  const module_case one = task_->cases[place];
  const std::size_t cases = task_->cases.size();
  const auto f = called_on(calls, one, name, looks);
  if (!f || begins_again_) return false;
  if (task_->cases.size() < cases) return std::nullopt;  // it judges nobody
  verdict_.checks.push_back({name, f->ok(), f->detail});
  return settle_call(*f);
}

bool pytorch_device_evaluation::limit_case(std::size_t place, bool& can_judge) {
  stage_clock clock(state_.seconds.reference);
  step_clock step(state_.steps, step_of_limits);
  auto use = candidate_ ? device_use::beside_others : device_use::alone;
  const auto found = find_limit(*task_, place, state_.manager->context(), state_.manager->memory(),
                                use, [this] { return end_candidate(); });
  if (!found) return fail_task(found.error());
  can_judge = *found;
  return true;
}

bool pytorch_device_evaluation::find_all_limits() {
  stage_clock clock(state_.seconds.reference);
  step_clock step(state_.steps, step_of_limits);
  auto& context = state_.manager->context();
  auto& memory = state_.manager->memory();
  const candidate_end end = [this] { return end_candidate(); };
  auto use = candidate_ ? device_use::beside_others : device_use::alone;
  for (std::size_t place = 0; place < task_->cases.size();) {
    const module_case one = task_->cases[place];  // it may be left out
    const auto found = find_limit(*task_, place, context, memory, use, end);
    // What lies within a narrow limit is right all the same.
    const bool refused =
        !found && (found.error().code == base::errc::exhausted ||
                   (task_->cannot_widen && one.family == task_->cases.front().family));
    if (!found && !(one.narrow && refused)) return fail_task(found.error());
    place += found.value_or(true) ? 1 : 0;
  }
  const module_case first = task_->cases.front();
  const auto wider = widen_limits(*task_, {&first, 1}, context, memory, use, end);
  if (!wider && wider.error().code == base::errc::unavailable) return fail_task(wider.error());
  return true;
}

bool pytorch_device_evaluation::verify_otherwise() {
  if (verdict_.kind != verdict_kind::wrong_value) return false;
  const bool as_made = made_.weights_changed && named_ == named_weights::of_reference;
  const bool on_core = made_.own_weights && !task_->making.draws_on_core;
  if (!as_made && !on_core) return false;
  const verdict first = verdict_;
  begin_checks_again();
  candidate_.reset();
  if (as_made) {
    named_ = named_weights::as_constructed;
    verdict_.checks.push_back({"weights", true, "as its constructor made them"});
  } else {
    named_ = named_weights::of_reference;
    verdict_.checks.push_back({"weights", true, "both sides drew on a core"});
    if (!prepare(drawing::on_core)) return false;
  }
  if (start() && verify()) return true;
  // What the first try showed is for its author; what went wrong on this host is not its doing.
  if (judges_candidate(verdict_.kind)) verdict_ = first;
  return false;
}

bool pytorch_device_evaluation::check_case(device_module_calls& calls, std::size_t place) {
  stage_clock clock(state_.seconds.verify);
  return check(calls, task_->cases[place], task_->cases[place].name, !looking_);
}

bool pytorch_device_evaluation::verify() {
  device_module_calls calls = calls_by(request_.seed);
  const std::size_t told = verdict_.checks.size();
  const auto from_the_beginning = [&] {
    begins_again_ = false;
    verdict_.checks.erase(verdict_.checks.begin() + static_cast<std::ptrdiff_t>(told),
                          verdict_.checks.end());
    return start() && verify();
  };
  const auto otherwise = [&] { return begins_again_ ? from_the_beginning() : verify_otherwise(); };
  for (std::size_t i = 0; i < task_->cases.size();) {
    const std::size_t cases = task_->cases.size();
    const std::string name = task_->cases[i].name;  // the case may be left out
    const auto narrowly = check_narrowly(calls, i, name, state_.seconds.verify, !looking_);
    if (narrowly && !*narrowly) return otherwise();
    if (task_->cases.size() < cases) continue;
    if (narrowly) {
      ++i;
      continue;
    }
    bool can_judge = false;
    if (!limit_case(i, can_judge)) return false;
    // This case has its limits now.
    if (!candidate_) return from_the_beginning();
    if (!can_judge) continue;
    if (!check_case(calls, i)) return otherwise();
    ++i;
  }
  const module_case first = task_->cases.front();
  {
    stage_clock clock(state_.seconds.verify);
    const bool right = check(calls, first, first.name + ", again");
    if (!right && !begins_again_) return false;
    step_clock step(state_.steps, memory_step);
    end_look(step);
    if (right) return within_memory() && settle(calls.look_at_guards());
  }
  return from_the_beginning();
}

bool pytorch_device_evaluation::check_again(std::uint64_t round) {
  device_module_calls by_eager = calls_by(request_.seed + round);
  const std::size_t place = task_->cases.size() - 1, cases = task_->cases.size();
  const std::string name = task_->cases[place].name + ", behind the clock";
  const auto again = [&] {
    return std::exchange(begins_again_, false) && start() && check_again(round);
  };
  const auto narrowly = check_narrowly(by_eager, place, name, state_.seconds.reverify, false);
  if (narrowly) return *narrowly || again();
  bool can_judge = false;
  // A case that judges nobody any more: what it would have shown, the first shows.
  if (task_->cases.size() == cases && !limit_case(place, can_judge)) return false;
  if (!candidate_) return start() && check_again(round);
  const module_case one = can_judge ? task_->cases[place] : task_->cases.front();
  bool right = false;
  {
    stage_clock clock(state_.seconds.reverify);
    right = check(by_eager, one, name);
  }
  return right || again();
}

}  // namespace quern::env
