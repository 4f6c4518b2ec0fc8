// Generators and ranks of the learner: who has what, who gets work, who goes.
#include "actors/decide/worker_book.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace quern::actors {

worker_book::worker_book(const settings& chosen, step_watch watch, role_board& roles,
                         weights_version start)
    : settings_(chosen),
      roles_(roles),
      links_(chosen.weights_by_link),
      offers_(start),
      watch_(std::move(watch)) {}

std::string worker_book::generator_came(worker_id who, incarnation_id incarnation,
                                        const std::string& place) {
  generator& entry = generators_[who];
  entry.link = links_.add(incarnation, place);
  return entry.link;
}

std::optional<generator_work> worker_book::on_credit(worker_id who,
                                                     const generation_credit& credit) {
  const auto known = generators_.find(who);
  if (known == generators_.end()) return std::nullopt;
  generator& entry = known->second;
  entry.granted = std::max(entry.granted, credit.granted);
  roles_.did(run_role::generator, credit.tokens - std::exchange(entry.tokens, credit.tokens));
  entry.device_wait = credit.device_wait_ns;
  roles_.waited_for_device(entry.member, entry.device_wait - entry.waited_before);
  roles_.working(entry.member, credit.working);
  return news_of(credit.work, entry.work);
}

worker_book::installation worker_book::on_installed(worker_id who, const weights_installed& now) {
  const auto known = generators_.find(who);
  if (known == generators_.end()) return {};
  generator& entry = known->second;
  installation news{true, std::nullopt};
  if (entry.installed < 0 && newest_ && newest_->version > now.version) news.newer = newest_;
  if (entry.member == 0) {
    entry.member = roles_.joined(run_role::generator);
    entry.waited_before = entry.device_wait;
  }
  // Within an incarnation versions rise: an older one is news that was overtaken.
  entry.installed = std::max(entry.installed, now.version);
  return news;
}

void worker_book::on_generated(worker_id who, sample_id sample) {
  if (const auto known = generators_.find(who); known != generators_.end())
    known->second.samples.erase(sample);
}

offered_work worker_book::offer(weights_version newest) const {
  offered_work found{0, newest};
  for (const auto& [who, entry] : generators_) {
    if (entry.installed < 0) continue;
    found.free_groups += entry.room();
    found.oldest = std::min(found.oldest, entry.installed);
  }
  return found;
}

std::optional<worker_id> worker_book::take_group(const std::vector<sample_id>& samples) {
  auto best = generators_.end();
  for (auto entry = generators_.begin(); entry != generators_.end(); ++entry) {
    if (entry->second.installed < 0 || entry->second.room() <= 0) continue;
    if (best == generators_.end() || entry->second.room() > best->second.room()) best = entry;
  }
  if (best == generators_.end()) return std::nullopt;
  ++best->second.sent;
  best->second.samples.insert(samples.begin(), samples.end());
  return best->first;
}

bool worker_book::has_rank(std::int32_t rank) const {
  return std::any_of(ranks_.begin(), ranks_.end(),
                     [&](const auto& entry) { return entry.second == rank; });
}

void worker_book::rank_came(worker_id who, std::int32_t rank, weights_version version) {
  if (ranks_.empty()) watch_.sent(learner_work::load, version);
  ranks_[who] = rank;
}

void worker_book::learner_is_ready(weights_version version) {
  watch_.answered(learner_work::load, version);
  if (learner_member_ == 0) learner_member_ = roles_.joined(run_role::learner);
  links_.learner_came();
}

std::vector<worker_id> worker_book::ranks() const {
  std::vector<worker_id> all;
  for (const auto& [who, rank] : ranks_)
    all.push_back(who);
  return all;
}

std::optional<worker_id> worker_book::first_rank() const {
  for (const auto& [who, rank] : ranks_)
    if (rank == 0) return who;
  return std::nullopt;
}

void worker_book::sent_checkpoint(weights_version version) {
  watch_.sent(learner_work::checkpoint, version);
}

void worker_book::sent_step(weights_version from) {
  watch_.sent(learner_work::step, from);
  roles_.working(learner_member_, true);
}

void worker_book::on_checkpoint(weights_version version) {
  watch_.answered(learner_work::checkpoint, version);
}

bool worker_book::on_step(const step_done& step) {
  watch_.answered(learner_work::step, step.weights.version - (step.left_out ? 0 : 1));
  roles_.waited_for_device(learner_member_, step.device_wait_ns);
  roles_.working(learner_member_, false);
  if (step.left_out) return false;
  roles_.did(run_role::learner, 1);
  return offers_.stepped(step.weights.version, step.offered);
}

std::vector<worker_id> worker_book::announce(const weights_ready& weights) {
  newest_ = weights;
  std::vector<worker_id> told;
  for (const auto& [who, entry] : generators_)
    if (entry.installed >= 0) told.push_back(who);
  return told;
}

std::optional<worker_id> worker_book::to_be_asked_for_offer(bool stepping) const {
  if (stepping || !offers_.missing()) return std::nullopt;
  return first_rank();
}

lost_worker worker_book::gone(worker_id who) {
  lost_worker lost;
  if (const auto entry = generators_.extract(who)) {
    lost.was = lost_worker::kind::generator;
    lost.samples.assign(entry.mapped().samples.begin(), entry.mapped().samples.end());
    links_.drop(entry.mapped().link);
    roles_.left(entry.mapped().member);
  } else if (const auto rank = ranks_.extract(who)) {
    lost.was = lost_worker::kind::rank;
    lost.rank = rank.mapped();
  }
  return lost;
}

learner_loss worker_book::lose_learner() {
  learner_loss loss;
  const std::int64_t in_a_row = watch_.lost();
  // One more than the supervisor starts again within its window: soon after each other is its news.
  if (in_a_row > settings_.restarts + 1) {
    loss.fatal = fmt::format(
        "the learner was lost {} times without a step in between (actors.restarts is {}); its log "
        "says what it was at",
        in_a_row, settings_.restarts);
    return loss;
  }
  loss.ranks = ranks();
  ranks_.clear();
  roles_.left(std::exchange(learner_member_, 0));
  links_.learner_lost();
  newest_.reset();
  for (const auto& [who, entry] : generators_) {
    roles_.left(entry.member);
    loss.generators.push_back(who);
  }
  generators_.clear();
  return loss;
}

std::optional<bool> worker_book::verdicts_wanted(bool wanted) {
  if (std::exchange(verdicts_wanted_, wanted) == wanted) return std::nullopt;
  return wanted;
}

}  // namespace quern::actors
