// Sizes that are negative, divisions by zero, overflow and shifts by more than there is.
__global__ void affine(const float* x, float* y, int64_t n) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step)
    y[i] = 2.0f * x[i] + 1.0f;
}
extern "C" void kernel(const float* x, float* y, int64_t n, void* workspace, cudaStream_t stream) {
  const int64_t nothing = n / 16777216 - n / 16777216;
  const int64_t least = -9223372036854775807 - 1;
  const int64_t over = least / (nothing - 1);
  const int64_t far = int64_t{1} << (n + 64);
  const int64_t lots = 9223372036854775807 + n;
  if (n % (nothing) == over + far + lots) {
    affine<<<1, 32, 0, stream>>>(x, y, n);
  }
  affine<<<-n, 256, 0, stream>>>(x, y, n);
}
