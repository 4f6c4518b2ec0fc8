// All decisions about the life of samples in one place: when a group may be issued, which messages
// about it count, when it is complete, which step uses it. The orchestrator actor and the
// simulation own one each; the ledger remembers what it decides.
#pragma once

#include <map>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "actors/decide/batcher.hpp"
#include "actors/decide/group_book.hpp"
#include "actors/decide/ids.hpp"
#include "actors/decide/schedule.hpp"
#include "actors/decide/staleness_window.hpp"

namespace quern::actors {

/// Why a sample is dropped by a decision made here; evaluations add the names of `retry_cause`.
namespace drop_reason {
inline constexpr std::string_view group_too_small = "group_too_small";
inline constexpr std::string_view group_mostly_lost = "group_mostly_lost";
inline constexpr std::string_view stale = "stale";
inline constexpr std::string_view prompt_lost = "prompt_lost";  ///< its blob, when a run goes on
/// It was judged, and its run has no learner (stage search): the end of its life.
inline constexpr std::string_view no_learner = "no_learner";
/// The gradient of its batch was not finite.
inline constexpr std::string_view non_finite = "non_finite";
/// Whether samples with this reason were lost to the machinery that should have judged them.
constexpr bool is_infrastructure(std::string_view reason) {
  return reason == "infra_error";
}
}  // namespace drop_reason

/// A change to be written to the ledger. Those that one call returns belong into one transaction.
struct transition {
  sample_id sample = 0;
  sample_state to = sample_state::issued;
  std::string_view reason;  ///< for `dropped`
};

/// What a message about a sample led to.
struct sample_news {
  bool counted =
      false;  ///< false: doubled, late, or of another incarnation; to be logged and ignored
  std::vector<transition> changes;
};

struct batch_news {
  std::optional<batch> next;        ///< to be sent to the learner
  std::vector<transition> changes;  ///< drops
  std::vector<group_id> waits_for;  ///< what policy `wait` waits for
};

struct sample_book_options {
  staleness_limits staleness;
  bool deterministic = false;  ///< follow the logical schedule
  /// There is no learner: a group ends with its last verdict, its samples are admitted and dropped
  /// as `no_learner`, and its slot is free. No batch is ever made; the version stays.
  bool fixed_policy = false;
};

/// What a group has to be sampled by.
struct issue_permit {
  std::int64_t sequence = 0;
  weights_version version = 0;  ///< deterministic: exactly this one; else: this one or newer
};

/// Lives as long as an incarnation. Not thread-safe. Errors `internal` are fatal: an invariant of
/// the run is broken and it must end.
class sample_book {
 public:
  /// The incarnation goes on from `version`; `next_sequence` is the number of the next group.
  static base::expected<sample_book> make(incarnation_id incarnation, weights_version version,
                                          sample_book_options options,
                                          std::int64_t next_sequence = 0);

  /// The hash of one version's weights in this lineage: of the checkpoint that the incarnation
  /// starts from, of those versions before it that samples were made by, and of each that follows.
  /// Conflict if the version has another hash.
  base::status know_weights(weights_version version, const base::hash128& weights);

  /// Takes over a group of the ledger with live samples, after the rollback and before anything
  /// else. A group of which nothing was generated yet is parked: its tokens are asked for when
  /// `unpark` says so, as if it were new.
  base::status restore(const storage::group_row& group);
  /// All groups are restored. The changes resolve those that had all they waited for.
  base::expected<std::vector<transition>> restored();

  /// The parked groups that may be sampled now, in issue order; they are charged. `installed`: the
  /// oldest version that a generator may sample with.
  base::expected<std::vector<std::pair<group_id, issue_permit>>> unpark(weights_version installed);

  /// May a new group be issued? Not while any is parked.
  [[nodiscard]] std::optional<issue_permit> may_issue(weights_version installed) const;
  /// The group of the permit was issued; its samples are `issued` in the ledger.
  base::status issued(group_id group, const issue_permit& by, std::vector<sample_id> samples);

  /// A generator has finished a sample; `tokens` and `segments` are about those that the policy
  /// sampled, in all turns. Not counted if the incarnation is over, the sample is not
  /// `issued`, or its weights are not of this lineage. Errors: internal for a version beyond the
  /// learner's (a negative age).
  base::expected<sample_news> generated(incarnation_id incarnation, sample_id sample,
                                        std::int64_t tokens, std::vector<segment> segments);
  /// The verdict that counts is known. Not counted unless the sample is `generated`.
  base::expected<sample_news> evaluated(incarnation_id incarnation, sample_id sample);
  /// The sample is given up before it is admitted. The first change is its own.
  base::expected<sample_news> dropped(incarnation_id incarnation, sample_id sample,
                                      std::string_view reason);

  /// The batch of the next step, if there is one and no step is under way.
  base::expected<batch_news> next_batch();
  /// The learner has finished the step from version `from`; the new weights have hash `weights`.
  /// Not counted unless that is the step under way.
  base::expected<sample_news> stepped(incarnation_id incarnation, weights_version from,
                                      const base::hash128& weights);

  /// The learner has left out the step with batch `number`, since its gradient was not finite: its
  /// samples are dropped and its slots freed, the version stays. Not counted unless that batch is
  /// under way.
  base::expected<sample_news> left_out(incarnation_id incarnation, std::int64_t number);

  [[nodiscard]] incarnation_id incarnation() const { return incarnation_; }
  /// The learner's version: the number of steps done.
  [[nodiscard]] weights_version version() const { return version_; }
  [[nodiscard]] std::int64_t next_sequence() const { return next_sequence_; }
  [[nodiscard]] const staleness_window& window() const { return window_; }
  [[nodiscard]] const std::optional<batch>& under_way() const { return under_way_; }
  /// Samples that are neither consumed nor dropped.
  [[nodiscard]] std::size_t live() const { return live_.size(); }
  /// Live samples whose verdict is still to come.
  [[nodiscard]] std::int64_t unjudged() const;
  [[nodiscard]] std::size_t parked() const { return parked_.size(); }
  /// In a run of `steps` steps: a verdict is still to come that a step may use, of a live sample or
  /// of one that will be issued. False during the last step, and when all batches that are missing
  /// are complete.
  [[nodiscard]] bool wants_verdicts(std::int64_t steps) const;
  /// Live samples in a state; `issued`: those whose tokens may be asked for, not the parked ones.
  [[nodiscard]] std::vector<sample_id> in_state(sample_state state) const;
  /// The group of a live sample and what it has to be sampled by; null if it is not live.
  [[nodiscard]] const issue_permit* permit_of(sample_id sample) const;
  /// Deterministic mode: weights older than this are asked for no more.
  [[nodiscard]] weights_version oldest_needed() const;

 private:
  struct live_sample {
    group_id group = 0;
    sample_state state = sample_state::issued;
    std::int64_t tokens = 0;
    std::vector<segment> segments;
  };
  struct live_group {
    issue_permit permit;
    std::vector<sample_id> samples;
  };

  sample_book(incarnation_id incarnation, weights_version version, sample_book_options options,
              std::int64_t next_sequence, schedule plan);

  [[nodiscard]] bool may_sample(const issue_permit& permit) const;
  [[nodiscard]] bool of_this_lineage(const std::vector<segment>& segments) const;
  base::status stamp(group_id group);
  /// Settles the group now or, in deterministic mode, with all others whose turn has come.
  base::status resolve(const group_resolution& resolution, std::vector<transition>& changes);
  base::status settle(const group_resolution& resolution, std::vector<transition>& changes);
  base::status close_judged(const group_resolution& resolution, std::vector<transition>& changes);
  base::status finish_group(group_id group);

  incarnation_id incarnation_;
  weights_version version_;
  sample_book_options options_;
  std::int64_t next_sequence_;
  schedule schedule_;
  staleness_window window_;
  group_book groups_;
  batcher batcher_;
  issue_order order_;
  std::unordered_map<weights_version, base::hash128> lineage_;
  std::unordered_map<sample_id, live_sample> live_;
  std::unordered_map<group_id, live_group> open_;      // until consumed or dropped as a whole
  std::map<std::int64_t, group_id> parked_;            // by number
  std::map<std::int64_t, group_resolution> resolved_;  // by number, until their turn
  std::optional<batch> under_way_;
  std::int64_t batches_ = 0;  // ever under way
};

}  // namespace quern::actors
