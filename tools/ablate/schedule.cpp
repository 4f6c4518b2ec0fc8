#include "tools/ablate/schedule.hpp"

#include <algorithm>

namespace quern::tools {

ablation_schedule::ablation_schedule(const ablation_plan& plan,
                                     const std::vector<plan_state>& states)
    : plan_(plan),
      ahead_(plan.runs.size(), 0),
      is_waited_for_(plan.runs.size(), false),
      shows_kernels_(plan.runs.size(), false) {
  for (const plan_state state : states)
    states_.push_back(state == plan_state::complete ? run_state::complete : run_state::waiting);
  // A run stands after the one that it begins with.
  for (std::size_t k = plan.runs.size(); k-- > 0;) {
    ahead_[k] += plan.runs[k].evaluations;
    if (plan.runs[k].config.replay.exemplars != "none") shows_kernels_[k] = true;
    if (const auto before = plan.runs[k].begins_with) {
      ahead_[*before] = std::max(ahead_[*before], ahead_[k]);
      is_waited_for_[*before] = true;
      if (shows_kernels_[k]) shows_kernels_[*before] = true;
    }
  }
}

bool ablation_schedule::can_begin(std::size_t run) const {
  const auto before = plan_.runs[run].begins_with;
  return states_[run] == run_state::waiting && (!before || states_[*before] == run_state::complete);
}

bool ablation_schedule::comes_before(std::size_t run, std::size_t other) const {
  if (ahead_[run] != ahead_[other]) return ahead_[run] > ahead_[other];
  const auto place_of_seed = [&](std::size_t one) {
    return std::ranges::find(plan_.seeds, plan_.runs[one].seed) - plan_.seeds.begin();
  };
  if (place_of_seed(run) != place_of_seed(other)) return place_of_seed(run) < place_of_seed(other);
  if (is_waited_for_[run] != is_waited_for_[other]) return is_waited_for_[run];
  return shows_kernels_[run] && !shows_kernels_[other];
}

std::optional<std::size_t> ablation_schedule::next() {
  std::optional<std::size_t> best;
  for (std::size_t k = 0; k < states_.size(); ++k)
    if (can_begin(k) && (!best || comes_before(k, *best))) best = k;
  if (best) states_[*best] = run_state::under_way;
  return best;
}

void ablation_schedule::ended(std::size_t run, bool complete) {
  states_[run] = complete ? run_state::complete : run_state::ended;
}

std::size_t ablation_schedule::left() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(states_, [](run_state one) { return one != run_state::complete; }));
}

}  // namespace quern::tools
