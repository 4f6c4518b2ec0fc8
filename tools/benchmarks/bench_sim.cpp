// Runs the simulation over many seeded schedules on all cores: `bench_sim [SCHEDULES] [FIRST SEED]
// [THREADS]`. Prints what the schedules held and the first violation, if there is one; exit code 1
// then.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "tools/sim/world.hpp"

namespace {

using quern::sim::outcome;

struct total {
  std::int64_t schedules = 0, events = 0, least_events = 0, steps = 0, issued = 0, trained = 0,
               dropped = 0, incarnations = 0, masked = 0, at_bound = 0;
  std::int64_t with_lost = 0, with_doubled = 0, with_late = 0, with_reordered = 0, with_control = 0,
               with_generator = 0, with_learner = 0, with_host = 0, with_freeze = 0, with_spell = 0,
               with_hang = 0, with_doomed = 0, with_broken = 0, mostly_lost = 0;

  void add(const quern::sim::scenario& plan, const outcome& one) {
    least_events = schedules == 0 ? one.events : std::min(least_events, one.events);
    ++schedules;
    events += one.events;
    steps += one.steps;
    issued += one.issued;
    trained += one.trained;
    dropped += one.dropped;
    incarnations += one.incarnations;
    masked += one.masked_tokens > 0;
    at_bound += one.oldest_age == plan.staleness.max_age;
    with_lost += one.faults.lost > 0;
    with_doubled += one.faults.doubled > 0;
    with_late += one.faults.late > 0;
    with_reordered += one.faults.reordered > 0;
    with_control += one.faults.control_deaths > 0;
    with_generator += one.faults.generator_deaths > 0;
    with_learner += one.faults.learner_deaths > 0;
    with_host += one.faults.host_deaths > 0;
    with_freeze += one.faults.host_freezes > 0;
    with_spell += one.faults.sick_spells > 0;
    with_hang += one.faults.learner_hangs > 0;
    with_doomed += one.faults.doomed_starts > 0;
    with_broken += one.faults.broken_hosts > 0;
    mostly_lost += one.mostly_lost > 0;
  }
};

}  // namespace

int main(int argc, char** argv) {
  std::int64_t schedules = 100'000;
  std::int64_t first = 1;
  std::int64_t threads = std::max(1U, std::thread::hardware_concurrency());
  CLI::App app("bench_sim: the classes of a run through seeded schedules, with deaths and losses");
  app.add_option("schedules", schedules, "how many")->check(CLI::Range(1, 1'000'000'000));
  app.add_option("first", first, "seed of the first")->check(CLI::Range(0, 1'000'000'000));
  app.add_option("threads", threads, "at once")->check(CLI::Range(1, 1024));
  CLI11_PARSE(app, argc, argv);
  const auto begun = std::chrono::steady_clock::now();
  std::atomic<std::int64_t> next = 0;
  std::mutex mutex;
  total sum;
  std::string violation;
  const auto work = [&] {
    for (auto i = next++; i < schedules; i = next++) {
      const auto plan = quern::sim::scenario::drawn(static_cast<std::uint64_t>(first + i));
      const auto one = quern::sim::simulate(plan);
      const std::lock_guard lock(mutex);
      sum.add(plan, one);
      if (one.violation.empty()) continue;
      if (violation.empty()) violation = fmt::format("seed {}: {}", plan.seed, one.violation);
      next = schedules;
    }
  };
  std::vector<std::thread> workers;
  for (std::int64_t i = 1; i < threads; ++i)
    workers.emplace_back(work);
  work();
  for (auto& worker : workers)
    worker.join();

  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  const auto share = [&](std::int64_t count) {
    return 100.0 * static_cast<double>(count) /
           static_cast<double>(std::max<std::int64_t>(1, sum.schedules));
  };
  fmt::print("{} schedules in {:.1f} s on {} threads ({:.2f} ms each)\n", sum.schedules,
             took.count(), threads,
             took.count() * 1e3 * static_cast<double>(threads) /
                 static_cast<double>(std::max<std::int64_t>(1, sum.schedules)));
  fmt::print("{} messages delivered, at least {} in each; {} steps, {} incarnations\n", sum.events,
             sum.least_events, sum.steps, sum.incarnations);
  fmt::print("{} samples issued = {} trained + {} dropped\n", sum.issued, sum.trained, sum.dropped);
  fmt::print(
      "share of schedules with: lost {:.0f} %, doubled {:.0f} %, late {:.0f} %, reordered {:.0f} "
      "%, "
      "death of control {:.0f} %, generator {:.0f} %, learner {:.0f} %, host {:.0f} %, frozen host "
      "{:.0f} %, hosts that can judge nothing for a while {:.0f} %, hung learner {:.0f} %, starts "
      "that fail "
      "at once {:.0f} %, broken host {:.0f} %\n",
      share(sum.with_lost), share(sum.with_doubled), share(sum.with_late),
      share(sum.with_reordered), share(sum.with_control), share(sum.with_generator),
      share(sum.with_learner), share(sum.with_host), share(sum.with_freeze), share(sum.with_spell),
      share(sum.with_hang), share(sum.with_doomed), share(sum.with_broken));
  fmt::print(
      "the age bound was reached in {:.0f} %, tokens were masked in {:.0f} %, groups were dropped "
      "for what they had lost in {:.0f} %\n",
      share(sum.at_bound), share(sum.masked), share(sum.mostly_lost));
  if (violation.empty()) return 0;
  fmt::print("VIOLATION {}\n", violation);
  return 1;
}
