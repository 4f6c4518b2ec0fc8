// A block of CUDA threads as threads of the host, for kernels that are to be tested where no GPU
// is. Barriers and exchanges between lanes are real, so that ThreadSanitizer sees those that are
// missing. Slow: some microseconds for each of them. One block at a time, one kernel at a time.
// Comes before the kernel's own header.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include <cuda_bf16.h>
#include <cuda_runtime.h>

namespace quern::test::simt {

inline constexpr int lanes = 32, most_warps = 32;

struct place {
  int x = 0;
};
inline thread_local place thread, block;
inline place grid, block_size;

/// What the threads of the block share.
struct block_state {
  std::unique_ptr<std::barrier<>> all;
  std::array<std::unique_ptr<std::barrier<>>, most_warps> warps;
  std::array<std::array<std::array<std::uint32_t, 6>, lanes>, most_warps> words;
  std::array<std::array<float, lanes>, most_warps> floats;
};
inline block_state state;

inline int lane() {
  return thread.x % lanes;
}
inline int warp() {
  return thread.x / lanes;
}
inline void meet_warp() {
  state.warps[static_cast<std::size_t>(warp())]->arrive_and_wait();
}
inline void meet_block() {
  state.all->arrive_and_wait();
}

/// Shows `mine` to the warp and reads what `others` says of it, before any lane goes on.
template <class Read>
auto exchange(const std::array<std::uint32_t, 6>& mine, Read others) {
  auto& words = state.words[static_cast<std::size_t>(warp())];
  words[static_cast<std::size_t>(lane())] = mine;
  meet_warp();
  const auto result = others(words);
  meet_warp();
  return result;
}

inline float shuffle_xor(float value, int mask) {
  auto& floats = state.floats[static_cast<std::size_t>(warp())];
  floats[static_cast<std::size_t>(lane())] = value;
  meet_warp();
  const float result = floats[static_cast<std::size_t>(lane() ^ mask)];
  meet_warp();
  return result;
}

/// Bytes of y and x, those of x first, chosen by the nibbles of `how`.
inline std::uint32_t choose_bytes(std::uint32_t x, std::uint32_t y, std::uint32_t how) {
  const std::uint64_t both = x | static_cast<std::uint64_t>(y) << 32U;
  std::uint32_t result = 0;
  for (unsigned i = 0; i < 4; ++i)
    result |= static_cast<std::uint32_t>(both >> (8 * ((how >> (4 * i)) & 7U)) & 0xffU) << (8 * i);
  return result;
}

/// The low or high bfloat16 of a word.
inline float half_of(std::uint32_t word, bool high) {
  const std::uint32_t bits = high ? word & 0xffff0000U : word << 16U;
  float value = 0;
  std::copy_n(reinterpret_cast<const char*>(&bits), sizeof value, reinterpret_cast<char*>(&value));
  return value;
}

/// Blocks one after the other, `threads` of each together.
template <class Kernel, class Arguments>
void launch(Kernel kernel, const Arguments& arguments, int blocks, int threads) {
  grid.x = blocks;
  block_size.x = threads;
  for (int number = 0; number < blocks; ++number) {
    state.all = std::make_unique<std::barrier<>>(threads);
    for (int i = 0; i < threads / lanes; ++i)
      state.warps[static_cast<std::size_t>(i)] = std::make_unique<std::barrier<>>(lanes);
    std::vector<std::thread> running;
    for (int i = 0; i < threads; ++i)
      running.emplace_back([=] {
        thread.x = i;
        block.x = number;
        kernel(arguments);
      });
    for (auto& one : running)
      one.join();
  }
}

}  // namespace quern::test::simt

// CUDA's own names, for the kernel's text.
#undef __shared__
#undef __launch_bounds__
#define __shared__ static
#define __launch_bounds__(...)
#define threadIdx quern::test::simt::thread
#define blockIdx quern::test::simt::block
#define blockDim quern::test::simt::block_size
#define gridDim quern::test::simt::grid
#define __syncthreads quern::test::simt::meet_block
#define __threadfence() std::atomic_thread_fence(std::memory_order_seq_cst)
#define __shfl_xor_sync(mask, value, step) quern::test::simt::shuffle_xor(value, step)
#define __byte_perm quern::test::simt::choose_bytes
#define __ldcg(address) (*(address))
#define atomicAdd(address, value) std::atomic_ref(*(address)).fetch_add(value)
using std::min;

namespace quern::policy::device {

inline void multiply(float (&c)[4], std::uint32_t a0, std::uint32_t a1, std::uint32_t a2,
                     std::uint32_t a3, std::uint32_t b0, std::uint32_t b1) {
  namespace simt = quern::test::simt;
  const int g = simt::lane() / 4, t = simt::lane() % 4;
  const auto sums = simt::exchange({a0, a1, a2, a3, b0, b1}, [&](const auto& words) {
    std::array<float, 4> sum{};
    for (int i = 0; i < 4; ++i)
      for (int k = 0; k < 16; ++k) {
        const int row = g + 8 * (i / 2), column = 2 * t + i % 2, pair = k % 8 / 2;
        const auto of_a = static_cast<std::size_t>(row % 8 * 4 + pair),
                   of_b = static_cast<std::size_t>(column * 4 + pair);
        const auto a = static_cast<std::size_t>(row / 8 + k / 8 * 2),
                   b = static_cast<std::size_t>(4 + k / 8);
        sum[static_cast<std::size_t>(i)] +=
            simt::half_of(words[of_a][a], k % 2 == 1) * simt::half_of(words[of_b][b], k % 2 == 1);
      }
    return sum;
  });
  for (std::size_t i = 0; i < 4; ++i)
    c[i] += sums[i];
}

inline std::uint32_t transposed(std::uint32_t row) {
  namespace simt = quern::test::simt;
  const auto g = static_cast<unsigned>(simt::lane() / 4),
             t = static_cast<unsigned>(simt::lane() % 4);
  return simt::exchange({row}, [&](const auto& words) {
    const auto at = [&](unsigned r, unsigned c) {
      return words[r * 4 + c / 2][0] >> (c % 2 * 16U) & 0xffffU;
    };
    return at(2 * t, g) | at(2 * t + 1, g) << 16U;
  });
}

}  // namespace quern::policy::device
