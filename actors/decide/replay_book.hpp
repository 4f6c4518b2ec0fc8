// All decisions about the life of samples in one place: when a group may be issued, which messages
// about it count, when it is complete, which step uses it. The replay actor and the simulation own
// one each; the ledger remembers what it decides.
#pragma once

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

/// The live states of a sample, in order, and the two ends; contracts.md 5.
enum class life { issued, generated, evaluated, admitted, consumed, trained, dropped };
std::string_view to_string(life state);

/// Why a sample is dropped by a decision made here; evaluations add the names of `retry_cause`.
namespace drop_reason {
inline constexpr std::string_view group_too_small = "group_too_small";
inline constexpr std::string_view stale = "stale";
inline constexpr std::string_view stopped = "stopped";
}  // namespace drop_reason

/// A change to be written to the ledger. Those returned by one call belong into one transaction.
struct transition {
  sample_id sample = 0;
  life to = life::issued;
  std::string_view reason;  ///< for `dropped`
};

/// What a message about a sample led to.
struct sample_news {
  bool counted = false;  ///< false: doubled, late, or of another epoch; logged and ignored
  std::vector<transition> changes;
};

struct batch_news {
  std::optional<batch> next;           ///< to be sent to the learner
  std::vector<transition> changes;     ///< drops
  std::vector<group_id> held_back_by;  ///< what policy `wait` waits for
};

/// A sample and a group as the ledger has them when a new epoch begins.
struct stored_sample {
  sample_id sample = 0;
  life state = life::issued;
  std::int64_t tokens = 0;
  std::vector<segment> segments;
};
struct stored_group {
  group_id group = 0;
  std::int64_t sequence = 0;
  std::vector<stored_sample> samples;
};

struct replay_options {
  staleness_limits staleness;
  bool deterministic = false;  ///< follow the logical schedule
};

/// Not thread-safe. Errors `internal` are fatal: an invariant of the run is broken and it must end.
class replay_book {
 public:
  /// An epoch that starts from `version`, whose weights have the hash `weights`; `next_sequence`:
  /// the number of the next group.
  replay_book(epoch_id epoch, weights_version version, base::hash128 weights,
              replay_options options, std::int64_t next_sequence = 0);

  /// Takes over a group with live samples from the ledger. `dropped` members count as ended,
  /// `consumed` and `trained` do not occur in live groups after a rollback. A group that nobody
  /// waits for any more is resolved at once, hence the changes. Call in sequence order, before
  /// anything else.
  base::expected<std::vector<transition>> restore(const stored_group& group);

  /// May the next group be issued? The version that has to sample it (deterministic) or that
  /// samples it at the least (`installed`: the oldest that any generator serves with).
  struct permit {
    std::int64_t sequence = 0;
    weights_version version = 0;
  };
  [[nodiscard]] std::optional<permit> may_issue(weights_version installed) const;
  /// The group of the permit was issued; its samples are `issued` in the ledger.
  base::status issued(group_id group, const permit& by, std::vector<sample_id> samples);

  /// A generator finished a sample. Errors: internal for a version beyond the learner's (negative
  /// age). Not counted if the epoch is over, the sample is not `issued`, or a segment was made by
  /// weights that this lineage does not have.
  base::expected<sample_news> generated(epoch_id epoch, sample_id sample, std::int64_t tokens,
                                        std::vector<segment> segments);
  /// The verdict that counts is in the ledger. Not counted unless `generated`.
  base::expected<sample_news> evaluated(epoch_id epoch, sample_id sample);
  /// The sample is given up before it was evaluated, or it was malformed beyond scoring. The first
  /// change is its own.
  base::expected<sample_news> dropped(epoch_id epoch, sample_id sample, std::string_view reason);

  /// The batch of the next step, if there is one and none is under way.
  base::expected<batch_news> next_batch();
  /// The learner finished step `step` of this epoch; the new weights have hash `weights`. Not
  /// counted unless it is the step under way.
  base::expected<sample_news> stepped(epoch_id epoch, std::int64_t step, base::hash128 weights);

  /// `quern stop`: everything that has no step under way is dropped.
  std::vector<transition> stop();

  [[nodiscard]] epoch_id epoch() const { return epoch_; }
  /// The learner's version: steps done.
  [[nodiscard]] weights_version version() const { return version_; }
  [[nodiscard]] std::int64_t next_sequence() const { return next_sequence_; }
  [[nodiscard]] const staleness_window& window() const { return window_; }
  [[nodiscard]] bool step_under_way() const { return under_way_.has_value(); }
  /// Samples that are issued and not yet consumed or dropped.
  [[nodiscard]] std::size_t live() const { return live_.size(); }
  /// Live samples that a generator has to make (again).
  [[nodiscard]] std::vector<sample_id> awaiting_generation() const;
  /// Live samples whose evaluation has to be asked for (again).
  [[nodiscard]] std::vector<sample_id> awaiting_evaluation() const;

 private:
  struct live_sample {
    group_id group = 0;
    life state = life::issued;
    std::int64_t tokens = 0;
    std::vector<segment> segments;
  };

  base::expected<std::vector<transition>> resolve(const group_resolution& resolution);
  base::status pass_over(std::int64_t sequence, group_id group);
  bool of_this_lineage(const std::vector<segment>& segments) const;
  void retire(sample_id sample) { live_.erase(sample); }

  epoch_id epoch_;
  weights_version version_;
  replay_options options_;
  std::int64_t next_sequence_;
  std::optional<schedule> schedule_;
  staleness_window window_;
  group_book groups_;
  batcher batcher_;
  issue_order order_;
  std::unordered_map<weights_version, base::hash128> lineage_;
  std::unordered_map<sample_id, live_sample> live_;
  std::unordered_map<group_id, std::vector<sample_id>> admitted_;
  std::unordered_map<group_id, ready_group> in_order_;
  std::optional<batch> under_way_;
};

}  // namespace quern::actors
