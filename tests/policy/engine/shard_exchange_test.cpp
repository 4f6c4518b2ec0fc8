// When a step of several ranks waits, with a transport that stands in for one of GPUs: what is
// begun is done when somebody follows it or waits for it, and everything asked of it is noted.
#include "policy/engine/shard_exchange.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <deque>
#include <limits>

#include "base/file.hpp"
#include "policy/engine/small_models.hpp"
#include "policy/engine/trainer.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::policy;
using quern::test::small_config;
using quern::test::some_tokens;

namespace {

using words = std::vector<std::string>;

struct notes {
  words calls;
  std::deque<std::function<void()>> queue;  ///< begun, not done
  std::function<void()> at_gather;
  bool spoil = false;                         ///< the sums of gradients are not finite
  std::size_t marks = 0;                      ///< so many were asked for
  std::atomic<std::size_t> marks_passed = 0;  ///< so many of them the device has come to

  void catch_up() {
    while (!queue.empty()) {
      queue.front()();
      queue.pop_front();
    }
  }
};

class noted_operation final : public operation {
 public:
  explicit noted_operation(notes& of) : notes_(of) {}
  bool wait_for(base::nanoseconds_t) override {
    notes_.calls.emplace_back("wait");
    notes_.marks_passed = notes_.marks;
    notes_.catch_up();
    return true;
  }
  base::expected<bool> follow() override {
    notes_.calls.emplace_back("follow");
    notes_.catch_up();
    return true;
  }
  base::status result() override { return {}; }

 private:
  notes& notes_;
};

/// Of one rank.
class noted_backend final : public collective_backend {
 public:
  explicit noted_backend(notes& of) : notes_(of) {}
  [[nodiscard]] at::Device device() const override { return at::kCPU; }
  started all_reduce(at::Tensor&, reduction how) override {
    return begin(how == reduction::max ? "max" : "sum", [] {});
  }
  started reduce_scatter(at::Tensor& out, at::Tensor& in) override {
    return begin("reduce", [this, out, in]() mutable {
      out.copy_(in);
      if (notes_.spoil) out.fill_(std::numeric_limits<double>::quiet_NaN());
    });
  }
  started all_gather(at::Tensor&, at::Tensor&) override {
    if (notes_.at_gather) notes_.at_gather();
    return begin("gather", [] {});
  }
  started broadcast(at::Tensor&, std::int32_t) override {
    return begin("broadcast", [] {});
  }
  std::function<bool()> mark() override {
    return [this, here = ++notes_.marks] { return notes_.marks_passed >= here; };
  }
  void abort() noexcept override {}

 private:
  started begin(const char* what, std::function<void()> work) {
    notes_.calls.emplace_back(what);
    notes_.queue.push_back(std::move(work));
    return std::make_shared<noted_operation>(notes_);
  }
  notes& notes_;
};

trainer_options some_options() {
  trainer_options options;
  options.loss = preset_defaults(preset::sft);
  options.optimizer.learning_rate = 0.01;
  options.optimizer.max_grad_norm = 0.05;
  options.optimizer.weight_decay = 0.1;
  options.pack.max_rows = 30;
  return options;
}

parameter_arena some_arena(at::ScalarType type) {
  return parameter_arena::random(small_config(architecture::qwen3), 8, type).value();
}

/// A learner that is the only rank of its group.
struct lonely_rank {
  base::temp_folder folder = base::temp_folder::make().value();
  notes noted;
  std::shared_ptr<rendezvous> link =
      rendezvous::join({"unix:" + (folder.path() / "m").string(), 0, 1, {}}).value();
  communicator group{link, std::make_unique<noted_backend>(noted)};
  trainer learner;

  explicit lonely_rank(at::ScalarType type)
      : learner(trainer::make(some_arena(type), some_options(), {}, &group).value()) {}
};

std::vector<training_sequence> some_batch() {
  std::vector<training_sequence> batch(3);
  for (std::uint32_t i = 0; i < 3; ++i) {
    batch[i].tokens = some_tokens(9 + 4 * i, 70 + i);
    batch[i].loss_mask.assign(batch[i].tokens.size(), 1);
    batch[i].loss_mask[0] = 0;
    batch[i].advantage = 1;
  }
  return batch;
}

std::size_t first_of(const words& calls, const char* what) {
  return static_cast<std::size_t>(std::find(calls.begin(), calls.end(), what) - calls.begin());
}
std::size_t last_of(const words& calls, const char* what) {
  const auto found = std::find(calls.rbegin(), calls.rend(), what);
  return static_cast<std::size_t>(calls.rend() - found) - 1;
}

}  // namespace

TEST_CASE("a step waits once, when all of it is queued, and comes out as that of one rank alone") {
  for (const auto type : {at::kDouble, at::kFloat, at::kBFloat16}) {
    CAPTURE(at::toString(type));
    lonely_rank one(type);
    trainer plain = trainer::make(some_arena(type), some_options()).value();
    const std::size_t buckets = plain.weights().layout.buckets.size();
    for (int step = 0; step < 3; ++step) {
      one.noted.calls.clear();
      const step_metrics here = one.learner.step(some_batch()).value(),
                         there = plain.step(some_batch()).value();
      CHECK(base::dump(to_json(here)) == base::dump(to_json(there)));
      CHECK(here.grad_norm > some_options().optimizer.max_grad_norm);
      CHECK(one.learner.weights().flat.equal(plain.weights().flat));
      const words& calls = one.noted.calls;
      CHECK(std::count(calls.begin(), calls.end(), "gather") == static_cast<int>(buckets));
      // The norm is followed on the device: the optimiser begins before the host knows it.
      CHECK(first_of(calls, "sum") > last_of(calls, "reduce"));
      CHECK(last_of(calls, "follow") < first_of(calls, "gather"));
      CHECK(first_of(calls, "wait") > last_of(calls, "gather"));
      CHECK(first_of(calls, "wait") < calls.size());
    }
  }
}

TEST_CASE("a norm that is not finite leaves the step out, and nobody waits to find out") {
  lonely_rank one(at::kFloat);
  REQUIRE(one.learner.step(some_batch()));
  const at::Tensor before = one.learner.weights().flat.clone(),
                   first = one.learner.optimizer().first.clone(),
                   second = one.learner.optimizer().second.clone();
  one.noted.spoil = true;
  one.noted.calls.clear();
  const step_metrics left_out = one.learner.step(some_batch()).value();
  CHECK(left_out.skipped);
  CHECK_FALSE(std::isfinite(left_out.grad_norm));
  CHECK(left_out.version == 1);
  CHECK(one.learner.optimizer().steps == 1);
  CHECK(one.learner.weights().flat.equal(before));
  CHECK(one.learner.optimizer().first.equal(first));
  CHECK(one.learner.optimizer().second.equal(second));
  CHECK(first_of(one.noted.calls, "wait") > last_of(one.noted.calls, "gather"));
  // And the next one is as if it had not been.
  one.noted.spoil = false;
  trainer plain = trainer::make(some_arena(at::kFloat), some_options()).value();
  REQUIRE(plain.step(some_batch()));
  REQUIRE(plain.step(some_batch()));
  REQUIRE(one.learner.step(some_batch()));
  CHECK(one.learner.weights().flat.equal(plain.weights().flat));
}

TEST_CASE("each bucket of weights is on its way before the optimiser comes to the next") {
  lonely_rank one(at::kFloat);
  const parameter_arena& arena = one.learner.weights();
  const at::Tensor before = arena.flat.clone();
  std::size_t bucket = 0;
  one.noted.at_gather = [&] {
    const auto& buckets = arena.layout.buckets;
    for (std::size_t i = 0; i < buckets.size(); ++i) {
      CAPTURE(bucket);
      CAPTURE(i);
      const auto part = [&](const at::Tensor& flat) {
        return flat.narrow(0, buckets[i].begin, buckets[i].size);
      };
      CHECK(part(arena.flat).equal(part(before)) == (i > bucket));
    }
    ++bucket;
  };
  REQUIRE(one.learner.step(some_batch()));
  CHECK(bucket == arena.layout.buckets.size());
}

TEST_CASE("phases are those of the device: while it is in the backward pass, so is the rank") {
  lonely_rank one(at::kFloat);
  words seen;
  one.noted.marks_passed = 1;  // "backward" and no further, until the host waits
  one.noted.at_gather = [&] { seen.push_back(one.link->where()); };
  REQUIRE(one.learner.step(some_batch()));
  REQUIRE_FALSE(seen.empty());
  for (const std::string& where : seen)
    CHECK(where == "backward, version 0");
  CHECK(one.link->where() == "optimiser, version 0");
}
