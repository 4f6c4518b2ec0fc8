// How much a test tries at random.
#pragma once

#include <cstdint>

namespace quern::test {

/// Of `cases` random inputs: an eighth with sanitisers, where the fuzzers (tests/fuzz) try far more
/// of them.
constexpr std::uint64_t random_cases(std::uint64_t cases) {
#if defined(__SANITIZE_ADDRESS__)
  return cases / 8;
#else
  return cases;
#endif
}

}  // namespace quern::test
