// The order in which buckets go to the other ranks does not depend on which thread is first.
#include "policy/collectives/gradient_buckets.hpp"

#include <thread>

#include "base/random.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::policy;

TEST_CASE(
    "buckets are launched once each, from the last to the first, whatever order they come in") {
  base::random_stream random(7, "buckets");
  for (int round = 0; round < 50; ++round) {
    constexpr std::size_t buckets = 6, threads = 3;
    gradient_buckets order(buckets, threads);
    std::vector<std::size_t> coming;
    for (std::size_t i = 0; i < buckets * threads; ++i)
      coming.push_back(i % buckets);
    for (std::size_t i = coming.size(); i > 1; --i)
      std::swap(coming[i - 1], coming[random.below(i)]);
    std::vector<std::size_t> launched, seen(buckets, 0);
    for (const std::size_t bucket : coming) {
      CHECK_FALSE(order.complete());
      ++seen[bucket];
      order.finished(bucket, [&](std::size_t ready) {
        CHECK(seen[ready] == threads);
        launched.push_back(ready);
      });
    }
    CHECK(order.complete());
    CHECK(launched == std::vector<std::size_t>{5, 4, 3, 2, 1, 0});
  }
}

TEST_CASE("threads that finish at the same time launch in that order, too") {
  constexpr std::size_t buckets = 64, threads = 4;
  gradient_buckets order(buckets, threads);
  std::vector<std::size_t> launched;
  {
    std::vector<std::jthread> workers;
    for (std::size_t t = 0; t < threads; ++t)
      workers.emplace_back([&] {
        for (std::size_t bucket = buckets; bucket-- > 0;)
          order.finished(bucket, [&](std::size_t ready) { launched.push_back(ready); });
      });
  }
  REQUIRE(launched.size() == buckets);
  for (std::size_t i = 0; i < buckets; ++i)
    CHECK(launched[i] == buckets - 1 - i);
}
