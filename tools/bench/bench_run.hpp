// Judges a list of candidates on all devices: a thread a judge, compilers ahead of it.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "env/judge/evaluation_request.hpp"
#include "env/judge/judge.hpp"

namespace quern::tools {

struct bench_run_options {
  int compilers = 1;  ///< threads that compile ahead, for each judge; 0: none
  int tries = 3;      ///< evaluations of a candidate whose verdict says nothing about it
  /// A judge that fails this many candidates in a row (infra_error) is given up; where each of them
  /// put its device into trouble (candidate_judge::trouble), which then got well, twice as many.
  int patience = 3;
  /// A candidate that put devices into trouble so often is left out (is_left_out). Trouble behind
  /// others' failures does not count: it may be the host's.
  int most_troubles = 2;
  /// A device in trouble is tried again (candidate_judge::recover) so often; meanwhile others do
  /// its work. One that is not well after `recover_within` is given up; 0: at once.
  base::nanoseconds_t recover_every = 1'000'000'000;
  base::nanoseconds_t recover_within = 600'000'000'000;
};

/// What is done with a verdict; false: that was the last one.
using judged_item = std::function<bool(std::size_t item, const env::verdict& v, std::size_t judge)>;

/// Judges requests[i] for each i of `items`, each once, and calls `done` for each verdict, from one
/// thread at a time; `judge`: whose it is, by its place. Ends early once `stop` is set or `done`
/// returns false; what is being judged then is finished and told. Returns what judges that were
/// given up had said; empty: none was. Fewer verdicts than items are told only after a stop or
/// where every judge was given up. Requests and judges outlive the call; a judge is used by one
/// thread (compile_ahead: by several).
std::vector<std::string> run_bench(std::span<env::candidate_judge* const> judges,
                                   std::span<const env::evaluation_request> requests,
                                   std::span<const std::size_t> items,
                                   const bench_run_options& options, const std::atomic<bool>& stop,
                                   const judged_item& done);

}  // namespace quern::tools
