// The device memory that calls work on. Every runner has it mapped, so that nothing is mapped anew
// from one candidate to the next: inputs that all share (their content is made again before every
// call), outputs of its own for every seat, a workspace that all share.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "base/file.hpp"
#include "base/random.hpp"
#include "env/gpu/desk.hpp"
#include "env/gpu/link.hpp"

namespace quern::env {

/// Bytes that one evaluation needs of each kind.
struct lent_bytes {
  std::uint64_t inputs = 1;
  std::uint64_t outputs = 1;  ///< of every seat
  std::uint64_t workspace = 1;
};

/// How a runner that has a piece as `has` is to map it in its making `making`; nothing: as it has
/// it. `elsewhere`: at other addresses than before. `other`: of the runner whose addresses it is to
/// have; null, or not mapped: it needs none. `draw`: addresses nobody asked for yet. Pure.
std::optional<piece_mapping> mapping_to_make(const piece_mapping& has, std::uint64_t making,
                                             bool elsewhere, const piece_mapping* other,
                                             const std::function<piece_mapping()>& draw);

/// Owns the pieces. They grow when more is asked for and never shrink. What one side wrote is never
/// mapped in a runner of the other. One thread, but for `lend`, which others may call as well.
class lent_memory {
 public:
  /// `seats`: runners that can be lent to at the same time. `seed`: of the addresses.
  lent_memory(device_desk& desk, std::size_t seats, std::uint64_t seed)
      : desk_(&desk), outputs_(seats), addresses_(seed, "addresses of lent memory") {}

  /// Makes every piece at least this large; what a piece held is lost when it grows.
  base::status reserve(const lent_bytes& wanted);

  /// All pieces together.
  [[nodiscard]] std::uint64_t bytes() const;
  [[nodiscard]] std::uint64_t inputs() const { return inputs_.memory.address(); }
  [[nodiscard]] std::uint64_t outputs(std::size_t seat) const {
    return outputs_[seat].memory.address();
  }
  [[nodiscard]] std::uint64_t workspace() const { return workspace_.memory.address(); }

  /// Maps in the runner what it has not mapped or what was made anew since. `elsewhere`: all of it,
  /// at other addresses than before.
  answered<void> lend(gpu_link& to, std::size_t seat, bool elsewhere = false);

  /// The same at the addresses at which `other` has each piece: for two runners whose times are
  /// compared. Other addresses are worth up to 2 % of a call, the same in every window
  /// (docs/performance.md).
  answered<void> lend_as(gpu_link& to, std::size_t seat, const gpu_link& other);

 private:
  struct piece {
    device_piece memory;
    std::uint64_t making = 0;  ///< 0: not made yet; no two pieces have the same
  };
  /// A piece as a runner is told of it.
  struct to_map {
    std::size_t piece;
    base::unique_fd file;
    std::uint64_t bytes;
    piece_mapping where;
  };
  base::status grow(piece& what, std::uint64_t bytes);
  piece_mapping somewhere();
  std::vector<to_map> not_mapped(const gpu_link& in, std::size_t seat, bool elsewhere,
                                 const gpu_link* other);
  static answered<void> map(gpu_link& to, const std::vector<to_map>& pieces);

  std::mutex guard_;  ///< of all that follows
  device_desk* desk_;
  piece inputs_, workspace_;
  std::vector<piece> outputs_;
  std::uint64_t makings_ = 0;
  base::random_stream addresses_;
};

}  // namespace quern::env
