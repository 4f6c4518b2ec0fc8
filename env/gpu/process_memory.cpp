// How much device memory a candidate's own process takes.
#include "env/gpu/process_memory.hpp"

#include <algorithm>

namespace quern::env {

process_memory::question::question(process_memory* of, std::uint64_t others)
    : memory_(of), others_(others) {
  if (memory_ == nullptr) return;
  seen_ = memory_->quiet_.now();
  before_ = memory_->free_bytes_();
}

process_memory::question::~question() {
  if (memory_ == nullptr) return;
  const std::uint64_t after = memory_->free_bytes_();
  // A question that takes seconds has several contexts made beside it.
  const auto contexts = device_quiet::disturbers_between(seen_, memory_->quiet_.now());
  memory_->count(before_, after, others_ + contexts * memory_->context_);
}

void process_memory::count(std::uint64_t before, std::uint64_t after, std::uint64_t others) {
  if (before == 0 || after == 0) return;
  last_free_ = after;
  last_seen_ = quiet_.now();
  auto grown = static_cast<std::int64_t>(before) - static_cast<std::int64_t>(after);
  // Either way as much is theirs as may be.
  const auto theirs = static_cast<std::int64_t>(others);
  grown = grown > 0 ? std::max<std::int64_t>(0, grown - theirs)
                    : std::min<std::int64_t>(0, grown + theirs);
  // What it gives back it has taken before.
  bytes_ = std::max<std::int64_t>(0, bytes_ + grown);
}

}  // namespace quern::env
