#include "tools/bench/work_list.hpp"

#include <algorithm>

namespace quern::tools {

work_list::work_list(std::span<const std::size_t> task_of, std::size_t workers)
    : task_of_(task_of.begin(), task_of.end()), at_(workers), held_(workers) {
  std::size_t tasks = 0;
  for (const std::size_t task : task_of)
    tasks = std::max(tasks, task + 1);
  piles_.resize(tasks);
  for (std::size_t i = task_of_.size(); i-- > 0;)
    piles_[task_of_[i]].items.push_back(i);
  std::fill(at_.begin(), at_.end(), tasks);
  left_ = task_of_.size();
}

std::size_t work_list::richest() const {
  std::size_t best = piles_.size();
  double most = 0;
  for (std::size_t i = 0; i < piles_.size(); ++i) {
    // A task that others are at is shared only when no other is left.
    const double worth =
        static_cast<double>(piles_[i].items.size()) *
        (piles_[i].workers == 0 ? 1e9 : 1.0 / static_cast<double>(piles_[i].workers));
    if (worth > most) {
      most = worth;
      best = i;
    }
  }
  return best;
}

std::vector<std::size_t> work_list::claim(std::size_t worker, std::size_t most) {
  const std::lock_guard lock(guard_);
  std::vector<std::size_t> taken;
  auto& held = held_[worker];
  most -= std::min(most, held.size());
  if (at_.size() > 1) most = std::min(most, std::max<std::size_t>(1, left_ / (2 * at_.size())));
  std::size_t& at = at_[worker];
  while (taken.size() < most && left_ > 0) {
    if (at == piles_.size() || piles_[at].items.empty()) {
      if (at != piles_.size()) --piles_[at].workers;
      at = richest();
      ++piles_[at].workers;
    }
    taken.push_back(piles_[at].items.back());
    piles_[at].items.pop_back();
    --left_;
  }
  held.insert(held.end(), taken.begin(), taken.end());
  return taken;
}

std::optional<std::size_t> work_list::next(std::size_t worker,
                                           const std::function<bool(std::size_t)>& is_ready) {
  const std::lock_guard lock(guard_);
  auto* from = &held_[worker];
  if (from->empty() && left_ == 0)
    from = &*std::max_element(held_.begin(), held_.end(), [](const auto& one, const auto& other) {
      return one.size() < other.size();
    });
  if (from->empty()) return std::nullopt;
  // A compilation may take a minute, and nobody is to wait for it while another one is done.
  auto chosen = is_ready ? std::find_if(from->begin(), from->end(), is_ready) : from->begin();
  if (chosen == from->end()) chosen = from->begin();
  const std::size_t item = *chosen;
  from->erase(chosen);
  return item;
}

void work_list::give_back(std::size_t worker) {
  const std::lock_guard lock(guard_);
  for (const std::size_t item : held_[worker])
    piles_[task_of_[item]].items.push_back(item);
  left_ += held_[worker].size();
  held_[worker].clear();
}

void work_list::put_off(std::size_t item) {
  const std::lock_guard lock(guard_);
  put_off_.push_back(item);
}

std::optional<std::size_t> work_list::claim_put_off() {
  const std::lock_guard lock(guard_);
  if (put_off_.empty()) return std::nullopt;
  const std::size_t item = put_off_.front();
  put_off_.pop_front();
  return item;
}

bool work_list::any_left() {
  const std::lock_guard lock(guard_);
  return left_ > 0 || !put_off_.empty();
}

}  // namespace quern::tools
