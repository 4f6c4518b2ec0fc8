// When is a group complete, and does it train? A group trains with what remains of it if at least
// two samples do: an advantage needs something to compare with. It does not if more than half of it
// was lost to the evaluators' machinery: what such a fault spares is no random part of a group
// (kernels that need no evaluator, or a quick one), so its mean would be that of the spared.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "actors/decide/ids.hpp"
#include "base/status.hpp"

namespace quern::actors {

constexpr std::size_t least_group = 2;

/// Why a sample ended before it was evaluated.
enum class loss : std::uint8_t {
  of_sample,         ///< it, its task or its age
  of_infrastructure  ///< the machinery that should have judged it
};

/// What came of a group once each of its samples is evaluated or dropped.
struct group_resolution {
  group_id group = 0;
  std::int64_t sequence = 0;
  bool trains = false;
  std::vector<sample_id> members;  ///< evaluated: to be admitted if it trains
  /// Evaluated, but the group does not train: to be dropped as `group_too_small` or, with
  /// `mostly_lost`, as `group_mostly_lost`.
  std::vector<sample_id> leftover;
  bool mostly_lost = false;  ///< more than half of all samples went to infrastructure
};

/// Not thread-safe.
class group_book {
 public:
  /// `least`: samples that a group needs when it is opened; 1 where nothing is trained.
  explicit group_book(std::size_t least = least_group) : least_(least) {}

  /// `sequence`: the group's number in issue order. Errors: conflict (known), invalid_argument
  /// (fewer samples than `least`, or one twice).
  base::status open(group_id group, std::int64_t sequence, std::vector<sample_id> samples);

  /// A sample reached its end before training. The resolution comes with the last one. Errors:
  /// not_found (sample of no open group), conflict (it had reached an end before).
  base::expected<std::optional<group_resolution>> evaluated(sample_id sample);
  base::expected<std::optional<group_resolution>> dropped(sample_id sample,
                                                          loss why = loss::of_sample);

  [[nodiscard]] std::optional<group_id> group_of(sample_id sample) const;
  [[nodiscard]] std::size_t open_groups() const { return groups_.size(); }

 private:
  enum class end { none, evaluated, dropped, lost };
  struct open_group {
    std::int64_t sequence;
    std::vector<sample_id> samples;
    std::vector<end> ends;
    std::size_t missing;
  };
  base::expected<std::optional<group_resolution>> finish(sample_id sample, end how);

  std::size_t least_;
  std::unordered_map<group_id, open_group> groups_;
  std::unordered_map<sample_id, group_id> group_of_;
};

}  // namespace quern::actors
