// What all fuzzers share. A fuzzer is one file: LLVMFuzzerTestOneInput gives any bytes to one
// reader and holds its answer against what the reader promises; sanitisers see the rest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace quern::fuzz {

/// Ends the process, which is how a fuzzer fails; `what` says which promise was broken.
inline void require(bool holds, std::string_view what) {
  if (holds) return;
  std::fprintf(stderr, "broken promise: %.*s\n", static_cast<int>(what.size()), what.data());
  std::abort();
}

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

}  // namespace quern::fuzz

/// Begins each fuzzer: defines what libFuzzer calls; `text` holds the bytes.
#define QUERN_FUZZ(text)                                                              \
  static void run_one(std::string_view text);                                         \
  extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) { \
    run_one(quern::fuzz::text_of(data, size));                                        \
    return 0;                                                                         \
  }                                                                                   \
  static void run_one(std::string_view text)
