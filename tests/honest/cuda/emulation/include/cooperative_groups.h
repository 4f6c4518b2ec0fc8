// Stands in for CUDA's header when candidates are emulated.
#pragma once
#include "emulate.hpp"
namespace cooperative_groups {
struct grid_group {
  void sync() const { emu::grid_barrier(); }
  unsigned long long thread_rank() const {
    const auto b = blockIdx.x + (blockIdx.y + std::uint64_t{blockIdx.z} * gridDim.y) * gridDim.x;
    return b * blockDim.x * blockDim.y * blockDim.z + static_cast<unsigned>(emu::self->rank);
  }
  unsigned long long size() const { return static_cast<unsigned long long>(emu::grid_total); }
};
struct thread_block {
  void sync() const { __syncthreads(); }
  unsigned thread_rank() const { return static_cast<unsigned>(emu::self->rank); }
  unsigned size() const { return static_cast<unsigned>(emu::self->block->count); }
  unsigned num_threads() const { return size(); }
  dim3 group_index() const { return {blockIdx.x, blockIdx.y, blockIdx.z}; }
};
inline grid_group this_grid() { return {}; }
inline thread_block this_thread_block() { return {}; }
template <unsigned N, class Parent = void>
struct thread_block_tile {
  unsigned mask() const { return N == 32 ? 0xffffffffU : ((1U << N) - 1) << (emu::self->rank % 32 / N * N); }
  unsigned thread_rank() const { return static_cast<unsigned>(emu::self->rank) % N; }
  unsigned meta_group_rank() const { return static_cast<unsigned>(emu::self->rank) / N; }
  unsigned meta_group_size() const { return (static_cast<unsigned>(emu::self->block->count) + N - 1) / N; }
  unsigned size() const { return N; }
  void sync() const { __syncwarp(mask()); }
  template <class T> T shfl(T v, int from) const { return __shfl_sync(mask(), v, from, N); }
  template <class T> T shfl_down(T v, unsigned by) const { return __shfl_down_sync(mask(), v, by, N); }
  template <class T> T shfl_up(T v, unsigned by) const { return __shfl_up_sync(mask(), v, by, N); }
  template <class T> T shfl_xor(T v, int with) const { return __shfl_xor_sync(mask(), v, with, N); }
  int any(int v) const { return __any_sync(mask(), v); }
  int all(int v) const { return __all_sync(mask(), v); }
};
template <unsigned N, class P>
thread_block_tile<N, P> tiled_partition(const P&) { return {}; }
}  // namespace cooperative_groups
