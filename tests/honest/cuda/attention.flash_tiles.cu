// Tiles of 32 queries and 32 keys in shared memory, online softmax, four threads a query; d in steps of what fits 64 columns.
constexpr int tile = 32;
constexpr int wide = 64;

__global__ void __launch_bounds__(128) flash(const float* q, const float* k, const float* v, float* y, int n, int d) {
  __shared__ float qs[tile][wide + 1], ks[tile][wide + 1], vs[tile][wide + 1], ps[tile][tile + 1];
  const int row = threadIdx.x / 4, part = threadIdx.x % 4;
  const int64_t base = (int64_t)blockIdx.y * n;
  const int i0 = blockIdx.x * tile;
  for (int e = threadIdx.x; e < tile * wide; e += 128) {
    const int r = e / wide, c = e % wide;
    qs[r][c] = i0 + r < n && c < d ? q[(base + i0 + r) * d + c] * 0.125f : 0.0f;
  }
  float out[wide / 4] = {};
  float top = -INFINITY, sum = 0;
  for (int j0 = 0; j0 < n; j0 += tile) {
    __syncthreads();
    for (int e = threadIdx.x; e < tile * wide; e += 128) {
      const int r = e / wide, c = e % wide;
      const bool there = j0 + r < n && c < d;
      ks[r][c] = there ? k[(base + j0 + r) * d + c] : 0.0f;
      vs[r][c] = there ? v[(base + j0 + r) * d + c] : 0.0f;
    }
    __syncthreads();
    float s[tile / 4];
    float highest = top;
    for (int a = 0; a < tile / 4; ++a) {
      const int j = part + 4 * a;
      float dot = 0;
      for (int c = 0; c < d; ++c) dot = fmaf(qs[row][c], ks[j][c], dot);
      s[a] = j0 + j < n ? dot : -INFINITY;
      highest = fmaxf(highest, s[a]);
    }
    highest = fmaxf(highest, __shfl_xor_sync(0xffffffff, highest, 1));
    highest = fmaxf(highest, __shfl_xor_sync(0xffffffff, highest, 2));
    const float shrink = expf(top - highest);
    float added = 0;
    for (int a = 0; a < tile / 4; ++a) {
      const float p = expf(s[a] - highest);
      ps[row][part + 4 * a] = p;
      added += p;
    }
    added += __shfl_xor_sync(0xffffffff, added, 1);
    added += __shfl_xor_sync(0xffffffff, added, 2);
    sum = sum * shrink + added;
    top = highest;
    __syncwarp();
    for (int c = 0; c < wide / 4; ++c) {
      float o = out[c] * shrink;
      for (int j = 0; j < tile; ++j) o = fmaf(ps[row][j], vs[j][part + 4 * c], o);
      out[c] = o;
    }
  }
  if (i0 + row < n)
    for (int c = 0; c < wide / 4; ++c)
      if (part + 4 * c < d) y[(base + i0 + row) * d + part + 4 * c] = out[c] / sum;
}

// Wider heads: a block for each query, its scores in the workspace.
__global__ void wide_heads(const float* q, const float* k, const float* v, float* y, float* scores, int64_t n, int64_t d) {
  __shared__ float part[128];
  const int64_t row = blockIdx.x, first = row / n * n;
  float* s = scores + row * n;
  float top = -INFINITY;
  for (int64_t j = threadIdx.x; j < n; j += 128) {
    float dot = 0;
    for (int64_t t = 0; t < d; ++t) dot += q[row * d + t] * k[(first + j) * d + t];
    s[j] = dot * 0.125f;
    top = fmaxf(top, s[j]);
  }
  part[threadIdx.x] = top;
  __syncthreads();
  for (int i = 0; i < 128; ++i) top = fmaxf(top, part[i]);
  float sum = 0;
  for (int64_t j = 0; j < n; ++j) sum += expf(s[j] - top);
  for (int64_t t = threadIdx.x; t < d; t += 128) {
    float out = 0;
    for (int64_t j = 0; j < n; ++j) out += expf(s[j] - top) * v[(first + j) * d + t];
    y[row * d + t] = out / sum;
  }
}

extern "C" int64_t workspace_bytes(int64_t b, int64_t n, int64_t d) { return d <= wide ? 0 : b * n * n * 4; }

extern "C" void kernel(const float* q, const float* k, const float* v, float* y, int64_t b, int64_t n, int64_t d, void* workspace, cudaStream_t stream) {
  if (d <= wide)
    flash<<<dim3((n + tile - 1) / tile, b), 128, 0, stream>>>(q, k, v, y, n, d);
  else
    wide_heads<<<b * n, 128, 0, stream>>>(q, k, v, y, (float*)workspace, n, d);
}
