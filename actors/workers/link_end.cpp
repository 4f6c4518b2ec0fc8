#include "actors/workers/link_end.hpp"

namespace quern::actors {
namespace {

/// After so long without the other end it is looked whether this one was ended.
constexpr base::nanoseconds_t link_attempt = 1'000'000'000;

}  // namespace

base::expected<std::unique_ptr<policy::weight_link>> link_end::open(
    policy::rendezvous_options where, at::Device device, base::nanoseconds_t patience) {
  where.limits.arrival = link_attempt;
  const base::steady_clock clock;
  const base::nanoseconds_t begin = clock.now_ns();
  while (true) {
    auto met = policy::rendezvous::join(where);
    if (met) keep(*met);
    if (ended()) return base::fail(base::errc::conflict, "the link at {} was ended", where.address);
    if (met) return policy::weight_link::open(std::move(*met), device);
    // It has not come, or was just leaving after an attempt of its own.
    const bool again = met.error().code == base::errc::unavailable;
    if (!again || clock.now_ns() - begin >= patience)
      return tl::make_unexpected(std::move(met).error());
  }
}

void link_end::keep(const std::shared_ptr<policy::rendezvous>& met) {
  const std::lock_guard lock(mutex_);
  met_ = met;
  if (ended_) met_->cut();
}

void link_end::end() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  // Not a good-bye, which tells the other end only when it waits in a transfer.
  if (met_) met_->cut();
}

bool link_end::ended() const {
  const std::lock_guard lock(mutex_);
  return ended_;
}

}  // namespace quern::actors
