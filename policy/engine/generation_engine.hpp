// What computes behind a generator (generator.hpp): one implementation for the host, one for
// devices; a server of another make is one more. The generator checks requests and keeps the
// announced weights; an engine decides in which order and on how many rows at a time it works. One
// thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/hash.hpp"
#include "base/status.hpp"
#include "policy/engine/arena.hpp"
#include "policy/engine/generator.hpp"

namespace quern::policy {

class generation_engine {
 public:
  virtual ~generation_engine() = default;

  /// Valid requests of one submission, in order.
  virtual void submit(std::span<const generation_request> requests) = 0;
  /// False: not in flight.
  virtual bool cancel(std::uint64_t id) = 0;
  virtual std::vector<generation_result> step() = 0;
  virtual bool in_flight(std::uint64_t id) const = 0;
  virtual std::size_t in_flight() const = 0;
  virtual bool idle() const = 0;

  /// From the next step on: the weights are those of `staged` (the generator's arena, whose tensor
  /// may be swapped with an equal one), known by `version` and `hash`.
  virtual base::status install(parameter_arena& staged, std::int64_t version,
                               const base::hash128& hash) = 0;
  virtual const generator_counters& counters() const = 0;
};

/// Fixed rows a pass, everything in one cache of slots; any device that ATen has (ops.hpp).
base::expected<std::unique_ptr<generation_engine>> make_slot_engine(
    const parameter_arena& initial, std::int64_t version, const base::hash128& hash,
    const generator_options& options, const parallel_context& context);

/// Pages, graphs, sampling on the device; the tables of small kernels (policy/device/kernels.h).
/// Error unavailable: no kernels for options.device.
base::expected<std::unique_ptr<generation_engine>> make_paged_engine(
    const parameter_arena& initial, std::int64_t version, const base::hash128& hash,
    const generator_options& options, const parallel_context& context);

}  // namespace quern::policy
