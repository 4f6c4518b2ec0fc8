#include "base/thread_deadline.hpp"

#include <algorithm>

namespace quern::base {
namespace {

thread_local std::optional<nanoseconds_t> end_of_this_thread;

}  // namespace

thread_deadline::thread_deadline(double seconds) : before_(end_of_this_thread) {
  if (seconds <= 0) return;
  const nanoseconds_t end = steady_clock().now_ns() + static_cast<nanoseconds_t>(seconds * 1e9);
  end_of_this_thread = before_ ? std::min(*before_, end) : end;
}

thread_deadline::~thread_deadline() {
  end_of_this_thread = before_;
}

std::optional<double> thread_deadline::left_s() {
  if (!end_of_this_thread) return std::nullopt;
  const nanoseconds_t left = *end_of_this_thread - steady_clock().now_ns();
  return static_cast<double>(std::max<nanoseconds_t>(left, 0)) * 1e-9;
}

bool thread_deadline::is_over() {
  const auto left = left_s();
  return left && *left <= 0;
}

double thread_deadline::at_most(double seconds) {
  const auto left = left_s();
  return left ? std::min(seconds, *left) : seconds;
}

}  // namespace quern::base
