// Pace and time left.
#include "actors/decide/progress.hpp"

#include <algorithm>
#include <vector>

#include <fmt/core.h>

namespace quern::actors {

progress::progress(options bounds, std::int64_t done, nanoseconds_t now)
    : options_(bounds), done_(done), last_step_(now), last_sign_(now) {}

void progress::stepped(std::int64_t done, nanoseconds_t now) {
  if (done > done_) {
    times_.push_back((now - last_step_) / (done - done_));
    while (times_.size() > options_.recent)
      times_.pop_front();
  } else {
    times_.clear();
  }
  done_ = done;
  last_step_ = now;
  last_sign_ = now;
}

std::optional<nanoseconds_t> progress::pace() const {
  if (times_.empty()) return std::nullopt;
  std::vector<nanoseconds_t> sorted(times_.begin(), times_.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted[sorted.size() / 2];
}

std::optional<nanoseconds_t> progress::eta(nanoseconds_t now) const {
  const auto each = pace();
  if (!each || options_.steps <= 0) return std::nullopt;
  const auto left = std::max<std::int64_t>(0, options_.steps - done_);
  return std::max<nanoseconds_t>(0, left * *each - std::min(now - last_step_, *each));
}

std::string progress::line(nanoseconds_t now) const {
  std::string text = fmt::format("step {}", done_);
  if (options_.steps > 0) {
    text += fmt::format("/{}  {} %", options_.steps, done_ * 100 / options_.steps);
  }
  if (const auto each = pace()) {
    text += fmt::format("  {:.1f} s/step", static_cast<double>(*each) / 1e9);
  }
  if (const auto left = eta(now)) text += fmt::format("  left {}", duration_text(*left));
  return text;
}

std::string duration_text(nanoseconds_t duration) {
  const auto seconds = std::max<nanoseconds_t>(0, duration) / 1'000'000'000;
  if (seconds >= 3600) {
    return fmt::format("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
  }
  return fmt::format("{}:{:02}", seconds / 60, seconds % 60);
}

}  // namespace quern::actors
