// Memory for ATen in a reference runner: blocks are kept and handed out again, so that no timed
// call pays for page faults.
#pragma once

#include <cstddef>
#include <cstdint>

namespace quern::env {

/// Makes every CPU tensor of this process come from a pool of blocks by rounded size, never given
/// back to the system. Without it the outputs that a window keeps alive would come from fresh pages
/// and make the reference slower than the same operator in a warm program: speed-ups would be
/// flattered. For single-threaded processes; call it before the first tensor exists.
void use_pool_allocator();

/// Blocks that were asked from the system so far; constant once every shape has been seen.
std::int64_t pool_blocks();

}  // namespace quern::env
