// Rows come in by bulk copies (cp.async.bulk) into a ring of stages guarded by mbarriers; rows that bulk copies cannot move
// (no multiple of 16 bytes) take a plain path.
constexpr int stage_floats = 2048;
constexpr int stages = 4;
constexpr int threads = 128;

__device__ unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

__device__ void mbarrier_init(uint64_t* bar, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(bar)), "r"(count) : "memory");
}

__device__ void mbarrier_fence() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

__device__ void mbarrier_expect(uint64_t* bar, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(bar)), "r"(bytes) : "memory");
}

__device__ void bulk_copy(void* to, const void* from, int bytes, uint64_t* bar) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   shared_address(to)),
               "l"(from), "r"(bytes), "r"(shared_address(bar))
               : "memory");
}

__device__ void mbarrier_wait(uint64_t* bar, int phase) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra ended;\n"
      "bra again;\n"
      "ended:\n"
      "}\n" ::"r"(shared_address(bar)),
      "r"(phase)
      : "memory");
}

__device__ float block_sum(float v) {
  __shared__ float part[threads / 32];
  for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(0xffffffff, v, d);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
  __syncthreads();
  v = 0;
  for (int w = 0; w < threads / 32; ++w) v += part[w];
  return v;
}

__global__ void __launch_bounds__(threads) by_bulk(const float* x, float* y, int64_t m) {
  __shared__ alignas(128) float ring[stages][stage_floats];
  __shared__ uint64_t full[stages];
  x += blockIdx.x * m;
  const int64_t tiles = (m + stage_floats - 1) / stage_floats;
  if (threadIdx.x == 0) {
    for (int s = 0; s < stages; ++s) mbarrier_init(&full[s], 1);
    mbarrier_fence();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int64_t t = 0; t < stages && t < tiles; ++t) {
      int bytes = (int)min((int64_t)stage_floats, m - t * stage_floats) * 4;
      mbarrier_expect(&full[t], bytes);
      bulk_copy(ring[t], x + t * stage_floats, bytes, &full[t]);
    }
  }
  float sum = 0;
  for (int64_t t = 0; t < tiles; ++t) {
    const int stage = (int)(t % stages);
    mbarrier_wait(&full[stage], (int)(t / stages % 2));
    const int count = (int)min((int64_t)stage_floats, m - t * stage_floats);
    for (int j = threadIdx.x; j < count; j += threads) sum += ring[stage][j];
    __syncthreads();
    if (threadIdx.x == 0 && t + stages < tiles) {
      const int64_t next = t + stages;
      int bytes = (int)min((int64_t)stage_floats, m - next * stage_floats) * 4;
      mbarrier_expect(&full[stage], bytes);
      bulk_copy(ring[stage], x + next * stage_floats, bytes, &full[stage]);
    }
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) y[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(threads) by_elements(const float* x, float* y, int64_t m) {
  float sum = 0;
  for (int64_t j = threadIdx.x; j < m; j += threads) sum += x[blockIdx.x * m + j];
  sum = block_sum(sum);
  if (threadIdx.x == 0) y[blockIdx.x] = sum;
}

extern "C" void kernel(const float* x, float* y, int64_t n, int64_t m, void* workspace, cudaStream_t stream) {
  if (m % 4 == 0) {
    by_bulk<<<n, threads, 0, stream>>>(x, y, m);
  } else {
    by_elements<<<n, threads, 0, stream>>>(x, y, m);
  }
}
