// Score buckets against the plain way of counting them.
#include "storage/buckets.hpp"

#include <algorithm>
#include <map>

#include "base/random.hpp"
#include "ledger_support.hpp"

namespace quern::test {
namespace {

using namespace quern::storage;

TEST_CASE("edges must rise from 0") {
  CHECK(check_edges(equal_buckets(25, 40)).has_value());
  CHECK(check_edges({0}).has_value());
  CHECK_FALSE(check_edges({}).has_value());
  CHECK_FALSE(check_edges({10, 20}).has_value());
  CHECK(check_edges({0, 20, 20}).error().message.find("20 follows 20") != std::string::npos);
}

TEST_CASE("a score at an edge belongs to the bucket above it, the last bucket has no end") {
  const bucket_edges edges = {0, 100, 200};
  score_buckets buckets(edges);
  for (const std::int64_t score : {0, 99, 100, 199, 200, 99'999}) {
    buckets.insert({score + 1, 0, 0, score});
  }
  const auto all = buckets.as_of(0);
  REQUIRE(all.size() == 3);
  CHECK(all[0].count == 2);
  CHECK(all[1].mean() == doctest::Approx(1.495));
  CHECK(all[2].low_e2 == 200);
  CHECK(all[2].sum_e2 == 100'199);
  CHECK(buckets.as_of(-1).empty());
  CHECK_FALSE(buckets.draw(3, 0).has_value());
  CHECK_FALSE(buckets.draw(-1, 0).has_value());
  CHECK_FALSE(buckets.draw(0, 2).has_value());
  CHECK_FALSE(buckets.draw(0, -1).has_value());
}

TEST_CASE("a draw does not depend on the order of arrival") {
  const bucket_edges edges = equal_buckets(50, 4);
  std::vector<bucket_member> members;
  for (std::int64_t i = 0; i < 40; ++i)
    members.push_back({100 - i, i % 13, i % 5, 10 * i % 200});
  score_buckets forward(edges);
  score_buckets backward(edges);
  for (const auto& each : members)
    forward.insert(each);
  std::reverse(members.begin(), members.end());
  for (const auto& each : members)
    backward.insert(each);
  for (int bucket = 0; bucket < 4; ++bucket) {
    for (std::int64_t k = 0; k < 10; ++k) {
      CHECK(must(forward.draw(bucket, k)) == must(backward.draw(bucket, k)));
    }
  }
}

TEST_CASE("random insertions and removals: every version sees what a list would show") {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    base::random_stream random(seed, "buckets");
    const bucket_edges edges =
        equal_buckets(random.between(1, 60), static_cast<int>(random.between(1, 9)));
    score_buckets buckets(edges);
    std::vector<bucket_member> plain;
    for (int i = 0; i < 300; ++i) {
      if (!plain.empty() && random.chance(0.25)) {
        const std::size_t at = random.below(plain.size());
        CHECK(buckets.erase(plain[at]));
        CHECK_FALSE(buckets.erase(plain[at]));
        plain.erase(plain.begin() + static_cast<std::ptrdiff_t>(at));
        continue;
      }
      const bucket_member fresh{i, random.between(0, 20), random.between(0, 12),
                                random.between(0, 400)};
      buckets.insert(fresh);
      plain.push_back(fresh);
    }
    CHECK(buckets.size() == std::ssize(plain));
    for (std::int64_t version = -1; version <= 13; ++version) {
      std::map<int, std::vector<bucket_member>> wanted;
      for (const bucket_member& each : plain) {
        if (each.version > version) continue;
        int bucket = 0;
        while (bucket + 1 < std::ssize(edges) &&
               each.score_e2 >= edges[static_cast<std::size_t>(bucket) + 1]) {
          ++bucket;
        }
        wanted[bucket].push_back(each);
      }
      const auto found = buckets.as_of(version);
      REQUIRE(found.size() == wanted.size());
      for (const bucket_summary& each : found) {
        auto& members = wanted.at(each.bucket);
        std::sort(members.begin(), members.end(), [](const auto& a, const auto& b) {
          return std::tie(a.version, a.order, a.id) < std::tie(b.version, b.order, b.id);
        });
        std::int64_t sum = 0;
        for (const bucket_member& member : members)
          sum += member.score_e2;
        CHECK(each.count == std::ssize(members));
        CHECK(each.sum_e2 == sum);
        for (std::int64_t k = 0; k < each.count; ++k) {
          CHECK(must(buckets.draw(each.bucket, k)) == members[static_cast<std::size_t>(k)].id);
        }
      }
    }
  }
}

}  // namespace
}  // namespace quern::test
