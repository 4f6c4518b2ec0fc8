// How many files this process may have open at a time (RLIMIT_NOFILE).
#pragma once

#include <cstdint>

namespace quern::base {

/// The soft limit: the number of the highest descriptor is below it.
std::uint64_t descriptor_limit();

/// Raises the soft limit to the hard one, which needs no privilege. To be called first thing in
/// main: children inherit it.
void raise_descriptor_limit();

}  // namespace quern::base
