// A runner's view of the evaluator's memory files: ranges that may be touched, guard pages
// everywhere else.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "env/runner/protocol.hpp"

namespace quern::env::runner {

/// Up to max_files mapped files by index. Used inside runner processes only; no exceptions, no
/// allocation: quern-runner stays as small as can be.
class mapped_files {
 public:
  mapped_files() = default;
  ~mapped_files();
  mapped_files(const mapped_files&) = delete;
  mapped_files& operator=(const mapped_files&) = delete;

  /// Maps `fd` (which stays the caller's), replacing what the index had. False with errno set where
  /// the request is out of bounds (EINVAL) or the system refuses.
  bool map(const map_request& request, int fd);

  /// Address of byte `offset`; null where nothing is mapped or the offset is beyond the file.
  std::byte* at(std::uint32_t file, std::uint64_t offset) const;

 private:
  struct one {
    std::byte* reserved = nullptr;
    std::size_t reserved_bytes = 0;
    std::size_t bytes = 0;
  };
  std::array<one, max_files> files_{};
};

}  // namespace quern::env::runner
