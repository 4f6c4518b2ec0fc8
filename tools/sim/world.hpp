// A run in one thread: the orchestrator and the head of dispatch as they are, on a real run
// directory, with models of generators, learner and hosts around them, under a fake clock, while
// processes die and messages go astray. An oracle that shares no code with them watches.
#pragma once

#include <cstdint>
#include <string>

#include "actors/decide/sample_book.hpp"
#include "tools/sim/events.hpp"

namespace quern::sim {

struct scenario {
  std::uint64_t seed = 0;
  std::int64_t least_events = 200;  ///< messages delivered before the faults end
  bool faults = true;
  bool deterministic = false;
  actors::staleness_limits staleness;
  int group_size = 3;
  int generators = 1;
  int hosts = 2;
  int slots = 1;
  int checkpoint_every = 2;
  double slow_links = 0;  ///< how often a link takes long to send weights
  fault_rates rates;
  int control_deaths = 0, generator_deaths = 0, learner_deaths = 0, host_deaths = 0,
      host_freezes = 0;
  bool exemplars = false;  ///< prompts show kernels, which have to be timed first
  int learner_hangs = 0;   ///< it lives and answers nothing
  int doomed_starts = 0;   ///< spells in which a process of one role dies as soon as it is started
  int broken_hosts = 0;    ///< one host fails at every job for a while
  int sick_spells = 0;  ///< in which no host can judge anything, as if a disk they share were full

  /// All of it drawn from the seed; every fault is on in about half of the schedules.
  static scenario drawn(std::uint64_t seed);
};

struct outcome {
  std::string violation;  ///< empty: everything held
  std::int64_t events = 0;
  fault_counts faults;
  std::int64_t issued = 0, trained = 0, dropped = 0;
  std::int64_t steps = 0;
  std::int64_t incarnations = 0;
  std::int64_t oldest_age = 0;  ///< the largest age at which a token was trained on
  std::int64_t masked_tokens = 0;
  std::int64_t left_out = 0;     ///< steps whose gradient was not finite
  std::int64_t not_offered = 0;  ///< steps whose weights had no copy to be sent from
  std::int64_t mostly_lost = 0;  ///< dropped because their group had lost most to infrastructure
  std::string weights;           ///< hash of the weights at the end
  std::string chain;             ///< hashes of all versions, for deterministic mode
};

/// Runs one schedule to its end: faults stop, everything under way settles, the run is stopped, the
/// law is counted. With QUERN_MUTATIONS, `actors::active_mutation` of the calling thread is in
/// force.
outcome simulate(const scenario& what);

}  // namespace quern::sim
