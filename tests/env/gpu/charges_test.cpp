// What is added to a candidate's calls (env/gpu/window_charges.hpp), against simulated windows of
// honest kernels and of such that lie in all of their windows, or in some.
#include <cmath>
#include <functional>
#include <initializer_list>

#include "base/random.hpp"
#include "env/gpu/window_charges.hpp"
#include "env/measure/stats.hpp"
#include "support/test.hpp"

using namespace quern;
using doctest::Approx;

namespace {

env::window_charges charges_of(bool gated, double events_ns, std::initializer_list<double> beyond) {
  env::window_charges charges(gated);
  for (const double ns : beyond)
    charges.add(events_ns, ns);
  return charges;
}

struct simulated {
  double claimed = 0;  ///< speed-up
  bool noisy = false;
};

/// A baseline of 50 us beside calls that take `true_ns` and say `told(window, true_ns)`, in runs of
/// `pairs` pairs; single windows are known to 4 us, some processes wake late.
simulated simulate(double true_ns, std::size_t pairs, std::uint64_t seed,
                   const std::function<double(std::size_t, double)>& told, double spread = 0.005,
                   double bias_ns = 0) {
  constexpr std::int64_t calls = 12;
  base::random_stream random(seed, "windows");
  env::window_charges charges(false);
  env::estimate_limits limits;
  limits.bucket_deviation = 0.15;
  std::vector<env::process_pairs> runs(1);
  for (std::size_t i = 0; i < pairs; ++i) {
    const double takes = true_ns * std::exp(spread * random.normal());
    const double says = told(i, takes);
    double beyond = takes - says + bias_ns + 4'000 * random.normal();
    if (random.chance(0.03)) beyond += 300e3 / calls;
    charges.add(says, beyond);
    runs[0].push_back({50e3 * std::exp(0.005 * random.normal()), says});
  }
  const auto e =
      env::estimate_ratio(env::charged(runs, charges, calls, 100e3, true, limits), limits);
  REQUIRE(e);
  return {std::exp(e->mid), e->noisy};
}

double honestly(std::size_t, double takes) {
  return takes;
}

}  // namespace

TEST_CASE("What the clock shows in most windows is charged to all, at the high end") {
  const auto quiet = charges_of(false, 20'000, {-300, 200, 400, -100, 300});
  CHECK(quiet.factor(20'000, 50'000) == 1);
  const auto hides = charges_of(false, 1'000, {14'000, 14'200, 13'900, 14'100, 14'050});
  const double missing = 14'050, forgiven = 2'500 / std::sqrt(5.0) + 20;
  CHECK(hides.factor(1'000, 50'000) ==
        Approx(1 + (missing - forgiven * forgiven / missing + 2'500) / 1'000));
  // What the clocks leave open themselves adds nothing.
  const double near = 3'600;
  const auto open = charges_of(false, 20'000, {near, near, near, near, near});
  CHECK(open.factor(20'000, 50'000) ==
        Approx(1 + (near - 1'518.034 * 1'518.034 / near) / 20'000).epsilon(1e-6));
  // Nothing jumps where what is forgiven ends.
  const auto edge = charges_of(false, 20'000, {1'519, 1'519, 1'519, 1'519, 1'519});
  CHECK(edge.factor(20'000, 50'000) < 1.0002);
  CHECK(charges_of(false, 20'000, {}).factor(20'000, 50'000) == 1);
}

TEST_CASE("What is charged follows the windows that are added, and forgets") {
  env::window_charges charges(false);
  for (int i = 0; i < 6; ++i)
    charges.add(20'000, 0);
  CHECK(charges.factor(20'000, 0) == 1);
  for (int i = 0; i < 7; ++i)
    charges.add(1'000, 40'000);
  CHECK(charges.factor(20'000, 0) > 2);
  charges.forget();
  CHECK(charges.beyond().empty());
  charges.add(20'000, 100);
  CHECK(charges.factor(20'000, 0) == 1);
}

TEST_CASE("A plan is charged only where its runner's clock contradicts its events") {
  const auto honest = charges_of(true, 20'000, {-900, 2'000, 15'000, 3'000, 1'000, -4'000});
  CHECK(honest.factor(20'000, 50'000) == 1);
  CHECK(honest.alone(2, 10) == 0);
  const auto forged = charges_of(true, 1'000, {59'000, 60'000, 61'000, 60'000, 60'000});
  CHECK(forged.factor(1'000, 50'000) == Approx(61));
  // Of a long call a quarter may be anybody's.
  CHECK(forged.factor(400'000, 50'000) == 1);
  // Nor a twentieth of much content.
  CHECK(forged.factor(1'000, 1'500'000) == 1);
  // Of few windows the one that shows least.
  CHECK(charges_of(true, 1'000, {80'000, 60'000}).factor(1'000, 50'000) == Approx(61));
  CHECK(charges_of(true, 1'000, {80'000, 1'000}).factor(1'000, 50'000) == 1);
}

TEST_CASE("One window in which a process woke late is not charged, one that hides much is") {
  CHECK(charges_of(false, 20'000, {100, 200, 150, 7'900}).alone(3, 10) == 0);
  const auto hidden = charges_of(false, 20'000, {100, 200, 60'000, 150});
  CHECK(hidden.alone(2, 10) == Approx(60'000 - 8'000.0 * 8'000 / 60'000));
  CHECK(hidden.alone(3, 10) == 0);
}

TEST_CASE("Honest kernels get what they are worth") {
  for (const double true_ns : {10e3, 46e3, 700e3})
    for (const std::size_t pairs : {21, 42, 300}) {
      CAPTURE(true_ns);
      CAPTURE(pairs);
      std::vector<double> worth;
      for (std::uint64_t seed = 0; seed < 40; ++seed)
        worth.push_back(simulate(true_ns, pairs, seed, honestly).claimed / (50e3 / true_ns));
      // A clock that is known to 4 us a window says little of 10 us.
      CHECK(env::median_of(worth) == Approx(1).epsilon(true_ns < 20e3 ? 0.04 : 0.01));
      for (const double one : worth)
        CHECK(one < 1.03);
    }
}

TEST_CASE("What clocks leave open is charged to no honest kernel, whichever way they err") {
  for (const double bias_ns : {0.0, 1'500.0, 3'000.0}) {
    CAPTURE(bias_ns);
    std::vector<double> taken;
    for (std::uint64_t seed = 0; seed < 200; ++seed)
      taken.push_back(50e3 / 46e3 / simulate(46e3, 42, seed, honestly, 0.005, bias_ns).claimed - 1);
    // Half of them see more than the bias; nobody pays more than what was shown.
    CHECK(env::quantile_of(taken, 0.5) < 0.005 + bias_ns / 46e3);
    CHECK(env::quantile_of(taken, 0.95) < 0.03 + bias_ns / 46e3);
  }
}

TEST_CASE("An honest kernel that varies is not charged for it") {
  std::vector<double> worth;
  for (std::uint64_t seed = 0; seed < 40; ++seed)
    worth.push_back(simulate(46e3, 42, seed, honestly, 0.06).claimed / (50e3 / 46e3));
  CHECK(env::median_of(worth) == Approx(1).epsilon(0.02));
}

TEST_CASE("Lying in all windows, in two of five, in every second or in bursts does not pay") {
  using pattern = std::function<bool(std::size_t)>;
  const std::vector<pattern> patterns = {
      [](std::size_t) { return true; },
      [](std::size_t i) { return i % 5 == 1 || i % 5 == 3; },
      [](std::size_t i) { return i % 2 == 1; },
      [](std::size_t i) { return i % 3 != 0; },
      // In the buckets whose median counts, and there in most windows.
      [](std::size_t i) { return i / 3 % 7 < 4 && i % 3 != 0; },
      [](std::size_t i) { return i % 21 < 10; },
  };
  for (const double true_ns : {10e3, 46e3})
    for (const double told_share : {0.02, 0.4, 0.8})
      for (const std::size_t pairs : {21, 42, 300})
        for (std::size_t p = 0; p < patterns.size(); ++p) {
          CAPTURE(true_ns);
          CAPTURE(told_share);
          CAPTURE(pairs);
          CAPTURE(p);
          std::vector<double> gain;
          for (std::uint64_t seed = 0; seed < 20; ++seed) {
            const auto seen = simulate(true_ns, pairs, seed, [&](std::size_t i, double takes) {
              return patterns[p](i) ? told_share * takes : takes;
            });
            gain.push_back(seen.noisy ? 0 : seen.claimed / (50e3 / true_ns));
          }
          // Half a microsecond, 2 % and what single windows are known to.
          CHECK(env::median_of(gain) < 1.03 + 2'000 / true_ns);
        }
}

TEST_CASE("A clock that shows 3 % less around calls of one side makes no lie worth its while") {
  for (const double true_ns : {46e3, 700e3})
    for (const double told_share : {0.02, 0.4})
      for (const std::size_t pairs : {21, 42, 300}) {
        CAPTURE(true_ns);
        CAPTURE(told_share);
        CAPTURE(pairs);
        const auto lie = [&](std::size_t, double takes) { return told_share * takes; };
        for (std::uint64_t seed = 0; seed < 40; ++seed) {
          CHECK(simulate(true_ns, pairs, seed, lie, 0.005, -3'000).claimed < 1.05 * 50e3 / true_ns);
          // It does nothing to who does not lie.
          CHECK(simulate(true_ns, pairs, seed, honestly, 0.005, -3'000).claimed ==
                Approx(50e3 / true_ns).epsilon(0.01));
        }
      }
}

TEST_CASE("Rounds whose ratios are averaged are held to their harmonic mean") {
  CHECK(env::claimed_by_rounds({}) == 0);
  const std::vector<double> even{5, 5, 5};
  CHECK(env::claimed_by_rounds(even) == Approx(5));
  const std::vector<double> lies{1, 5, 5};
  CHECK(env::claimed_by_rounds(lies) == Approx(3 / 1.4));
  const std::vector<double> most_lie{1, 1, 5};
  CHECK(env::claimed_by_rounds(most_lie) == Approx(1));
  env::window_charges charges(false);
  std::vector<env::process_pairs> runs(1);
  for (int i = 0; i < 10; ++i) {
    const double says = i % 3 == 0 ? 1'000 : 20'000;
    charges.add(says, 20'000 - says);
    runs[0].push_back({40'000, says});
  }
  const auto after = env::charged(runs, charges, 1000, 0, false, {});
  double ratios = 0;
  for (const auto& pair : after[0])
    ratios += pair.ref_ns / pair.cand_ns / 10;
  CHECK(ratios < 2.1);
}
