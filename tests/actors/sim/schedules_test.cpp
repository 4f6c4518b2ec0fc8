// The staleness bound and the conservation law over thousands of seeded schedules with every fault.
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "support/test.hpp"
#include "tools/sim/world.hpp"

namespace {

using quern::sim::scenario;
using quern::sim::simulate;

/// QUERN_SIM_SCHEDULES asks for another number; tools/benchmarks/bench_sim runs 100,000.
std::int64_t schedules() {
  const char* asked = std::getenv("QUERN_SIM_SCHEDULES");
  return asked != nullptr ? std::strtoll(asked, nullptr, 10) : 3000;
}

TEST_CASE("bound and law hold in every schedule, and faults are in many of them") {
  const auto count = schedules();
  std::atomic<std::int64_t> next = 0;
  std::mutex mutex;
  std::string violation;
  std::int64_t lost = 0, doubled = 0, late = 0, reordered = 0, control = 0, generator = 0,
               learner = 0, host = 0, frozen = 0, sick = 0, short_ones = 0, trained = 0,
               at_bound = 0, mostly_lost = 0, left_out = 0, not_offered = 0, hung = 0, doomed = 0,
               broken = 0;
  const auto work = [&] {
    for (auto seed = ++next; seed <= count; seed = ++next) {
      const auto plan = scenario::drawn(static_cast<std::uint64_t>(seed));
      const auto one = simulate(plan);
      const std::lock_guard lock(mutex);
      if (!one.violation.empty() && violation.empty()) {
        violation = "seed " + std::to_string(seed) + ": " + one.violation;
        next = count;
      }
      lost += one.faults.lost > 0;
      doubled += one.faults.doubled > 0;
      late += one.faults.late > 0;
      reordered += one.faults.reordered > 0;
      control += one.faults.control_deaths > 0;
      generator += one.faults.generator_deaths > 0;
      learner += one.faults.learner_deaths > 0;
      host += one.faults.host_deaths > 0;
      frozen += one.faults.host_freezes > 0;
      sick += one.faults.sick_spells > 0;
      hung += one.faults.learner_hangs > 0;
      doomed += one.faults.doomed_starts > 0;
      broken += one.faults.broken_hosts > 0;
      mostly_lost += one.mostly_lost > 0;
      short_ones += one.events < 200;
      left_out += one.left_out > 0;
      not_offered += one.not_offered > 0;
      trained += one.trained;
      at_bound += one.oldest_age == plan.staleness.max_age;
    }
  };
  std::thread second(work);
  work();
  second.join();
  CHECK(violation == "");
  CHECK(short_ones == 0);
  for (const auto with : {lost, doubled, late, reordered, control, generator, learner, host, frozen,
                          sick, left_out, hung, doomed, broken}) {
    CHECK(with * 10 >= count);
  }
  // Weights that could not be offered: the learner steps seldom, so that links are mostly done.
  CHECK(not_offered * 20 >= count);
  // The bound is tight: runs that never come near it would prove nothing.
  CHECK(at_bound * 2 >= count);
  CHECK(trained > count);
  // Groups that were not trained on although two of them had been judged.
  CHECK(mostly_lost * 50 >= count);
}

TEST_CASE("deterministic mode: faults change neither a version nor its weights") {
  int compared = 0;
  for (std::uint64_t seed = 1; compared < 60; ++seed) {
    auto plan = scenario::drawn(seed);
    if (!plan.deterministic) continue;
    const auto with = simulate(plan);
    plan.faults = false;
    const auto without = simulate(plan);
    REQUIRE(with.violation == "");
    REQUIRE(without.violation == "");
    const auto common = std::min(with.chain.size(), without.chain.size());
    CHECK(with.chain.substr(0, common) == without.chain.substr(0, common));
    CHECK(with.steps > 0);
    compared += with.faults.control_deaths + with.faults.learner_deaths > 0;
  }
}

TEST_CASE("a schedule repeats exactly") {
  const auto plan = scenario::drawn(7);
  const auto once = simulate(plan);
  const auto again = simulate(plan);
  CHECK(once.weights == again.weights);
  CHECK(once.events == again.events);
  CHECK(once.issued == again.issued);
}

}  // namespace
