#include "actors/workers/weight_inbox.hpp"

#include <chrono>
#include <utility>

namespace quern::actors {

void weight_inbox::begin(policy::parameter_arena room) {
  {
    const std::lock_guard lock(mutex_);
    arrived_.reset();
    room_ = std::move(room);
  }
  changed_.notify_all();
}

void weight_inbox::announce(const weights_ready& ready) {
  {
    const std::lock_guard lock(mutex_);
    announced_[ready.version] = ready;
    // Of a time that was rolled back.
    announced_.erase(announced_.upper_bound(ready.version), announced_.end());
  }
  changed_.notify_all();
}

bool weight_inbox::due() const {
  const std::lock_guard lock(mutex_);
  return arrived_ && !announced_.empty() && arrived_->version <= announced_.rbegin()->first;
}

base::expected<bool> weight_inbox::install(policy::generator& engine) {
  if (!due()) return false;
  std::unique_lock lock(mutex_);
  const arrival here = *arrived_;
  const auto wanted = announced_.find(here.version);
  std::optional<weights_ready> ready;
  if (wanted != announced_.end()) ready = wanted->second;
  announced_.erase(announced_.begin(), announced_.upper_bound(here.version));
  if (!here.problem && ready && ready->hash != here.hash && !announced_.empty()) ready.reset();
  lock.unlock();
  base::status done;
  if (here.problem) {
    done = tl::make_unexpected(*here.problem);
  } else if (ready) {
    done = engine.announce(ready->version, ready->hash);
    if (done) done = engine.commit(here.hash);
  }
  begin(engine.landing());
  QUERN_CHECK(done);
  return ready.has_value();
}

std::optional<policy::parameter_arena> weight_inbox::wait_for_room() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return stopping_ || room_; });
  if (stopping_) return std::nullopt;
  return std::exchange(room_, std::nullopt);
}

std::optional<weights_ready> weight_inbox::wait_for_newer(weights_version than,
                                                          base::nanoseconds_t patience) {
  std::unique_lock lock(mutex_);
  const auto there = [&] {
    return stopping_ || (!announced_.empty() && announced_.rbegin()->first > than);
  };
  if (patience == without_end) {
    changed_.wait(lock, there);
  } else if (!changed_.wait_for(lock, std::chrono::nanoseconds(patience), there)) {
    return std::nullopt;
  }
  if (stopping_) return std::nullopt;
  return announced_.rbegin()->second;
}

void weight_inbox::arrived(weights_version version, const base::hash128& hash) {
  put({version, hash, std::nullopt});
}

void weight_inbox::failed(weights_version version, base::error problem) {
  put({version, {}, std::move(problem)});
}

void weight_inbox::put(arrival what) {
  const std::lock_guard lock(mutex_);
  arrived_ = std::move(what);
}

void weight_inbox::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
}

}  // namespace quern::actors
