#include "policy/engine/weight_link.hpp"

#include <algorithm>
#include <deque>

#include <ATen/ops/zeros.h>

namespace quern::policy {
namespace {

using base::errc;
using base::fail;

/// Of one message: long enough for the full speed of a link, short enough that the watch sees the
/// transfer move.
constexpr std::int64_t chunk_bytes = std::int64_t{128} << 20;
/// Messages under way: the next one is there when one ends.
constexpr std::size_t chunks_ahead = 2;
constexpr std::int64_t warm_up_elements = 1 << 20;

}  // namespace

base::expected<std::unique_ptr<weight_link>> weight_link::open(const meeting_place& where,
                                                               at::Device device) {
  if (where.ranks != 2)
    return fail(errc::invalid_argument, "a link for weights has two ends, not {}", where.ranks);
  QUERN_TRY(const auto met, meeting::join(where));
  std::unique_ptr<collective_backend> transport;
  if (device.is_cuda()) {
    QUERN_TRY(transport, make_nccl(met, "weights", device));
  } else {
    QUERN_TRY(transport, make_gloo(met, "weights", "127.0.0.1"));
  }
  return std::unique_ptr<weight_link>(
      new weight_link(std::make_unique<communicator>(met, std::move(transport)), device));
}

base::status weight_link::warm_up(std::int64_t version) {
  group_->link().at("warm-up of weights", version);
  const at::Tensor some = at::zeros({warm_up_elements}, at::TensorOptions().device(device_));
  QUERN_TRY(pending sent, group_->broadcast(some, 0, "warm-up"));
  return sent.wait();
}

base::status weight_link::carry(const transfer_plan& plan, const at::Tensor& arena,
                                std::int64_t version) {
  const bool sending = group_->rank() == 0;
  group_->link().at(sending ? "sending weights" : "receiving weights", version);
  const auto chunk = chunk_bytes / static_cast<std::int64_t>(arena.element_size());
  std::deque<pending> under_way;
  for (const copy_range& range : plan.copies) {
    const std::int64_t begin = sending ? range.source : range.target;
    if (begin < 0 || begin + range.count > arena.numel())
      return fail(errc::invalid_argument, "the plan reaches to element {}, the arena has {}",
                  begin + range.count, arena.numel());
    for (std::int64_t done = 0; done < range.count; done += chunk) {
      const std::int64_t count = std::min(chunk, range.count - done);
      QUERN_TRY(pending one,
                group_->broadcast(arena.narrow(0, begin + done, count), 0, "weights of a version"));
      under_way.push_back(std::move(one));
      if (under_way.size() <= chunks_ahead) continue;
      QUERN_CHECK(under_way.front().wait());
      under_way.pop_front();
    }
  }
  for (pending& one : under_way)
    QUERN_CHECK(one.wait());
  return {};
}

base::status weight_link::send(const transfer_plan& plan, const at::Tensor& arena,
                               std::int64_t version) {
  if (group_->rank() != 0) return fail(errc::invalid_argument, "rank 1 of a link receives");
  return carry(plan, arena, version);
}

base::status weight_link::receive(const transfer_plan& plan, at::Tensor& arena,
                                  std::int64_t version) {
  if (group_->rank() != 1) return fail(errc::invalid_argument, "rank 0 of a link sends");
  return carry(plan, arena, version);
}

}  // namespace quern::policy
