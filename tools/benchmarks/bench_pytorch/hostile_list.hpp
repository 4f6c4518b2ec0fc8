// Hostile candidates as requests, and what a verdict on one comes to.
#pragma once

#include <memory>

#include "tools/benchmarks/bench_pytorch/bench_pytorch.hpp"
#include "tools/benchmarks/bench_pytorch/module_files.hpp"

namespace quern::tools {

/// What a verdict on a hostile candidate comes to.
enum class trial_end {
  caught,
  no_gain,      ///< `ok` or noisy, where that may be right, and no more than 1.00 is claimed
  other_catch,  ///< the candidate's fault, where only other verdicts are right
  undecided,    ///< nothing is said about the candidate
  claims,       ///< `ok` may be right, and more than 1.00 is claimed: chance, or a gain
  gap,          ///< the same by what docs/integrity.md says is left
  accepted      ///< `ok`, which cannot be right
};
inline constexpr const char* trial_end_names[] = {
    "caught",    "no gain",       "caught by another check than expected",
    "undecided", "claims a gain", "GAIN BY A KNOWN GAP",
    "ACCEPTED"};
inline const char* name_of(trial_end end) {
  return trial_end_names[static_cast<int>(end)];
}

/// `on_gpu`: any fault is right there, since files name the verdicts of a core.
trial_end end_of_trial(const hostile_module& one, const env::verdict& v, bool on_gpu);

/// A port of this machine is listened to for as long as the process lives.
base::expected<hostile_places> open_hostile_places();

/// Those that the device of the options can be asked about.
base::expected<std::vector<hostile_module>> read_hostile_of_device(const pytorch_bench_options& o);

/// The task of all of them in the sizes in which it is asked.
struct hostile_subjects {
  std::shared_ptr<const env::task> small;  ///< of a core
  std::shared_ptr<const env::task> usual;  ///< of the device: on a GPU with calls of some 100 us
};
base::expected<hostile_subjects> read_hostile_subjects(const pytorch_bench_options& o);

/// With a clock. Each trial is a text of its own, so that no verdict is taken from another.
env::evaluation_request hostile_request(const hostile_module& one, const hostile_subjects& subjects,
                                        std::uint64_t trial);

}  // namespace quern::tools
