#include "actors/workers/weight_sender.hpp"

#include <algorithm>
#include <memory>

#include "base/log.hpp"

namespace quern::actors {
namespace {

using base::errc;
using base::fail;

/// A generator is at the rendezvous place before it loads its weights.
constexpr base::nanoseconds_t generator_patience = 60'000'000'000;

}  // namespace

base::expected<std::unique_ptr<weight_sender>> weight_sender::make(
    const policy::parameter_arena& weights, weights_version version, own_address here) {
  QUERN_TRY(const auto plain, policy::make_catalogue(weights.config, weights.layout.dtype));
  QUERN_TRY(auto plan, policy::make_plan(weights.layout, plain));
  try {
    return std::unique_ptr<weight_sender>(
        new weight_sender(std::move(plan), weights, version, std::move(here)));
  } catch (const std::exception& e) {
    return fail(errc::exhausted,
                "no memory on {} for two copies of {} weights, which links send from: use fewer "
                "bytes there, or set actors.weights to memory ({})",
                weights.flat.device().str(), weights.flat.numel(), e.what());
  }
}

weight_sender::weight_sender(policy::transfer_plan plan, const policy::parameter_arena& weights,
                             weights_version version, own_address here)
    : plan_(std::move(plan)), start_(version), here_(std::move(here)), book_(version) {
  for (at::Tensor& one : copies_)
    one = weights.like().flat;
}

weight_sender::~weight_sender() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  news_.notify_all();
  for (const auto& one : connections_)
    one->end.end();
  for (const auto& one : connections_)
    one->thread.join();
}

void weight_sender::open(const std::string& address, device_share share) {
  forget_failed();
  auto made = std::make_unique<connection>();
  made->address = address;
  made->share = std::move(share);
  connection& own = *made;
  {
    const std::lock_guard lock(mutex_);
    connections_.push_back(std::move(made));
  }
  own.thread = std::thread([this, &own] { serve(own); });
}

/// The room of links that have failed, once there are new ones.
void weight_sender::forget_failed() {
  std::vector<std::unique_ptr<connection>> failed;
  {
    const std::lock_guard lock(mutex_);
    const auto over = std::stable_partition(connections_.begin(), connections_.end(),
                                            [](const auto& one) { return !one->over; });
    std::move(over, connections_.end(), std::back_inserter(failed));
    connections_.erase(over, connections_.end());
  }
  for (const auto& one : failed)
    one->thread.join();
}

std::size_t weight_sender::links() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(std::count_if(connections_.begin(), connections_.end(),
                                                [](const auto& one) { return !one->over; }));
}

bool weight_sender::publish(const policy::parameter_arena& weights, weights_version version) {
  std::unique_lock lock(mutex_);
  const std::optional<std::size_t> into = book_.begin();
  if (!into) return false;
  // Nobody takes it before it is written. On a GPU this is queued where links queue what their
  // transfers wait for, the device's default stream.
  lock.unlock();
  copies_[*into].copy_(weights.flat);
  lock.lock();
  book_.written(version);
  lock.unlock();
  news_.notify_all();
  return true;
}

bool weight_sender::wait_for_newer(weights_version than) {
  std::unique_lock lock(mutex_);
  news_.wait(lock, [&] { return stopping_ || book_.offers(than); });
  return !stopping_;
}

std::optional<std::size_t> weight_sender::take_newest() {
  std::unique_lock lock(mutex_);
  // Written over since it was offered: a copy in memory, whoever writes waits for nobody. Unless
  // the writing was ended by an exception, which this ends with.
  news_.wait(lock, [&] { return stopping_ || book_.readable(); });
  if (stopping_) return std::nullopt;
  return book_.take();
}

bool weight_sender::stopping() const {
  const std::lock_guard lock(mutex_);
  return stopping_;
}

void weight_sender::give_back(std::size_t copy) {
  {
    const std::lock_guard lock(mutex_);
    book_.give_back(copy);
  }
  news_.notify_all();
}

void weight_sender::serve(connection& own) {
  base::status result;
  try {
    result = feed(own);
  } catch (const std::exception& e) {
    result = fail(errc::unavailable, "{}", e.what());
  }
  own.end.end();
  const std::lock_guard lock(mutex_);
  own.over = true;
  if (!result && !stopping_)
    base::log_warn("learner", "the link for weights at {} is over: {}", own.address,
                   result.error().message);
}

base::status weight_sender::feed(connection& own) {
  const at::Tensor& like = copies_.front();
  QUERN_TRY(const auto link, own.end.open({own.address, 0, 2, {}, here_.host, here_.rendezvous},
                                          like.device(), generator_patience));
  QUERN_CHECK(link->agree(plan_, like.scalar_type()));
  {
    const device_share::hold turn(own.share, [this] { return stopping(); });
    QUERN_CHECK(link->warm_up(start_));
  }
  base::log_info("learner", "a link for weights is open at {}", own.address);
  weights_version sent = start_;
  while (true) {
    QUERN_CHECK(link->wait_until_asked());
    if (!wait_for_newer(sent)) return {};
    QUERN_CHECK(send_newest(own, *link, sent));
  }
}

base::status weight_sender::send_newest(connection& own, policy::weight_link& link,
                                        weights_version& sent) {
  // The turn comes first: a copy that waits for it would be one that nobody can publish into.
  const device_share::hold turn(own.share, [this] { return stopping(); });
  const auto newest = take_newest();
  if (!newest) return fail(errc::conflict, "the learner ends");
  // Whatever is thrown in between: no version could be published into it.
  struct reading {
    weight_sender& sender;
    std::size_t copy;
    ~reading() { sender.give_back(copy); }
  } const now{*this, *newest};
  {
    const std::lock_guard lock(mutex_);
    sent = book_.version_of(*newest);
  }
  QUERN_CHECK(link.offer(sent));
  return link.send(plan_, copies_[*newest], sent);
}

}  // namespace quern::actors
