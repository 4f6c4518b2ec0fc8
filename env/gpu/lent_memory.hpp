// The device memory that calls work on. Every runner has it mapped, so that nothing is mapped anew
// from one candidate to the next: inputs that all share (their content is made again before every
// call), an output buffer for every runner of a side, a workspace that all share.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "base/file.hpp"
#include "base/random.hpp"
#include "env/gpu/device_context.hpp"
#include "env/gpu/link.hpp"

namespace quern::env {

/// Bytes that one evaluation needs of each kind.
struct lent_bytes {
  std::uint64_t inputs = 1;
  std::uint64_t outputs = 1;  ///< of every output buffer
  std::uint64_t workspace = 1;
};

/// How a runner that has a region as `has` is to map it in its making `making`; nothing: as it has
/// it. `elsewhere`: at other addresses than before. `other`: of the runner whose addresses it is to
/// have; null, or not mapped: it needs none. `draw`: addresses nobody asked for yet. Pure.
std::optional<region_mapping> mapping_to_make(const region_mapping& has, std::uint64_t making,
                                              bool elsewhere, const region_mapping* other,
                                              const std::function<region_mapping()>& draw);

/// Owns the regions. They grow when more is asked for and never shrink. What one side wrote is
/// never mapped in a runner of the other. One thread, but for `lend`, which others may call as
/// well.
class lent_memory {
 public:
  /// `output_buffers`: runners that can be lent to at the same time. `seed`: of the addresses.
  lent_memory(device_context& context, std::size_t output_buffers, std::uint64_t seed)
      : context_(&context),
        outputs_(output_buffers),
        addresses_(seed, "addresses of lent memory") {}

  /// Makes every region at least this large; what a region held is lost when it grows.
  base::status reserve(const lent_bytes& wanted);

  /// All regions together.
  [[nodiscard]] std::uint64_t bytes() const;
  [[nodiscard]] std::uint64_t inputs() const { return inputs_.memory.address(); }
  [[nodiscard]] std::uint64_t outputs(std::size_t output_buffer) const {
    return outputs_[output_buffer].memory.address();
  }
  [[nodiscard]] std::uint64_t workspace() const { return workspace_.memory.address(); }

  /// Maps in the runner what it has not mapped or what was made anew since. `elsewhere`: all of it,
  /// at other addresses than before.
  answered<void> lend(gpu_link& to, std::size_t output_buffer, bool elsewhere = false);

  /// The same at the addresses at which `other` has each region: for two runners whose times are
  /// compared. Other addresses are worth up to 2 % of a call, the same in every window
  /// (docs/performance.md).
  answered<void> lend_as(gpu_link& to, std::size_t output_buffer, const gpu_link& other);

 private:
  struct region {
    device_allocation memory;
    std::uint64_t making = 0;  ///< 0: not made yet; no two regions have the same
  };
  /// A region as a runner is told of it.
  struct to_map {
    std::size_t region;
    base::unique_fd file;
    std::uint64_t bytes;
    region_mapping where;
  };
  base::status grow(region& what, std::uint64_t bytes);
  region_mapping somewhere();
  std::vector<to_map> not_mapped(const gpu_link& in, std::size_t output_buffer, bool elsewhere,
                                 const gpu_link* other);
  static answered<void> map(gpu_link& to, const std::vector<to_map>& regions);

  std::mutex guard_;  ///< of all that follows
  device_context* context_;
  region inputs_, workspace_;
  std::vector<region> outputs_;
  std::uint64_t makings_ = 0;
  base::random_stream addresses_;
};

}  // namespace quern::env
