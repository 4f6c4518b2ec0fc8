// A task of kernels in C++ as it is checked and timed: everything that does not depend on the
// candidate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

#include "base/status.hpp"
#include "env/core/core_task.hpp"
#include "env/runner/reference_service.hpp"
#include "env/task/task.hpp"
#include "env/tensor_task/check.hpp"

namespace quern::env {

/// Memory that one task's hidden rounds at the timed sizes may take.
inline constexpr std::size_t most_timed_bytes = 64u << 20;

/// Its timed rounds are all hidden rounds while they fit most_timed_bytes, else as many as fit, at
/// least one, drawn by the seed.
struct prepared_task : core_task {
  /// The plain baseline's artefact; empty in a task of baseline `reference`.
  std::filesystem::path plain_artefact;
  layer_set reference_layers;
};

/// Makes the inputs and runs the reference on all of them. Errors: invalid_argument says what is
/// wrong with the task or its reference; exhausted, that this machine's memory is too small for
/// it (check_room); anything else is of this host.
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
