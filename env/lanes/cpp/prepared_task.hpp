// Everything about a task that does not depend on the candidate: hidden inputs, what they must
// give, the baseline.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "env/lanes/cpp/candidate_process.hpp"
#include "env/runner/reference_service.hpp"
#include "env/task/task.hpp"
#include "env/tensor_task/check.hpp"
#include "env/tensor_task/fill.hpp"

namespace quern::env {

/// One set of inputs and the reference's outputs on it.
struct expected_case {
  std::string name;  ///< "n=7 m=33, large", for messages
  std::vector<tensor_bytes> inputs;
  std::vector<tensor_bytes> want;
};

/// All cases of one choice of sizes. A candidate is called on them one after the other in the same
/// memory, so that a result kept by address is found out; the last is the first with one element
/// changed, so that one kept by a fingerprint of a few elements is, too.
struct expected_size {
  task_instance instance;
  std::vector<expected_case> cases;
};

/// Memory that one task's hidden rounds at the timed sizes may take.
inline constexpr std::size_t most_timed_bytes = 64u << 20;

struct prepared_task {
  std::shared_ptr<const task> subject;
  std::string id;
  std::vector<expected_size> hidden;
  /// The timed sizes. First the case with the timed distributions, whose inputs are the base
  /// content from which every timed call's own content is made; then the hidden rounds
  /// `timed_rounds`, since a kernel could be right on them at the hidden sizes only.
  expected_size timed;
  /// Hidden rounds of timed.cases[1], [2], …: all of them while they fit most_timed_bytes, else as
  /// many as fit, at least one, drawn by the seed.
  std::vector<int> timed_rounds;
  std::int64_t floor_ns = 0;
  /// The plain baseline's artefact; empty in a task of baseline `reference`.
  std::filesystem::path plain_artefact;
  layer_set reference_layers;
  /// A first idea of the baseline's call time in ns; 0 before it was ever timed.
  double baseline_ns = 0;
  std::size_t bytes = 0;  ///< memory that inputs and outputs take
};

/// Input `i` of timed call `call` is refresh_input(layout, distribution, this address, call, base).
content_address timed_address(std::uint64_t seed, std::size_t input);

/// Makes the inputs and runs the reference on all of them. Errors: invalid_argument says what is
/// wrong with the task or its reference; anything else is of this host.
base::expected<std::unique_ptr<prepared_task>> prepare_task(std::shared_ptr<const task> subject,
                                                            reference_service& service, int core,
                                                            std::uint64_t input_seed,
                                                            const machine_peak& peak);

/// The hidden round at the timed sizes that evaluation `ordinal` must not go without, drawn by the
/// seed; none while it is among those that are kept.
std::optional<int> missing_timed_round(const prepared_task& of, std::uint64_t input_seed,
                                       std::uint64_t ordinal);

/// Makes the case of that round in the place of one that was kept. `reference`: any child of the
/// task's reference. Errors as prepare_task's.
base::status replace_timed_round(prepared_task& of, reference_runner& reference, int round,
                                 std::uint64_t input_seed, std::uint64_t ordinal);

}  // namespace quern::env
