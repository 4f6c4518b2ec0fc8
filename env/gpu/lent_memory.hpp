// The device memory that calls work on: four pieces that every runner of a device has mapped, so
// that nothing is mapped anew from one candidate to the next.
#pragma once

#include <array>
#include <cstdint>

#include "env/gpu/desk.hpp"
#include "env/gpu/link.hpp"

namespace quern::env {

/// Owns the pieces. They grow when more is asked for and never shrink. One thread.
class lent_memory {
 public:
  explicit lent_memory(device_desk& desk) : desk_(&desk) {}

  /// Makes piece `which` at least this large; what it held is lost when it grows.
  base::status reserve(runner::gpu_piece which, std::uint64_t bytes);

  [[nodiscard]] const device_piece& piece(runner::gpu_piece which) const { return pieces_[which]; }
  [[nodiscard]] std::uint64_t address(runner::gpu_piece which) const {
    return pieces_[which].address();
  }

  /// Maps in the runner what it has not mapped or what was made anew since.
  answered<void> lend(gpu_link& to) const;

 private:
  device_desk* desk_;
  std::array<device_piece, runner::lent_pieces> pieces_;
  std::array<std::uint64_t, runner::lent_pieces> making_{};
};

}  // namespace quern::env
