// Equal caches for both sides of a measurement.
#pragma once

#include <cstdint>
#include <vector>

namespace quern::env {

/// Reads as much as the second-level cache holds, twice, so that neither side starts with what the
/// other left there. Reading, not writing: dirty lines would be written back in somebody's window.
/// Works on the core of the calling thread.
class cache_flush {
 public:
  cache_flush();
  void operator()();

 private:
  std::vector<std::uint64_t> data_;
  volatile std::uint64_t sink_ = 0;
};

}  // namespace quern::env
