// The generators and the learner's ranks of a run: which are there, what each has, who gets work,
// and who has to go when one of them is lost.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/decide/link_book.hpp"
#include "actors/decide/offer_book.hpp"
#include "actors/decide/role_board.hpp"
#include "actors/decide/step_watch.hpp"
#include "actors/messages.hpp"

namespace quern::actors {

/// A process that was let in; its owner gives each a number of its own, from 1.
using worker_id = std::int64_t;

/// Groups that generators would take, and the oldest weights that any of them samples with.
struct offered_work {
  std::int64_t free_groups = 0;
  weights_version oldest = 0;
};

/// What follows from the loss of the learner.
struct learner_loss {
  /// Not empty: the run ends with this message, and nothing else was changed.
  std::string fatal;
  /// Ranks that are to end, and be killed where they do not: one may hang in a collective.
  std::vector<worker_id> ranks;
  /// Generators that hold weights above the last checkpoint: they are to end, too.
  std::vector<worker_id> generators;
};

/// What a worker was that is gone.
struct lost_worker {
  enum class kind { not_admitted, generator, rank };
  kind was = kind::not_admitted;
  std::vector<sample_id> samples;  ///< a generator's that were asked for and did not come
  std::int32_t rank = 0;
};

/// Not thread-safe. `roles` and the clock of `watch` outlive it.
class worker_book {
 public:
  struct settings {
    bool weights_by_link = false;  ///< weights_by_link of the configuration
    std::int64_t restarts = 0;     ///< actors.restarts
  };

  /// `start`: the version that the incarnation begins with.
  worker_book(const settings& chosen, step_watch watch, role_board& roles, weights_version start);

  // ---- generators ----
  /// Returns where its weights come to; empty: they are in files. `place`: as link_book::add.
  std::string generator_came(worker_id who, incarnation_id incarnation, const std::string& place);
  /// What is new in its work since the last time; none: it is no generator of this incarnation.
  std::optional<generator_work> on_credit(worker_id who, const generation_credit& credit);
  struct installation {
    bool known = false;  ///< it is a generator of this incarnation
    /// It begins with what the incarnation began with, and hears of the newest weights once it has
    /// that.
    std::optional<weights_ready> newer;
  };
  installation on_installed(worker_id who, const weights_installed& now);
  /// A sample came, from whomever.
  void on_generated(worker_id who, sample_id sample);
  /// Of the generators that have weights; `newest` where there is none.
  [[nodiscard]] offered_work offer(weights_version newest) const;
  /// Who is sent a group: the generator with weights that could take most. None: there is none.
  std::optional<worker_id> take_group(const std::vector<sample_id>& samples);

  // ---- the learner ----
  /// A rank that comes while its predecessor is still counted tells that that one is gone: the
  /// learner is lost then.
  [[nodiscard]] bool has_rank(std::int32_t rank) const;
  /// `version`: that the ranks load.
  void rank_came(worker_id who, std::int32_t rank, weights_version version);
  /// All ranks have loaded and are one.
  void learner_is_ready(weights_version version);
  [[nodiscard]] std::vector<worker_id> ranks() const;
  /// Rank 0 answers for all. None: it is not there.
  [[nodiscard]] std::optional<worker_id> first_rank() const;
  /// Addresses that rank 0 is to open now; each is told once.
  std::vector<std::string> take_due_links() { return links_.take_due(); }
  /// All ranks were sent a checkpoint or a batch.
  void sent_checkpoint(weights_version version);
  void sent_step(weights_version from);
  void on_checkpoint(weights_version version);
  /// Whether the weights of this step are to be announced.
  bool on_step(const step_done& step);
  /// The learner offers weights after their step. Whether they are to be announced.
  bool on_offered(weights_version version) { return offers_.offered(version); }
  /// Who is to be told of these weights: generators that have those of the incarnation's beginning.
  std::vector<worker_id> announce(const weights_ready& weights);
  /// Rank 0, where it is to offer its newest weights. Not while it steps: what follows the step is
  /// offered with it.
  [[nodiscard]] std::optional<worker_id> to_be_asked_for_offer(bool stepping) const;
  /// What the learner hangs in, if it does.
  std::optional<overdue_work> look() { return watch_.look(); }

  // ---- losses ----
  lost_worker gone(worker_id who);
  /// One rank is gone or hangs, and with it the group and the weights above the last checkpoint.
  learner_loss lose_learner();
  /// After lose_learner: the new incarnation begins with `version`.
  void incarnation_began(weights_version version) { offers_ = offer_book(version); }

  /// Whether evaluators have something to do, where that is news; at first they have.
  std::optional<bool> verdicts_wanted(bool wanted);

 private:
  struct generator {
    std::int64_t granted = 0;
    std::int64_t sent = 0;
    std::int64_t tokens = 0;                                 ///< sampled since its hello
    role_member member = 0;                                  ///< from the first weights on
    base::nanoseconds_t device_wait = 0, waited_before = 0;  ///< for turns; the second: until then
    weights_version installed = -1;
    generator_work work;          ///< as it told last
    std::string link;             ///< where its weights come to; empty: they are in files
    std::set<sample_id> samples;  ///< asked for and not yet here
    [[nodiscard]] std::int64_t room() const { return granted - sent; }
  };

  settings settings_;
  role_board& roles_;
  std::map<worker_id, generator> generators_;
  std::map<worker_id, std::int32_t> ranks_;  ///< of this incarnation
  link_book links_;
  offer_book offers_;                    ///< of this incarnation
  std::optional<weights_ready> newest_;  ///< of this incarnation, what was announced last
  role_member learner_member_ = 0;       ///< all ranks, from learner_is_ready on
  step_watch watch_;
  bool verdicts_wanted_ = true;
};

}  // namespace quern::actors
