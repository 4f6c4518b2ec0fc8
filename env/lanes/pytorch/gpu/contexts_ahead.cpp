// Children that make their contexts beside what comes next.
#include "env/lanes/pytorch/gpu/contexts_ahead.hpp"

#include <chrono>

namespace quern::env {
namespace {

using base::operator""_ms;

/// Before that no context is made; and from one look at those in making to the next.
constexpr base::nanoseconds_t least_making = 300_ms, look_again = 50_ms;

}  // namespace

contexts_ahead::contexts_ahead(device_quiet& quiet, python_zygote& zygote)
    : quiet_(quiet),
      zygote_(zygote),
      watcher_([this](const std::stop_token& over) { watch(over); }) {}

contexts_ahead::~contexts_ahead() {
  watcher_.request_stop();
  watcher_.join();
}

void contexts_ahead::set_paused(bool paused) {
  const std::lock_guard lock(asking_);
  paused_ = paused;
  zygote_.set_paused(paused);
}

void contexts_ahead::order(const python_start& how, int children, int below) {
  // Those that stand still because an evaluator of another process had begun to measure.
  quiet_.let_go_on();
  const std::lock_guard lock(guard_);
  if (!noise_) noise_.emplace(quiet_, [this](bool paused) { set_paused(paused); });
  zygote_.prefork(how, children, below);
  look_at_ = clock_.now_ns() + least_making;
  ++orders_;
  ordered_.notify_all();
}

bool contexts_ahead::in_making() const {
  const std::lock_guard lock(guard_);
  return noise_.has_value();
}

bool contexts_ahead::all_ready() {
  const std::lock_guard lock(asking_);
  if (paused_) return false;
  // What is wrong shows when a child is asked for. A zygote that is gone has nothing in making.
  return zygote_.in_making().value_or(0) == 0;
}

void contexts_ahead::watch(const std::stop_token& over) {
  std::unique_lock lock(guard_);
  while (ordered_.wait(lock, over, [&] { return noise_.has_value(); })) {
    const std::uint64_t seen = orders_;
    const base::nanoseconds_t left = look_at_ - clock_.now_ns();
    if (left > 0)
      ordered_.wait_for(lock, over, std::chrono::nanoseconds(left),
                        [&] { return orders_ != seen; });
    if (over.stop_requested()) return;
    if (orders_ != seen) continue;
    lock.unlock();
    quiet_.let_go_on();
    const bool ready = all_ready();
    lock.lock();
    if (orders_ != seen) continue;
    if (ready) {
      noise_.reset();
    } else {
      look_at_ = clock_.now_ns() + look_again;
    }
  }
}

}  // namespace quern::env
