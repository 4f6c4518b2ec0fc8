// What the modes of bench_pytorch share: options, opened evaluators, parts, and how a list of
// candidates is judged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "env/judge/evaluator_options.hpp"
#include "env/judge/judge.hpp"

namespace quern::tools {

struct pytorch_bench_options {
  std::string what, source = ".", only, sandbox = "required";
  std::optional<int> gpu;  ///< none: a core
  int part = 1, parts = 1;
  std::uint64_t seed = 1;
  double budget_s = 0.15;
  double precision = env::evaluator_options{}.precision;
  int evaluators = 1;    ///< rate: side by side on the device
  int compilers = 0;     ///< threads that build ahead, of all evaluators together; 0: by the cores
  int tries = 1;         ///< of a candidate whose verdict says nothing about it
  int seeds = 3;         ///< hostile: trials of each candidate
  int count = 0;         ///< mixed: evaluations; self: of references as they are
  double limit_s = 535;  ///< of a process: it ends with what it has by then
  std::vector<std::string> folders;  ///< rate, agreement: of candidates
  bool honest = false;               ///< ... and those of tests/honest/pytorch
  std::string kernelbench;           ///< a clone of its tree
  std::string python;                ///< for KernelBench's evaluator; empty: that of candidates
  int beside = 0;                    ///< rate: candidates that KernelBench's evaluator judges, too
  int at_once = 1;                   ///< rate: of these, side by side
  bool beside_only = false;          ///< rate: nothing but these
  std::string verdicts;              ///< rate: file that gets a line of JSON for each verdict
  std::string windows;   ///< honest, rate, self: file that gets a line of JSON for each window
  double window_us = 0;  ///< what a window of the reference lasts; 0: as in a run
};

/// What one process does of a list, and how long it may take.
class bench_part {
 public:
  explicit bench_part(const pytorch_bench_options& o)
      : part_(o.part), parts_(o.parts), limit_s_(o.limit_s) {}
  /// Every parts-th place of a list of so many, so that long and short ones are mixed.
  [[nodiscard]] std::vector<std::size_t> places(std::size_t count) const;
  /// Seconds since it began.
  [[nodiscard]] double seconds() const;
  /// Nothing new begins any more that may take so long.
  [[nodiscard]] bool is_over(double seconds_needed = 0) const;
  /// Until the 9 minutes are over.
  [[nodiscard]] double seconds_left() const;

 private:
  int part_, parts_;
  double limit_s_;
  base::steady_clock clock_;
  std::int64_t begun_ = clock_.now_ns();
};

/// Whether --only names it: "A,B", one of which is part of the name. Empty: it does.
bool is_asked_for(const std::string& name, const std::string& only);
/// Error (invalid_argument): a word of --only is part of none of these names.
base::status check_only(const std::string& only, const std::vector<std::string>& names);
/// Error: as of check_only().
template <class Module>
base::status keep_named(std::vector<Module>& all, const std::string& only) {
  std::vector<std::string> names;
  for (const Module& one : all)
    names.push_back(one.name);
  QUERN_CHECK(check_only(only, names));
  std::erase_if(all, [&](const Module& one) { return !is_asked_for(one.name, only); });
  return {};
}

/// Opens an evaluator on the GPU or the core of the options. Error: what this machine lacks.
base::expected<std::unique_ptr<env::candidate_judge>> open_module_judge(
    const pytorch_bench_options& o);

/// "1.02x of 183 us" of a verdict with a time; else empty.
std::string speed_text(const env::verdict& v);
/// "hack:overrun", "ok".
std::string kind_text(const env::verdict& v);
/// More than 1.00 is claimed.
bool claims_gain(const env::verdict& v);

/// Judges the requests of `places` in their order, with builds ahead, until the part is over; tells
/// `done` each verdict and the seconds since the one before. `with`: they share the work, a thread
/// each. Whether all were judged; else how many were not is printed.
bool judge_in_turn(
    const std::vector<env::candidate_judge*>& with,
    const std::vector<env::evaluation_request>& requests, const std::vector<std::size_t>& places,
    const pytorch_bench_options& o, const bench_part& part,
    const std::function<void(std::size_t place, const env::verdict& v, double seconds)>& done);

/// Prints what went wrong; the exit code for it.
int bench_failed(const base::error& e);

/// The modes; each prints and returns the exit code.
int bench_honest_modules(const pytorch_bench_options& o);
int bench_hostile_modules(const pytorch_bench_options& o);
int bench_mixed_modules(const pytorch_bench_options& o);
int bench_rate_of_modules(const pytorch_bench_options& o);
int bench_agreement_of_builds(const pytorch_bench_options& o);
int bench_modules_against_themselves(const pytorch_bench_options& o);

}  // namespace quern::tools
