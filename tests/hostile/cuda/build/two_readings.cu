// A comment that goes on over the end of its line, trigraphs and a raw string: a reader that takes the source by
// lines sees another plan than a compiler does. \
this line is a comment
__global__ void affine(const float* x, float* y, int64_t n) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step)
    y[i] = 2.0f * x[i] + 1.0f;
}
#define affine_of(a, b) wrong
__global__ void wrong(const float* x, float* y, int64_t n) { y[0] = 0.0f; }
constexpr const char* text = R"(extern "C" void kernel(const float* x, float* y, int64_t n, void* workspace, cudaStream_t stream) { })";
extern "C" void kernel(const float* x, float* y, int64_t n, void* workspace,cudaStream_t stream) {
// the honest launch \
affine<<<1056, 512, 0, stream>>>(x, y, n);
wrong<<<1, 1, 0, stream>>>(x, y, n);

}
