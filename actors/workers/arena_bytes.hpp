// The raw bytes of an arena in host memory, as weight files carry them.
#pragma once

#include <cstddef>
#include <span>

#include "policy/engine/arena.hpp"

namespace quern::actors {

/// Valid while the arena lives. The arena lies in host memory.
inline std::span<std::byte> bytes_of(const policy::parameter_arena& arena) {
  return {static_cast<std::byte*>(arena.flat.data_ptr()), arena.flat.nbytes()};
}

}  // namespace quern::actors
