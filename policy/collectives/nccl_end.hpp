// How a communicator of NCCL ends: in order where all ranks end it, by abort everywhere else. To
// end in order is a collective between the ranks of a host, in which a rank alone waits for ever,
// and the last call of it cannot be broken off: so all agree first that all have come.
#pragma once

#include <functional>
#include <string_view>

#include "base/clock.hpp"
#include "base/status.hpp"
#include "policy/collectives/nccl_api.hpp"
#include "policy/collectives/rendezvous.hpp"

namespace quern::policy::nccl {

/// Whether every rank of the group comes here within about `patience` of the first; all get the
/// same answer, unless the group fails meanwhile, which is a no. `name` is used once.
bool all_end(rendezvous& group, std::string_view name, base::nanoseconds_t patience);

/// Finalizes and destroys `which`. If that fails, `failed` says so of the group, or finalizing is
/// not over within `patience`: aborts it, and returns false. Gone in either case.
bool end_in_order(const functions& call, comm* which, base::nanoseconds_t patience,
                  const std::function<bool()>& failed);

}  // namespace quern::policy::nccl
