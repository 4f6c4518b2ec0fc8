// Randomness is addressed, not drawn: every number is a pure function of (seed, purpose, ids,
// position), so results depend neither on batching nor on the order in which things happen.
// Generator: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace quern::base {

/// One block of Philox4x32-10.
std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                        std::array<std::uint32_t, 2> key);

/// Where a stream of numbers lives. `purpose` keeps streams of different users apart
/// ("sample", "inputs", "exemplar"); `ids` say which one (sample id, task hash words, ...).
struct random_address {
  std::uint64_t key = 0;
  std::uint64_t stream = 0;
  static random_address of(std::uint64_t seed, std::string_view purpose,
                           std::initializer_list<std::uint64_t> ids = {});
};

/// Maps 32 random bits to the open interval (0, 1): never 0, never 1, safe under log.
inline float to_open_unit(std::uint32_t bits) {
  return (static_cast<float>(bits >> 9) + 0.5F) * (1.0F / 8388608.0F);
}

/// 128 bits at `position` of the stream.
std::array<std::uint32_t, 4> random_block(const random_address& where, std::uint64_t position);

/// A cursor over one addressed stream. Equal addresses give equal sequences. Not thread-safe.
class random_stream {
 public:
  explicit random_stream(random_address where) : where_(where) {}
  random_stream(std::uint64_t seed, std::string_view purpose,
                std::initializer_list<std::uint64_t> ids = {})
      : where_(random_address::of(seed, purpose, ids)) {}

  std::uint32_t next_u32();
  std::uint64_t next_u64();
  /// Uniform in [0, bound), without modulo bias; bound > 0.
  std::uint64_t below(std::uint64_t bound);
  /// Uniform in [low, high].
  std::int64_t between(std::int64_t low, std::int64_t high);
  /// Uniform in the open interval (0, 1), 53 bits.
  double uniform();
  /// Standard normal (Box-Muller; two per pair of uniforms).
  double normal();
  /// True with probability p.
  bool chance(double p) { return uniform() < p; }

 private:
  random_address where_;
  std::uint64_t position_ = 0;
  std::array<std::uint32_t, 4> block_{};
  int used_ = 4;
  double spare_normal_ = 0;
  bool has_spare_ = false;
};

}  // namespace quern::base
