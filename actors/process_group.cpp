#include "actors/process_group.hpp"

#include <utility>

#include <fmt/format.h>
#include <signal.h>

#include "actors/defaults.hpp"

namespace quern::actors {
namespace {

std::string failure_of(const process_plan& plan, const base::exit_state& state) {
  // Who has no log says on the terminal what is wrong.
  const std::string log = plan.spec.log.string();
  return fmt::format("{} ended: {}; {}", plan.role, base::describe(state),
                     log.empty() ? "what it said stands above" : "its log is " + log);
}

}  // namespace

base::expected<process_group> process_group::start(const std::vector<process_plan>& plans,
                                                   base::nanoseconds_t patience) {
  process_group made(plans, patience);
  for (const process_plan& plan : plans) {
    QUERN_TRY(auto child, base::subprocess::start(plan.spec));
    made.children_.push_back(std::move(child));
  }
  return made;
}

group_end process_group::wait(const std::function<bool()>& pause_asked) {
  bool pausing = false;
  while (look()) {
    if (pause_asked() && !std::exchange(pausing, true)) signal_all(SIGTERM);
    if (first_end_ >= 0 && clock_.now_ns() - first_end_ > patience_) {
      out_of_patience_ = true;
      signal_all(SIGKILL);
    }
  }
  end_.paused |= pausing;
  return end_;
}

/// Takes note of who has ended; whether anybody is left.
bool process_group::look() {
  bool left = false;
  for (std::size_t i = 0; i < children_.size(); ++i) {
    if (seen_[i]) continue;
    const auto state = children_[i].poll();
    seen_[i] = state.has_value();
    left |= !state;
    if (state) note(plans_[i], *state);
  }
  return left;
}

void process_group::note(const process_plan& plan, const base::exit_state& state) {
  if (first_end_ < 0) first_end_ = clock_.now_ns();
  if (state.signal == 0 && state.code == 0) return;
  if (state.signal == 0 && state.code == defaults::paused_code) {
    end_.paused = true;
    return;
  }
  if (out_of_patience_ && state.signal == SIGKILL) {
    // Where the others ended well, they had done all there was to do.
    if (!end_.problem.empty())
      end_.problem += fmt::format("; {} did not end by itself and was killed", plan.role);
    return;
  }
  const blame own = state.code == defaults::group_failed_code ? blame::left
                    : state.signal != 0                       ? blame::killed
                                                              : blame::said;
  if (own <= blamed_) return;
  blamed_ = own;
  end_.problem = failure_of(plan, state);
  end_.lost = own != blame::said;
}

void process_group::signal_all(int number) {
  for (base::subprocess& child : children_)
    child.send_signal(number);
}

}  // namespace quern::actors
