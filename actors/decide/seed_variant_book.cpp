// Grammar variants that are timed for prompts.
#include "actors/decide/seed_variant_book.hpp"

#include <utility>

namespace quern::actors {

void seed_variant_book::draw(const std::string& task, std::vector<std::string> sources,
                             incarnation_id incarnation, group_id turn) {
  std::size_t& missing = missing_[task];
  for (std::string& source : sources) {
    const sample_id id = next_++;
    open_.emplace(id, variant{task, source});
    waiting_.push_back({incarnation, id, task, std::move(source), 0, 0, turn});
    ++missing;
  }
}

std::vector<evaluate_sample> seed_variant_book::take(std::size_t most) {
  std::vector<evaluate_sample> orders;
  for (; orders.size() < most && !waiting_.empty(); waiting_.pop_front())
    orders.push_back(std::move(waiting_.front()));
  return orders;
}

std::optional<seed_variant_book::variant> seed_variant_book::answered(
    const sample_verdict& verdict) {
  if (!verdict.counts && !verdict.exhausted) return std::nullopt;
  auto known = open_.extract(verdict.sample);
  if (known.empty()) return std::nullopt;
  if (const auto task = missing_.find(known.mapped().task);
      task != missing_.end() && task->second > 0)
    --task->second;
  return std::move(known.mapped());
}

bool seed_variant_book::waits_for(const std::string& task) const {
  const auto known = missing_.find(task);
  return known != missing_.end() && known->second > 0;
}

void seed_variant_book::clear() {
  missing_.clear();
  open_.clear();
  waiting_.clear();
}

}  // namespace quern::actors
