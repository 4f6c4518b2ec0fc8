// Samples in a row that no evaluator could judge: a run in which that goes on learns nothing. Only
// what was sent to evaluators counts.
#pragma once

#include <algorithm>
#include <cstdint>

namespace quern::actors {

/// Not thread-safe.
class unjudged_streak {
 public:
  enum class action : std::uint8_t {
    none,
    warn,    ///< every `warn_every` of them
    give_up  ///< `most()` of them, and the evaluators are to blame
  };
  static constexpr std::int64_t warn_every = 32;
  /// At least so many samples, and so many groups, end a run: a group is of one task, which may be
  /// the only one that cannot be judged, and may be drawn a few times in a row.
  static constexpr std::int64_t least_samples = 256;
  static constexpr std::int64_t least_groups = 8;

  explicit unjudged_streak(std::int64_t group_size)
      : most_(std::max(least_samples, least_groups * group_size)) {}

  /// An evaluator's verdict about a candidate, whatever it says.
  void judged() { length_ = blamed_ = 0; }
  /// The last attempt gave none. `evaluators`: for a reason that lies with them (infra_error,
  /// invalid_reference), which time does not mend as it does noise.
  action unjudged(bool evaluators) {
    ++length_;
    blamed_ += evaluators ? 1 : 0;
    if (blamed_ >= most_) return action::give_up;
    return length_ % warn_every == 0 ? action::warn : action::none;
  }
  [[nodiscard]] std::int64_t length() const { return length_; }
  [[nodiscard]] std::int64_t most() const { return most_; }

 private:
  std::int64_t most_;
  std::int64_t length_ = 0;
  std::int64_t blamed_ = 0;
};

}  // namespace quern::actors
