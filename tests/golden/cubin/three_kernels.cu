template <int N> __global__ void rotate(const float* x, float* y, long n) {
  __shared__ float s[N];
  long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
  s[threadIdx.x] = i < n ? x[i] : 0;
  __syncthreads();
  if (i < n) y[i] = s[(threadIdx.x * 7) % N];
}
template __global__ void rotate<256>(const float*, float*, long);
extern "C" __global__ void indexed(const int* x, float* y) {
  float a[16];
#pragma unroll 1
  for (int i = 0; i < 16; ++i) a[(x[i] + i) & 15] = y[i];
  y[threadIdx.x] = a[x[threadIdx.x] & 15];
}
extern "C" __global__ void plain(float* y) { y[threadIdx.x] = 1; }
