#include "actors/process_group.hpp"

#include <algorithm>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <signal.h>

#include "actors/defaults.hpp"
#include "base/log.hpp"

namespace quern::actors {
namespace {

constexpr base::nanoseconds_t second_ns = 1'000'000'000;
/// Who did not look for longer was itself held up (Ctrl-Z), and its processes perhaps with it.
constexpr base::nanoseconds_t longest_look = 10 * second_ns;

/// The last line of a log that says something, shortened; empty: none.
std::string last_words(const std::filesystem::path& log) {
  constexpr std::streamoff tail = 4096;
  constexpr std::size_t most = 500;
  std::ifstream in(log, std::ios::binary | std::ios::ate);
  if (!in) return {};
  in.seekg(std::max<std::streamoff>(0, static_cast<std::streamoff>(in.tellg()) - tail));
  std::string last;
  for (std::string line; std::getline(in, line);)
    if (line.find_first_not_of(" \t\r") != line.npos) last = line;
  return last.size() <= most ? last : last.substr(0, most) + " ...";
}

std::string failure_of(const process_plan& plan, const std::string& how) {
  // Who has no log says on the terminal what is wrong.
  const std::string log = plan.spec.log.string();
  return fmt::format("{} {}; {}", plan.role, how,
                     log.empty() ? "what it said stands above" : "its log is " + log);
}

/// Time that a process and the children it has waited for took of processors, to be compared;
/// empty: not known.
std::string used_time_of(pid_t pid) {
  std::ifstream in(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(in, text);
  // The name, in parentheses, may hold anything.
  const auto name_end = text.rfind(')');
  if (name_end == text.npos) return {};
  std::istringstream fields(text.substr(name_end + 1));
  std::string all;
  std::string field;
  // proc(5): from the state, which is field 3; utime to cstime are 14 to 17.
  for (int number = 3; number <= 17 && fields >> field; ++number)
    if (number >= 14) all += field + ' ';
  return all;
}

}  // namespace

base::expected<process_group> process_group::start(const std::vector<process_plan>& plans,
                                                   const group_limits& limits) {
  process_group made(limits);
  for (const process_plan& plan : plans) {
    QUERN_TRY(auto child, base::subprocess::start(plan.spec));
    made.members_.push_back({plan, std::move(child)});
    made.members_.back().lived = made.clock_.now_ns();
  }
  return made;
}

group_end process_group::wait(const std::function<pause_request()>& asked) {
  while (look()) {
    const pause_request request = asked();
    if (request != pause_request::none && !pausing_) {
      pausing_ = true;
      ask_to_pause();
    }
    if (request == pause_request::at_once && !out_of_patience_) {
      base::log_warn("control", "ending at once: what has not paused is killed");
      kill_all();
    }
    if (limits_.pause_others && end_.lost && pause_sent_ < 0) ask_to_pause();
    listen();
    end_what_is_late();
  }
  end_.paused |= pausing_;
  return end_;
}

void process_group::ask_to_pause() {
  pause_sent_ = clock_.now_ns();
  for (member& one : members_) {
    one.child.send_signal(SIGTERM);
    // One that is stopped would take note of it when it is too late.
    one.child.send_signal(SIGCONT);
  }
}

void process_group::end_what_is_late() {
  if (out_of_patience_) return;
  const base::nanoseconds_t now = clock_.now_ns();
  const bool others = first_end_ >= 0 && now - first_end_ > limits_.others;
  const bool pause = pause_sent_ >= 0 && now - pause_sent_ > limits_.pause;
  if (pause)
    base::log_warn("control", "no pause within {:.0f} s: what has not paused is killed",
                   static_cast<double>(limits_.pause) / 1e9);
  if (others || pause) kill_all();
}

/// Kills whoever has given no sign of life for too long.
void process_group::listen() {
  if (limits_.silence == for_ever) return;
  const base::nanoseconds_t now = clock_.now_ns();
  if (listened_ >= 0 && now - listened_ < std::min(second_ns, limits_.silence / 4)) return;
  const base::nanoseconds_t asleep = listened_ < 0 ? 0 : now - listened_ - longest_look;
  listened_ = now;
  for (member& one : members_) {
    if (one.ended) continue;
    if (asleep > 0) one.lived += asleep;
    std::string used = used_time_of(one.child.pid());
    if (used.empty() || used != one.used) {
      one.used = std::move(used);
      one.lived = now;
    }
    if (now - one.lived <= limits_.silence) continue;
    one.silent = true;
    one.child.send_signal(SIGKILL);
  }
}

void process_group::kill_all() {
  out_of_patience_ = true;
  for (member& one : members_)
    one.child.send_signal(SIGKILL);
}

/// Takes note of who has ended; whether anybody is left.
bool process_group::look() {
  bool left = false;
  for (member& one : members_) {
    if (one.ended) continue;
    const auto state = one.child.poll();
    one.ended = state.has_value();
    left |= !state;
    if (state) note(one, *state);
  }
  return left;
}

void process_group::note(const member& one, const base::exit_state& state) {
  if (first_end_ < 0) first_end_ = clock_.now_ns();
  if (state.signal == 0 && state.code == 0) return;
  if (state.signal == 0 && state.code == defaults::paused_code) {
    // Not where it was asked to because another was lost.
    end_.paused |= pausing_ || pause_sent_ < 0;
    return;
  }
  const bool silent = one.silent && state.signal == SIGKILL;
  if (out_of_patience_ && state.signal == SIGKILL && !silent) {
    // Where the others ended well, they had done all there was to do.
    if (!end_.problem.empty())
      end_.problem += fmt::format("; {} did not end by itself and was killed", one.plan.role);
    return;
  }
  const bool thrown_out = state.signal == 0 && state.code == defaults::worker_failed_code;
  const blame own = state.code == defaults::group_failed_code ? blame::left
                    : state.signal != 0 || thrown_out         ? blame::killed
                                                              : blame::said;
  if (own <= blamed_) return;
  blamed_ = own;
  std::string how = "ended: " + base::describe(state);
  if (silent)
    how = fmt::format("gave no sign of life for {:.0f} s and was killed",
                      static_cast<double>(limits_.silence) / 1e9);
  if (const std::string said = own == blame::said ? last_words(one.plan.spec.log) : "";
      !said.empty())
    how += fmt::format(" ({})", said);
  end_.problem = failure_of(one.plan, how);
  end_.lost = own != blame::said;
}

}  // namespace quern::actors
