// Stands in for CUDA's header when candidates are emulated: fragments hold the whole tile.
#pragma once
#include "emulate.hpp"
namespace nvcuda::wmma {
struct matrix_a {};
struct matrix_b {};
struct accumulator {};
struct row_major {};
struct col_major {};
enum layout_t { mem_row_major, mem_col_major };
template <class Use, int M, int N, int K, class T, class Layout = void>
struct fragment {
  static constexpr int rows = std::is_same_v<Use, matrix_b> ? K : M;
  static constexpr int columns = std::is_same_v<Use, matrix_a> ? K : N;
  static constexpr int num_elements = std::is_same_v<Use, accumulator> ? rows * columns / 32 : rows * columns;
  T tile[rows][columns];
};
// Every lane holds the whole tile, so that operations need no exchange; the lanes still meet.
template <class U, int M, int N, int K, class T, class L, class V>
void fill_fragment(fragment<U, M, N, K, T, L>& f, V v) {
  for (auto& row : f.tile) for (T& x : row) x = static_cast<T>(v);
}
template <class F, class T>
void load_base(F& f, const T* p, unsigned ld, bool rows) {
  if (reinterpret_cast<std::uintptr_t>(p) % 32 != 0 || ld * sizeof(T) % 16 != 0) emu::fail("wmma: a tile that is not aligned");
  __syncwarp();
  for (int i = 0; i < F::rows; ++i)
    for (int j = 0; j < F::columns; ++j) f.tile[i][j] = rows ? p[i * ld + j] : p[j * ld + i];
  __syncwarp();
}
template <class U, int M, int N, int K, class T, class L>
void load_matrix_sync(fragment<U, M, N, K, T, L>& f, const T* p, unsigned ld) { load_base(f, p, ld, std::is_same_v<L, row_major>); }
template <int M, int N, int K, class T>
void load_matrix_sync(fragment<accumulator, M, N, K, T>& f, const T* p, unsigned ld, layout_t l) { load_base(f, p, ld, l == mem_row_major); }
template <int M, int N, int K, class A, class B, class LA, class LB, class C>
void mma_sync(fragment<accumulator, M, N, K, C>& d, const fragment<matrix_a, M, N, K, A, LA>& a, const fragment<matrix_b, M, N, K, B, LB>& b, const fragment<accumulator, M, N, K, C>& c) {
  __syncwarp();
  const int lane = emu::self->rank % 32;
  // Each lane computes its share and the lanes exchange them.
  constexpr int share = M * N / 32;
  struct { C v[share]; } mine;
  for (int s = 0; s < share; ++s) {
    const int i = (lane * share + s) / N, j = (lane * share + s) % N;
    C sum = c.tile[i][j];
    for (int k = 0; k < K; ++k) sum += static_cast<C>(static_cast<float>(a.tile[i][k]) * static_cast<float>(b.tile[k][j]));
    mine.v[s] = sum;
  }
  const emu::deposit* all = emu::meet(0xffffffffU, &mine, sizeof mine);
  for (int l = 0; l < 32; ++l) {
    auto got = emu::of_lane<decltype(mine)>(all, l);
    for (int s = 0; s < share; ++s) d.tile[(l * share + s) / N][(l * share + s) % N] = got.v[s];
  }
  __syncwarp();
}
template <class T, int M, int N, int K>
void store_matrix_sync(T* p, const fragment<accumulator, M, N, K, T>& f, unsigned ld, layout_t l) {
  if (reinterpret_cast<std::uintptr_t>(p) % 32 != 0 || ld * sizeof(T) % 16 != 0) emu::fail("wmma: a tile that is not aligned");
  __syncwarp();
  if (emu::self->rank % 32 == 0)
    for (int i = 0; i < M; ++i)
      for (int j = 0; j < N; ++j) p[l == mem_row_major ? i * ld + j : j * ld + i] = f.tile[i][j];
  __syncwarp();
}
}  // namespace nvcuda::wmma
