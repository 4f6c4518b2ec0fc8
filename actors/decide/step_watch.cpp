#include "actors/decide/step_watch.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/core.h>

namespace quern::actors {
namespace {

/// A checkpoint has float32 weights, master weights and two moments for weights that a model has in
/// two bytes each.
constexpr std::uint64_t checkpoint_times = 8;
/// Limits are doubled so often at most: beyond that nobody waits.
constexpr std::int64_t most_doublings = 6;

double seconds_of_wait(nanoseconds_t duration) {
  return static_cast<double>(duration) / 1e9;
}

std::string name_of_work(learner_work what, weights_version version) {
  switch (what) {
    case learner_work::load:
      return fmt::format("is not ready with version {}, after loading", version);
    case learner_work::step:
      return fmt::format("has not answered the batch of the step from version {}, after", version);
    case learner_work::checkpoint:
      return fmt::format("has not saved the checkpoint of version {}, after", version);
  }
  return {};
}

}  // namespace

std::uint64_t bytes_at(const std::filesystem::path& path) {
  namespace fs = std::filesystem;
  std::error_code code;
  if (fs::is_regular_file(path, code)) return fs::file_size(path, code);
  std::uint64_t sum = 0;
  for (fs::recursive_directory_iterator at(path, code), end; !code && at != end;
       at.increment(code)) {
    std::error_code gone;
    if (at->is_regular_file(gone)) sum += at->file_size(gone);
  }
  return sum;
}

step_limits step_limits::of_model(std::uint64_t model_bytes) {
  using std::chrono::nanoseconds;
  const std::uint64_t bytes = checkpoint_times * model_bytes;
  step_limits made;
  made.load = with_bytes(defaults::load_deadline, bytes);
  made.first_step = nanoseconds(defaults::first_step_deadline).count();
  made.step = nanoseconds(defaults::step_deadline).count();
  made.times = defaults::step_times;
  made.checkpoint = with_bytes(defaults::checkpoint_timeout, bytes);
  return made;
}

std::string overdue_work::text() const {
  return fmt::format("the learner lives, but {} {:.1f} s; the limit is {:.1f} s",
                     name_of_work(work, version), seconds_of_wait(waited), seconds_of_wait(limit));
}

step_watch::step_watch(const step_limits& limits, const base::clock& clock)
    : limits_(limits), clock_(clock), looked_(clock.now_ns()) {}

void step_watch::sent(learner_work what, weights_version version) {
  open_[static_cast<std::size_t>(what)] = entry{version, clock_.now_ns()};
}

void step_watch::answered(learner_work what, weights_version version) {
  std::optional<entry>& asked = open_[static_cast<std::size_t>(what)];
  if (!asked || asked->version != version) return;
  const auto done = std::exchange(asked, std::nullopt);
  if (what != learner_work::step) return;
  stepped_ = true;
  lost_ = 0;
  steps_.push_back(clock_.now_ns() - done->since);
  while (steps_.size() > limits_.recent)
    steps_.pop_front();
}

std::int64_t step_watch::lost() {
  open_ = {};
  stepped_ = false;
  return ++lost_;
}

nanoseconds_t step_watch::limit_of(learner_work what) const {
  nanoseconds_t limit = what == learner_work::load ? limits_.load : limits_.checkpoint;
  if (what == learner_work::step) {
    limit = stepped_ ? limits_.step : std::max(limits_.step, limits_.first_step);
    if (!steps_.empty()) {
      std::vector<nanoseconds_t> sorted(steps_.begin(), steps_.end());
      std::sort(sorted.begin(), sorted.end());
      limit = std::max(limit, limits_.times * sorted[sorted.size() / 2]);
    }
  }
  return limit << std::min(lost_, most_doublings);
}

std::optional<overdue_work> step_watch::look() {
  const nanoseconds_t now = clock_.now_ns();
  const nanoseconds_t asleep = now - std::exchange(looked_, now) - limits_.longest_gap;
  std::optional<overdue_work> found;
  for (std::size_t i = 0; i < open_.size(); ++i) {
    if (!open_[i]) continue;
    if (asleep > 0) open_[i]->since += std::min(asleep, now - open_[i]->since);
    const auto what = static_cast<learner_work>(i);
    const nanoseconds_t waited = now - open_[i]->since, limit = limit_of(what);
    if (!found && waited >= limit) found = overdue_work{what, open_[i]->version, waited, limit};
  }
  return found;
}

}  // namespace quern::actors
