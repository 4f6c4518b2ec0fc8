#include "actors/workers/rank_group.hpp"

#include <cstdio>

#include <fmt/format.h>
#include <unistd.h>

#include "actors/decide/step_watch.hpp"
#include "actors/defaults.hpp"
#include "base/log.hpp"
#include "base/thread.hpp"
#include "policy/engine/share.hpp"

namespace quern::actors {

namespace {

/// Ranks of which some have a GPU and some have none would wait for each other in two transports.
base::status same_device(policy::rendezvous& link, at::Device device) {
  const auto key = [](std::int32_t rank) { return fmt::format("device of rank {}", rank); };
  const std::string own = device.str();
  QUERN_CHECK(link.set(key(link.rank()), own));
  for (std::int32_t rank = 0; rank < link.ranks(); ++rank) {
    QUERN_TRY(const std::string other, link.get(key(rank), rank, link.limits().connect));
    if (other != own)
      return base::fail(base::errc::invalid_argument,
                        "rank {} computes on {} and rank {} on {}: learner.devices must name a GPU "
                        "that is there for each rank, or learner.device be cpu",
                        link.rank(), own, rank, other);
  }
  return {};
}

/// Between two looks at whether a rank that is alone takes too long.
constexpr auto guard_look = std::chrono::milliseconds(200);

}  // namespace

rank_guard::rank_guard(std::shared_ptr<policy::rendezvous> link, const base::clock& clock)
    : link_(std::move(link)), clock_(clock), gap_(clock.now_ns()), thread_([this] { run(); }) {}

const base::clock& rank_guard::own_clock() {
  static const base::steady_clock steady;
  return steady;
}

rank_guard::~rank_guard() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  news_.notify_all();
  thread_.join();
}

void rank_guard::at(std::string_view phase, weights_version version) {
  const std::lock_guard lock(mutex_);
  phase_ = phase;
  version_ = version;
  if (link_) link_->at(phase, version);
}

std::string rank_guard::where() const {
  if (link_) return link_->where();
  const std::lock_guard lock(mutex_);
  return fmt::format("{}, version {}", busy_limit_ > 0 ? doing_ : phase_, version_);
}

rank_guard::busy::busy(std::shared_ptr<rank_guard> of, std::string_view phase,
                       std::chrono::nanoseconds least, std::uint64_t bytes)
    : guard_(std::move(of)) {
  guard_->begin(phase, with_bytes(least, bytes));
}

rank_guard::busy::~busy() {
  guard_->end(std::uncaught_exceptions() > unwinding_);
}

void rank_guard::begin(std::string_view phase, nanoseconds_t limit) {
  const std::lock_guard lock(mutex_);
  doing_ = phase;
  busy_since_ = clock_.now_ns();
  busy_limit_ = limit;
  if (link_) link_->busy(phase, limit);
}

void rank_guard::end(bool thrown_out) {
  const std::lock_guard lock(mutex_);
  if (thrown_out) phase_ = doing_;
  busy_limit_ = 0;
  if (!link_) return;
  link_->at(phase_, version_);
  link_->busy(false);
}

bool rank_guard::stopped(std::chrono::nanoseconds within) {
  std::unique_lock lock(mutex_);
  return news_.wait_for(lock, within, [&] { return stopping_; });
}

void rank_guard::run() {
  base::name_this_thread("rank guard");
  while (!stopped(guard_look)) {
    if (link_) {
      if (const auto verdict = link_->failure()) return leave_after(*verdict);
      continue;
    }
    std::unique_lock lock(mutex_);
    const nanoseconds_t now = clock_.now_ns();
    busy_since_ += gap_.until(now, busy_since_);
    const nanoseconds_t taken = now - busy_since_;
    if (busy_limit_ == 0 || taken < busy_limit_) continue;
    const auto problem = fmt::format(
        "the only rank is busy for {:.1f} s with what may take {:.1f} s ({}, version {})",
        static_cast<double>(taken) / 1e9, static_cast<double>(busy_limit_) / 1e9, doing_, version_);
    lock.unlock();
    leave_group({base::errc::unavailable, problem});
  }
}

/// The thread that waits in a collective knows more, and leaves by itself.
void rank_guard::leave_after(const policy::rank_verdict& verdict) {
  if (!stopped(defaults::leave_grace)) leave_group(link_->error_of(verdict, "", ""));
}

base::expected<rank_group> join_ranks(const std::string& address, const run_config& config,
                                      std::int32_t rank, const own_address& here,
                                      at::Device device) {
  rank_group group;
  if (config.learner.ranks == 1) {
    group.guard = std::make_shared<rank_guard>(nullptr);
    return group;
  }
  policy::rendezvous_options where;
  where.address = address;
  where.rank = rank;
  where.ranks = static_cast<std::int32_t>(config.learner.ranks);
  where.host = here.host;
  where.directory = here.rendezvous;
  where.limits.silence = where.limits.stall =
      static_cast<base::nanoseconds_t>(config.learner.rank_deadline_s * 1e9);
  where.limits.connect = std::chrono::nanoseconds(defaults::connect_deadline).count();
  QUERN_TRY(group.link, policy::rendezvous::join(where));
  group.guard = std::make_shared<rank_guard>(group.link);
  const rank_guard::busy now(group.guard, "connecting", defaults::connect_deadline);
  QUERN_CHECK(same_device(*group.link, device));
  std::unique_ptr<policy::collective_backend> transport;
  if (device.is_cuda()) {
    QUERN_TRY(transport, policy::make_nccl(group.link, "gradients", device));
  } else {
    QUERN_TRY(transport, policy::make_gloo(group.link, "gradients", here.host));
  }
  group.ranks = std::make_unique<policy::communicator>(group.link, std::move(transport));
  return group;
}

std::vector<policy::training_sequence> share_of_rank(std::vector<policy::training_sequence> all,
                                                     const policy::communicator& group) {
  std::vector<policy::training_sequence> mine;
  for (const std::size_t index : policy::share_of(all, group.rank(), group.ranks()))
    mine.push_back(std::move(all[index]));
  return mine;
}

bool group_failed(const base::error& problem, const run_config& config) {
  return config.learner.ranks > 1 && problem.code == base::errc::unavailable;
}

void leave_group(const base::error& problem) {
  base::log_error("ranks", "{}; this rank ends and starts again", problem.message);
  std::fflush(nullptr);
  ::_exit(defaults::group_failed_code);
}

}  // namespace quern::actors
