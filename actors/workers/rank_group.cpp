#include "actors/workers/rank_group.hpp"

#include <cstdio>

#include <fmt/format.h>
#include <unistd.h>

#include "actors/defaults.hpp"
#include "base/log.hpp"
#include "policy/engine/share.hpp"

namespace quern::actors {

namespace {

/// Ranks of which some have a GPU and some have none would wait for each other in two transports.
base::status same_device(policy::meeting& link, at::Device device) {
  const auto key = [](std::int32_t rank) { return fmt::format("device of rank {}", rank); };
  const std::string own = device.str();
  QUERN_CHECK(link.set(key(link.rank()), own));
  for (std::int32_t rank = 0; rank < link.ranks(); ++rank) {
    QUERN_TRY(const std::string other, link.get(key(rank)));
    if (other != own)
      return base::fail(base::errc::invalid_argument,
                        "rank {} computes on {} and rank {} on {}: learner.devices must name a GPU "
                        "that is there for each rank, or learner.device be cpu",
                        link.rank(), own, rank, other);
  }
  return {};
}

}  // namespace

base::expected<rank_group> join_ranks(const std::string& address, const run_config& config,
                                      std::int32_t rank, const own_address& here,
                                      at::Device device) {
  rank_group group;
  if (config.learner.ranks == 1) return group;
  policy::meeting_place where;
  where.address = address;
  where.rank = rank;
  where.ranks = static_cast<std::int32_t>(config.learner.ranks);
  where.host = here.host;
  where.directory = here.meetings;
  where.limits.silence = where.limits.stall =
      static_cast<base::nanoseconds_t>(config.learner.rank_deadline_s * 1e9);
  QUERN_TRY(group.link, policy::meeting::join(where));
  group.link->busy(true);
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
