// What is charged for work behind an answer (env/core/idle_charge.hpp).
#include "env/core/idle_charge.hpp"

#include <cmath>

#include "support/test.hpp"

using quern::env::idle_charge;
using quern::env::process_pairs;

namespace {

constexpr std::int64_t calls = 4;

/// Trusted windows that used 1, 2, ... 20 us.
idle_charge with_trusted_windows() {
  idle_charge account;
  for (int i = 1; i <= 20; ++i)
    account.saw_trusted(1000.0 * i);
  return account;
}

}  // namespace

TEST_CASE("work behind an answer is charged to the calls of its window, but for what is usual") {
  auto account = with_trusted_windows();
  const double usual = account.forgiven_ns();
  CHECK(usual > 17'000);
  CHECK(usual < 20'000);
  process_pairs pairs{{500'000, 100'000}, {500'000, 100'000}, {500'000, 100'000}};
  account.begin_pair();
  account.end_pair(150'000);
  account.begin_pair();
  account.end_pair(usual);
  account.begin_pair();  // not asked again: nothing is known
  const auto charged = account.charged(pairs, calls);
  REQUIRE(charged.size() == 3);
  CHECK(charged[0].cand_ns == doctest::Approx(100'000 + (150'000 - usual) / calls));
  CHECK(charged[0].ref_ns == 500'000);
  CHECK(charged[1].cand_ns == 100'000);
  CHECK(charged[2].cand_ns == 100'000);
}

TEST_CASE("a window that was not kept leaves the one before it as it is") {
  auto account = with_trusted_windows();
  account.begin_pair();
  account.end_pair(0);
  account.end_pair(190'000);  // of a window that does not count
  CHECK(account.charged({{1, 1}}, calls)[0].cand_ns == 1);
}

TEST_CASE("nothing is charged before it is known what is usual") {
  idle_charge account;
  for (int i = 0; i < 4; ++i)
    account.saw_trusted(1000);
  account.begin_pair();
  account.end_pair(1e9);
  CHECK(std::isinf(account.forgiven_ns()));
  CHECK(account.charged({{1, 1}}, calls)[0].cand_ns == 1);
  account.saw_trusted(1000);
  CHECK(account.charged({{1, 1}}, calls)[0].cand_ns > 1e8);
}
