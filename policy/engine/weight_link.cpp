#include "policy/engine/weight_link.hpp"

#include <algorithm>
#include <charconv>
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

/// While it lives, the watch takes an end that does not move for one that has failed.
class transfer_under_way {
 public:
  transfer_under_way(rendezvous& link, std::string_view phase, std::int64_t version) : link_(link) {
    link_.at(phase, version);
    link_.busy(false);
  }
  ~transfer_under_way() { link_.busy(true); }
  transfer_under_way(const transfer_under_way&) = delete;
  transfer_under_way& operator=(const transfer_under_way&) = delete;

 private:
  rendezvous& link_;
};

std::string key_of(std::string_view what, std::int64_t number) {
  return fmt::format("{} {}", what, number);
}

}  // namespace

base::expected<std::unique_ptr<weight_link>> weight_link::open(const rendezvous_options& where,
                                                               at::Device device) {
  if (where.ranks != 2)
    return fail(errc::invalid_argument, "a link for weights has two ends, not {}", where.ranks);
  QUERN_TRY(auto met, rendezvous::join(where));
  return open(std::move(met), device);
}

base::expected<std::unique_ptr<weight_link>> weight_link::open(std::shared_ptr<rendezvous> met,
                                                               at::Device device) {
  std::unique_ptr<collective_backend> transport;
  if (device.is_cuda()) {
    QUERN_TRY(transport, make_nccl(met, "weights", device));
  } else {
    QUERN_TRY(transport, make_gloo(met, "weights", met->host()));
  }
  return std::unique_ptr<weight_link>(
      new weight_link(std::make_unique<communicator>(met, std::move(transport)), device));
}

base::status weight_link::warm_up(std::int64_t version) {
  const transfer_under_way now(group_->link(), "warm-up of weights", version);
  const at::Tensor some = at::zeros({warm_up_elements}, at::TensorOptions().device(device_));
  QUERN_TRY(pending sent, group_->broadcast(some, 0, "warm-up"));
  return sent.wait();
}

base::status weight_link::agree(const transfer_plan& plan, at::ScalarType type) {
  const std::string own = fmt::format("{} {}", base::to_hex(plan.hash), at::toString(type));
  rendezvous& link = group_->link();
  QUERN_CHECK(link.set(key_of("plan of rank", group_->rank()), own));
  QUERN_TRY(const std::string other, link.get(key_of("plan of rank", 1 - group_->rank())));
  if (other == own) return {};
  return fail(errc::conflict, "this end of a link for weights has the plan {}, the other one {}",
              own, other);
}

base::expected<std::int64_t> weight_link::ask() {
  rendezvous& link = group_->link();
  const std::int64_t number = asked_++;
  QUERN_CHECK(link.set(key_of("asked", number), "yes"));
  QUERN_TRY(const std::string text, link.get(key_of("offer", number)));
  std::int64_t version = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), version);
  if (code != std::errc() || end != text.data() + text.size())
    return fail(errc::corrupt, "a version '{}' was offered: a number is needed", text);
  return version;
}

base::status weight_link::wait_until_asked() {
  QUERN_CHECK(group_->link().get(key_of("asked", asked_)));
  return {};
}

base::status weight_link::offer(std::int64_t version) {
  return group_->link().set(key_of("offer", asked_++), std::to_string(version));
}

base::status weight_link::carry(const transfer_plan& plan, const at::Tensor& arena,
                                std::int64_t version) {
  const bool sending = group_->rank() == 0;
  const transfer_under_way now(group_->link(), sending ? "sending weights" : "receiving weights",
                               version);
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
