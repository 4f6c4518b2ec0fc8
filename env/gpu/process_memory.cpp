// How much device memory a candidate's own process takes.
#include "env/gpu/process_memory.hpp"

#include <algorithm>

namespace quern::env {

process_memory::question::question(process_memory* of, std::uint64_t others)
    : of_(of), others_(others) {
  if (of_ == nullptr) return;
  epoch_ = of_->quiet_.epoch();
  disturbed_ = of_->quiet_.disturbed();
  before_ = of_->free_bytes_();
}

process_memory::question::~question() {
  if (of_ == nullptr) return;
  const std::uint64_t after = of_->free_bytes_();
  const bool disturbed = disturbed_ || of_->quiet_.disturbed() || of_->quiet_.epoch() != epoch_;
  of_->count(before_, after, others_ + (disturbed ? of_->context_ : 0));
}

void process_memory::count(std::uint64_t before, std::uint64_t after, std::uint64_t others) {
  if (before == 0 || after == 0) return;
  last_free_ = after;
  last_epoch_ = quiet_.epoch();
  auto grown = static_cast<std::int64_t>(before) - static_cast<std::int64_t>(after);
  if (others > 0)
    grown = grown > 0 ? std::max<std::int64_t>(0, grown - static_cast<std::int64_t>(others)) : 0;
  // What it gives back it has taken before.
  bytes_ = std::max<std::int64_t>(0, bytes_ + grown);
}

}  // namespace quern::env
