#include "policy/collectives/progress_trail.hpp"

#include <chrono>
#include <utility>

#include "base/thread.hpp"

namespace quern::policy {
namespace {

/// Between two looks while something is queued: a few of them go into the shortest interval of
/// signs of life that is of use.
constexpr auto trail_interval = std::chrono::milliseconds(20);

}  // namespace

progress_trail::~progress_trail() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  news_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void progress_trail::at(std::string_view phase, std::int64_t version, mark reached) {
  const std::lock_guard lock(mutex_);
  add({step::kind::phase, std::string(phase), version, std::move(reached)});
}

void progress_trail::progress(mark reached) {
  const std::lock_guard lock(mutex_);
  add({step::kind::progress, {}, 0, std::move(reached)});
}

std::uint64_t progress_trail::enter(std::string_view what, mark reached) {
  const std::lock_guard lock(mutex_);
  add({step::kind::collective, std::string(what), 0, std::move(reached)});
  return ++begun_;
}

void progress_trail::begin_wait(std::uint64_t number, std::string_view what) {
  const std::lock_guard lock(mutex_);
  awaited_ = number;
  awaited_name_ = what;
  tell_reached();
}

void progress_trail::end_wait() {
  const std::lock_guard lock(mutex_);
  tell_reached();
  awaited_ = 0;
  if (std::exchange(waiting_, false)) link_.waiting(false);
}

void progress_trail::look() {
  const std::lock_guard lock(mutex_);
  tell_reached();
}

void progress_trail::add(step one) {
  ahead_.push_back(std::move(one));
  tell_reached();
  if (ahead_.empty()) return;
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  news_.notify_all();
}

void progress_trail::tell_reached() {
  while (!ahead_.empty() && (!ahead_.front().reached || ahead_.front().reached())) {
    const step& one = ahead_.front();
    switch (one.step_kind) {
      case step::kind::phase:
        link_.at(one.text, one.version);
        break;
      case step::kind::progress:
        link_.progress();
        break;
      case step::kind::collective:
        link_.enter(one.text);
        ++entered_;
        break;
    }
    ahead_.pop_front();
  }
  if (awaited_ == 0 || waiting_ || entered_ < awaited_) return;
  waiting_ = true;
  link_.waiting(true, awaited_name_);
}

void progress_trail::run() {
  base::name_this_thread("progress trail");
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    news_.wait(lock, [&] { return stopping_ || !ahead_.empty(); });
    news_.wait_for(lock, trail_interval, [&] { return stopping_; });
    if (!stopping_) tell_reached();
  }
}

}  // namespace quern::policy
