// How many of the samples judged lately were lost to the machinery that should have judged them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

namespace quern::actors {

/// Not thread-safe.
class loss_watch {
 public:
  static constexpr std::size_t window = 200;
  /// More than so many of the last `window` samples (5 %) are said while it happens.
  static constexpr std::int64_t most = 10;
  /// It is over when there are no more than so many again.
  static constexpr std::int64_t few = most / 2;
  /// While it goes on it is said again after so many further losses.
  static constexpr std::int64_t every = 50;

  enum class news : std::uint8_t { none, begun, goes_on, over };

  /// A sample's evaluation ended with a verdict, or was `lost`.
  news ended(bool lost) {
    ends_.push_back(lost);
    lost_ += lost ? 1 : 0;
    if (ends_.size() > window) {
      lost_ -= ends_.front() ? 1 : 0;
      ends_.pop_front();
    }
    if (!too_many_) {
      if (lost_ <= most) return news::none;
      too_many_ = true;
      since_said_ = 0;
      return news::begun;
    }
    if (lost_ <= few) {
      too_many_ = false;
      return news::over;
    }
    if (!lost || ++since_said_ < every) return news::none;
    since_said_ = 0;
    return news::goes_on;
  }

  [[nodiscard]] bool too_many() const { return too_many_; }
  [[nodiscard]] std::int64_t lost() const { return lost_; }
  /// Samples that are looked at: the last `window`, or as many as there were.
  [[nodiscard]] std::size_t seen() const { return ends_.size(); }

 private:
  std::deque<bool> ends_;
  std::int64_t lost_ = 0;
  std::int64_t since_said_ = 0;
  bool too_many_ = false;
};

}  // namespace quern::actors
