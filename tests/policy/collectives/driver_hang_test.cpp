// A host that does not come back from its driver, because its device is in a collective to which
// another rank does not come.
#include <condition_variable>
#include <mutex>

#include <ATen/ops/zeros.h>

#include "base/clock.hpp"
#include "policy/collectives/communicator.hpp"
#include "policy/collectives/joined_ranks.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::policy;
using base::operator""_s;
using quern::test::joined_ranks;

namespace {

/// Never starts anything until it is aborted.
class hanging_driver final : public collective_backend {
 public:
  [[nodiscard]] at::Device device() const override { return at::kCPU; }
  started all_reduce(at::Tensor&, reduction) override { return hang(); }
  started reduce_scatter(at::Tensor&, at::Tensor&) override { return hang(); }
  started all_gather(at::Tensor&, at::Tensor&) override { return hang(); }
  started broadcast(at::Tensor&, std::int32_t) override { return hang(); }
  /// What is queued is not seen to be reached either: its driver is asked for that.
  std::function<bool()> mark() override {
    return [] { return false; };
  }
  void abort() noexcept override {
    const std::lock_guard lock(mutex_);
    aborted_ = true;
    ended_.notify_all();
  }

 private:
  started hang() {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [&] { return aborted_; });
    return base::fail(base::errc::unavailable, "aborted");
  }
  std::mutex mutex_;
  std::condition_variable ended_;
  bool aborted_ = false;
};

}  // namespace

TEST_CASE("who does not come is named although the host of the other hangs in its driver") {
  joined_ranks group(2, {60_s, 1_s, 600'000'000});
  REQUIRE((group.ranks[0] && group.ranks[1]));
  auto driver = std::make_unique<hanging_driver>();
  hanging_driver& device = *driver;
  communicator ranks(group.ranks[0], std::move(driver));
  group.ranks[1]->at("waiting for a batch", 7);
  std::jthread step([&] {
    ranks.at("backward", 7);
    CHECK_FALSE(ranks.all_reduce(at::zeros({4}), reduction::sum, "gradients of head"));
  });
  const auto verdict = group.ranks[0]->wait_failure(20_s);
  device.abort();
  step.join();
  REQUIRE(verdict);
  CHECK(verdict->rank == 1);
  CHECK(verdict->fault == rank_fault::stalled);
  CHECK(quern::test::contains(verdict->text(), "last seen in waiting for a batch, version 7"));
}
