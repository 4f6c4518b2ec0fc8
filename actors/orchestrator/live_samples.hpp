// The samples of a run that are neither trained nor dropped, with their groups: what was made of
// them, what it is worth, and what a batch of them is. The ledger has their states.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "actors/decide/batch_shape.hpp"
#include "actors/decide/sample_book.hpp"
#include "actors/decide/success_watch.hpp"
#include "actors/messages.hpp"
#include "env/verdict/verdict.hpp"

namespace quern::actors {

struct live_group {
  std::string task;
  std::string prompt;
  std::vector<std::int64_t> exemplars;  ///< ids of the archive
  std::vector<sample_id> samples;       ///< in issue order, those that are gone too
};

struct live_sample {
  group_id group = 0;
  generated_sample made;     ///< empty until generated
  std::int32_t attempt = 0;  ///< the next one
  std::optional<double> reward;
  env::verdict_kind kind = env::verdict_kind::ok;  ///< where there is a reward
  bool judging = false;                            ///< the dispatcher has it
};

/// Not thread-safe. What takes a batch needs all of its samples to be here.
class live_samples {
 public:
  /// A group as it was issued: its samples are here and empty. Or one that was restored, whose
  /// samples follow by `add`.
  void issue(group_id id, live_group group);
  void restore(group_id id, live_group group);
  void add(sample_id id, live_sample sample) { samples_.insert_or_assign(id, std::move(sample)); }
  /// The sample leaves, and with the last one its group.
  void forget(sample_id id);
  void clear();

  /// Null: it is not here.
  [[nodiscard]] live_sample* find(sample_id id);
  [[nodiscard]] const live_group* find_group(group_id id) const;
  /// It must be here.
  [[nodiscard]] live_sample& at(sample_id id) { return samples_.at(id); }
  [[nodiscard]] const live_sample& at(sample_id id) const { return samples_.at(id); }
  [[nodiscard]] const live_group& group_of(const live_sample& sample) const {
    return groups_.at(sample.group);
  }
  /// Those that the dispatcher has.
  [[nodiscard]] std::size_t judging() const;

  /// Samples by the number of steps that their oldest token is behind.
  [[nodiscard]] std::map<std::int64_t, std::int64_t> ages(const batch& chosen) const;
  [[nodiscard]] step_results results(const batch& chosen) const;
  [[nodiscard]] batch_shape shape(const batch& chosen) const;
  /// As the learner gets them, with the rewards that their verdicts gave.
  [[nodiscard]] std::vector<training_sample> training(const batch& chosen) const;

 private:
  std::unordered_map<group_id, live_group> groups_;
  std::unordered_map<sample_id, live_sample> samples_;
};

}  // namespace quern::actors
