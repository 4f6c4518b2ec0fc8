// The device memory that calls work on.
#include "env/gpu/lent_memory.hpp"

namespace quern::env {

base::status lent_memory::reserve(runner::gpu_piece which, std::uint64_t bytes) {
  if (bytes <= pieces_[which].bytes()) return {};
  // The old piece first: two of them might not fit. Runners that have it mapped keep it alive until
  // they map the new one.
  pieces_[which] = {};
  QUERN_TRY(pieces_[which], desk_->allocate(bytes + bytes / 4));
  ++making_[which];
  return {};
}

answered<void> lent_memory::lend(gpu_link& to) const {
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    if (to.mapped[i] == making_[i]) continue;
    if (auto done = to.import(static_cast<std::int32_t>(i), pieces_[i]); !done) return done;
    to.mapped[i] = making_[i];
  }
  return {};
}

}  // namespace quern::env
