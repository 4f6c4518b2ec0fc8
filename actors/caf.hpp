// The one header that sees CAF 0.17.6. Pitfalls that shape its use: an infinity in a remote message
// hangs the node for ever (no floats in messages: wire.hpp); a request to a dead peer ends only by
// its timeout (never `infinite`); stateful_actor constructs an aggregate state wrongly
// (QUERN_STATE).
#pragma once

#include <type_traits>

#include <caf/all.hpp>
#include <caf/io/all.hpp>

/// Every actor state: not an aggregate, or CAF 0.17 under C++20 initialises its first member with
/// the actor's address.
#define QUERN_STATE(State) \
  static_assert(!std::is_aggregate_v<State>, #State " needs a constructor that takes its actor")
