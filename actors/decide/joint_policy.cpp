// Blame, deadlines and the restart of all.
#include "actors/decide/joint_policy.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <signal.h>

#include "actors/defaults.hpp"

namespace quern::actors {
namespace {

constexpr nanoseconds_t second_ns = 1'000'000'000;
/// An owner that did not look for longer was itself held up (Ctrl-Z), and its processes perhaps
/// with it.
constexpr nanoseconds_t longest_look = 10 * second_ns;

std::string failure_of(const joint_end& end, const std::string& how) {
  return fmt::format("{} {}; {}", end.process, how,
                     end.log.empty() ? "what it said stands above" : "its log is " + end.log);
}

double seconds(nanoseconds_t time) {
  return static_cast<double>(time) / 1e9;
}

}  // namespace

joint_policy::joint_policy(std::string role, std::string kept, const joint_limits& limits,
                           std::int64_t reached)
    : role_(std::move(role)),
      kept_(std::move(kept)),
      limits_(limits),
      restarts_(limits.restarts),
      reached_(reached) {}

void joint_policy::started(const std::vector<std::string>& processes, nanoseconds_t now) {
  round_ = {};
  for (const std::string& process : processes)
    round_.members.push_back({.process = process, .lived = now});
}

bool joint_policy::all_ended() const {
  return std::all_of(round_.members.begin(), round_.members.end(),
                     [](const member& one) { return one.over; });
}

bool joint_policy::lost() const {
  return round_.blamed == blame::left || round_.blamed == blame::killed;
}

/// Killed since the others had ended or a pause was not answered; silence is a fault of its own.
bool joint_policy::is_killed_late(const member& one, const base::exit_state& state) const {
  return round_.out_of_patience && state.signal == SIGKILL && !one.silent;
}

void joint_policy::ended(const joint_end& news, nanoseconds_t now) {
  const auto found =
      std::find_if(round_.members.begin(), round_.members.end(),
                   [&](const member& one) { return one.process == news.process && !one.over; });
  if (found == round_.members.end()) return;
  found->over = true;
  if (round_.first_end < 0) round_.first_end = now;
  const base::exit_state& state = news.state;
  if (state.signal == 0 && state.code == 0) return;
  if (state.signal == 0 && state.code == defaults::paused_code) {
    // Not where it was asked to because another was lost.
    round_.paused |= asked_ != pause_request::none || round_.pause_sent < 0;
    return;
  }
  if (is_killed_late(*found, state)) {
    // Where the others ended well, they had done all there was to do.
    if (!round_.problem.empty())
      round_.problem += fmt::format("; {} did not end by itself and was killed", news.process);
    return;
  }
  const bool thrown_out = state.signal == 0 && state.code == defaults::worker_failed_code;
  const blame own = state.code == defaults::group_failed_code ? blame::left
                    : state.signal != 0 || thrown_out         ? blame::killed
                                                              : blame::said;
  if (own <= round_.blamed) return;
  round_.blamed = own;
  std::string how = "ended: " + base::describe(state);
  if (found->silent && state.signal == SIGKILL)
    how = fmt::format("gave no sign of life for {:.0f} s and was killed", seconds(limits_.silence));
  if (own == blame::said && !news.last_words.empty()) how += fmt::format(" ({})", news.last_words);
  round_.problem = failure_of(news, how);
}

void joint_policy::asked_to_pause(pause_request request) {
  // Sent by the next look: the time of the answer counts from there.
  if (asked_ == pause_request::none && request != pause_request::none) round_.pause_sent = -1;
  asked_ = std::max(asked_, request);
}

std::vector<std::string> joint_policy::to_be_heard(nanoseconds_t now) {
  std::vector<std::string> alive;
  if (limits_.silence == for_ever) return alive;
  const bool first = round_.heard < 0;
  if (!first && now - round_.heard < std::min(second_ns, limits_.silence / 4)) return alive;
  const nanoseconds_t asleep = first ? 0 : now - round_.heard - longest_look;
  round_.heard = now;
  for (member& one : round_.members) {
    if (one.over) continue;
    if (asleep > 0) one.lived += asleep;
    alive.push_back(one.process);
  }
  return alive;
}

void joint_policy::heard(const std::string& process, const std::string& used, nanoseconds_t now) {
  for (member& one : round_.members) {
    if (one.process != process || (!used.empty() && used == one.used)) continue;
    one.used = used;
    one.lived = now;
  }
}

void joint_policy::kill_all(orders& now_due) {
  round_.out_of_patience = true;
  now_due.kill.clear();
  for (const member& one : round_.members)
    if (!one.over) now_due.kill.push_back(one.process);
}

joint_policy::orders joint_policy::look(nanoseconds_t now) {
  orders due;
  if (all_ended()) return due;
  const bool asked = asked_ != pause_request::none || (limits_.pause_others && lost());
  if (asked && round_.pause_sent < 0) {
    due.pause = true;
    round_.pause_sent = now;
  }
  if (round_.out_of_patience) return due;
  for (member& one : round_.members) {
    if (one.over || one.silent || limits_.silence == for_ever) continue;
    one.silent = now - one.lived > limits_.silence;
    if (one.silent) due.kill.push_back(one.process);
  }
  if (asked_ == pause_request::at_once) {
    kill_all(due);
    due.warning = "ending at once: what has not paused is killed";
  } else if (round_.pause_sent >= 0 && now - round_.pause_sent > limits_.pause) {
    kill_all(due);
    due.warning = fmt::format("no pause within {:.0f} s: what has not paused is killed",
                              seconds(limits_.pause));
  } else if (round_.first_end >= 0 && now - round_.first_end > limits_.others) {
    kill_all(due);
  }
  return due;
}

joint_policy::outcome joint_policy::settle(const std::function<std::int64_t()>& reached,
                                           nanoseconds_t now) {
  using kind = outcome::kind;
  const bool paused = round_.paused || asked_ != pause_request::none;
  if (round_.blamed == blame::said) return {kind::failed, round_.problem};
  if (paused) return {kind::paused};
  if (round_.problem.empty()) return {kind::finished};
  const std::int64_t kept_now = reached();
  in_vain_ = kept_now > reached_ ? 1 : in_vain_ + 1;
  reached_ = kept_now;
  const auto decision = restarts_.died(role_, now);
  if (!decision.restart || in_vain_ > limits_.restarts.most)
    return {kind::failed,
            fmt::format("{}; {} losses since the last new {}, of {} within {} s (actors.restarts "
                        "is {})",
                        round_.problem, in_vain_, kept_, decision.deaths,
                        seconds(limits_.restarts.window_ns), limits_.restarts.most)};
  return {kind::again, fmt::format("{}; it goes on from the last {}", round_.problem, kept_),
          decision.delay_ns};
}

}  // namespace quern::actors
