// The descriptors of this process: how many it may have (RLIMIT_NOFILE), and the standard ones.
#pragma once

#include <cstdint>

namespace quern::base {

/// The soft limit: the number of the highest descriptor is below it.
std::uint64_t descriptor_limit();

/// Raises the soft limit to the hard one, which needs no privilege. To be called first thing in
/// main: children inherit it.
void raise_descriptor_limit();

/// Opens /dev/null as standard input, output or error where that is closed. Without this the next
/// file that is opened gets its number, and what is printed is written into that file. To be called
/// first thing in main.
void fill_standard_descriptors();

}  // namespace quern::base
