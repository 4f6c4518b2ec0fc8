// What the learner was given to do and has not answered, and whether it hangs: one that lives,
// keeps its connections and does not go on looks to everybody else like one that is at work.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <optional>
#include <string>

#include "actors/decide/ids.hpp"
#include "actors/defaults.hpp"

namespace quern::actors {

/// `least`, and the time that `bytes` take at defaults::slowest_storage.
constexpr nanoseconds_t with_bytes(std::chrono::nanoseconds least, std::uint64_t bytes) {
  return least.count() +
         static_cast<nanoseconds_t>(bytes / (defaults::slowest_storage / 1'000'000)) * 1'000;
}

/// Of all files in a folder, or of the file that it is; 0: there is none.
std::uint64_t bytes_at(const std::filesystem::path& path);

enum class learner_work : std::uint8_t { load, step, checkpoint };

struct step_limits {
  nanoseconds_t load = 0;
  nanoseconds_t first_step = 0;  ///< as long as none was made since the learner started
  nanoseconds_t step = 0;        ///< at least
  std::int64_t times = 1;        ///< as long as so many times the median of recent steps
  nanoseconds_t checkpoint = 0;
  std::size_t recent = 16;                     ///< steps that the median is taken from
  nanoseconds_t longest_gap = 10'000'000'000;  ///< between two looks; see step_watch

  /// By defaults.hpp, for a learner whose weights are `model_bytes` of files.
  static step_limits of_model(std::uint64_t model_bytes);
};

/// Something that was not answered in time.
struct overdue_work {
  learner_work work = learner_work::step;
  weights_version version = 0;
  nanoseconds_t waited = 0, limit = 0;
  /// "the learner has not answered the batch of the step from version 12 for 600.0 s, ..."
  [[nodiscard]] std::string text() const;
};

/// Whoever sends work to the learner tells it here and asks every second or so. Time in which it
/// was not asked for longer than `longest_gap` does not count: a watcher that was itself held up
/// has answers that it has not read. Limits double with every learner that was lost since the last
/// step, so that one which is slow and not hung gets there. `clock` outlives it. Not thread-safe.
class step_watch {
 public:
  step_watch(const step_limits& limits, const base::clock& clock);

  /// `version`: that it begins with, the step starts from, is saved.
  void sent(learner_work what, weights_version version);
  /// With the version that it was sent for; an answer to anything else is none.
  void answered(learner_work what, weights_version version);
  /// The learner is gone, and with it whatever it had to do. How many were lost since the last
  /// step.
  std::int64_t lost();
  /// So many were lost before this watch was made.
  void lost_before(std::int64_t learners) { lost_ = learners; }
  /// What it hangs in, if it does.
  std::optional<overdue_work> look();
  /// As long as that may take from now on.
  [[nodiscard]] nanoseconds_t limit_of(learner_work what) const;

 private:
  struct entry {
    weights_version version = 0;
    nanoseconds_t since = 0;
  };

  step_limits limits_;
  const base::clock& clock_;
  std::array<std::optional<entry>, 3> open_;  ///< by learner_work
  std::deque<nanoseconds_t> steps_;
  bool stepped_ = false;  ///< since the learner started
  std::int64_t lost_ = 0;
  nanoseconds_t looked_;
};

}  // namespace quern::actors
