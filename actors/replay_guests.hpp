// Whom the replay actor has let in, and what it knows of them. For replay_actor.cpp alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "actors/decide/role_board.hpp"
#include "actors/decide/role_times.hpp"
#include "actors/monitor.hpp"
#include "actors/protocol.hpp"
#include "actors/replay/replay.hpp"

namespace quern::actors {

struct generator_entry {
  generator_ref ref;
  std::int64_t granted = 0;
  std::int64_t sent = 0;
  std::int64_t tokens = 0;                                 ///< sampled since its hello
  role_member member = 0;                                  ///< from the first weights on
  base::nanoseconds_t device_wait = 0, waited_before = 0;  ///< for turns; the second: until then
  weights_version installed = -1;
  generator_work work;          ///< as it told last
  std::string link;             ///< where its weights come to; empty: they are in files
  std::set<sample_id> samples;  ///< asked for and not yet here
};

/// A rank of the learner. Rank 0 answers for all of them.
struct learner_entry {
  learner_ref ref;
  std::int32_t rank = 0;
};

using generator_entries = std::map<caf::actor_addr, generator_entry>;
using learner_entries = std::map<caf::actor_addr, learner_entry>;

/// Null: it is not there.
inline const learner_entry* rank_of(const learner_entries& learners, std::int32_t rank) {
  const auto found = std::find_if(learners.begin(), learners.end(),
                                  [&](const auto& entry) { return entry.second.rank == rank; });
  return found == learners.end() ? nullptr : &found->second;
}

/// What a process starts from; where groups meet is not in it.
inline welcome welcome_of(const starting_point& start, const std::string& config_yaml,
                          const std::string& weights_folder) {
  welcome answer;
  answer.epoch = start.epoch;
  answer.version = start.version;
  answer.checkpoint = start.model;
  answer.optimizer = start.optimizer;
  answer.reference = start.reference;
  answer.config_yaml = config_yaml;
  answer.weights_folder = weights_folder;
  return answer;
}

/// Takes down what a generator says of itself.
inline void hear(role_board& roles, monitor& watch, generator_entry& entry,
                 const generation_credit& credit) {
  watch.generated(news_of(credit.work, entry.work));
  entry.granted = std::max(entry.granted, credit.granted);
  roles.did(run_role::generator, credit.tokens - std::exchange(entry.tokens, credit.tokens));
  entry.device_wait = credit.device_wait_ns;
  roles.waited_for_device(entry.member, entry.device_wait - entry.waited_before);
  roles.working(entry.member, credit.working);
}

/// Groups that they take, and the oldest weights that any of them samples with.
struct offered_work {
  std::int64_t free_groups = 0;
  weights_version oldest = 0;
};

inline offered_work offer_of(const generator_entries& generators, weights_version newest) {
  offered_work offer{0, newest};
  for (const auto& [addr, entry] : generators) {
    if (entry.installed < 0) continue;
    offer.free_groups += entry.granted - entry.sent;
    offer.oldest = std::min(offer.oldest, entry.installed);
  }
  return offer;
}

/// The one that could take most groups, of those that have weights; null: none could.
inline generator_entry* with_room(generator_entries& generators) {
  generator_entry* best = nullptr;
  for (auto& [addr, entry] : generators) {
    const std::int64_t room = entry.granted - entry.sent;
    if (entry.installed < 0 || room <= 0) continue;
    if (best == nullptr || room > best->granted - best->sent) best = &entry;
  }
  return best;
}

}  // namespace quern::actors
