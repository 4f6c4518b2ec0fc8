// What `quern-runner nvrtc LIBRARY` is asked to compile: a memory file on descriptor 3.
#pragma once

#include <cstdint>

namespace quern::env::runner {

inline constexpr int nvrtc_request_fd = 3;
inline constexpr std::uint32_t nvrtc_request_magic = 0x314E5251;  // "QRN1"

/// Begins the file. Behind it stand that many texts, each ended by a zero byte: options, then name
/// and text of every header in turn, then name expressions, then the source.
struct nvrtc_request_head {
  std::uint32_t magic = nvrtc_request_magic;
  std::uint32_t options = 0;
  std::uint32_t headers = 0;
  std::uint32_t names = 0;
};

inline constexpr std::uint32_t nvrtc_most_texts = 4096;  ///< of all kinds together

/// What it leaves in its working folder: machine code, and the symbol of each name expression in
/// their order, each ended by a zero byte. Messages go to its error stream.
inline constexpr const char* nvrtc_code_file = "kernel.cubin";
inline constexpr const char* nvrtc_names_file = "kernel.names";

/// Exit status.
enum nvrtc_end : int {
  nvrtc_built = 0,
  nvrtc_refused = 1,  ///< the compiler's answer to this source
  nvrtc_unusable = 2  ///< no such library, a damaged request, no room for the result
};

}  // namespace quern::env::runner
