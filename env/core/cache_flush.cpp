#include "env/core/cache_flush.hpp"

#include <algorithm>

#include <unistd.h>

namespace quern::env {
namespace {

constexpr std::size_t line_words = 64 / sizeof(std::uint64_t);

}  // namespace

cache_flush::cache_flush() {
  const long level2 = sysconf(_SC_LEVEL2_CACHE_SIZE);
  data_.assign(static_cast<std::size_t>(std::clamp(level2, 256L << 10, 4L << 20)) * 2 /
                   sizeof(std::uint64_t),
               1);
}

void cache_flush::operator()() {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < data_.size(); i += line_words)
    sum += data_[i];
  sink_ = sum;
}

}  // namespace quern::env
