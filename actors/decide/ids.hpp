// The numbers by which actors speak of things: samples, groups, versions of the weights, leases.
#pragma once

#include <cstdint>

#include "base/clock.hpp"
#include "storage/ledger_rows.hpp"

namespace quern::actors {

using sample_id = std::int64_t;
using group_id = std::int64_t;
/// Counts optimiser steps: weights of version v have seen v steps. Durable and monotone in an
/// incarnation.
using weights_version = std::int64_t;
/// Counts the lives of a run: each recovery from a checkpoint opens a new one.
using incarnation_id = std::int64_t;
/// One incarnation of an evaluator host at the gateway; never used twice in the life of a run.
using session_id = std::uint64_t;
/// One permission to work on one job until a deadline; the incarnation stands in the upper 24 bits,
/// so that no two incarnations of a run share one.
using lease_id = std::uint64_t;

using base::nanoseconds_t;

using storage::sample_state;
using storage::segment;

constexpr int lease_counter_bits = 40;

/// The first lease id of an incarnation, and the incarnation of a lease.
constexpr lease_id first_lease(incarnation_id incarnation) {
  return static_cast<lease_id>(incarnation) << lease_counter_bits;
}
constexpr incarnation_id incarnation_of(lease_id lease) {
  return static_cast<incarnation_id>(lease >> lease_counter_bits);
}

}  // namespace quern::actors
