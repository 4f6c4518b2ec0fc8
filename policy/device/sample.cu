// Sampling inside the step: sums of each chunk of a row, then, by the last block of a row to
// finish, the token, its log-probs and the slot's next state.
#include "policy/device/chunk_sums.cuh"
#include "policy/device/functions.hpp"

namespace quern::policy::device {
namespace {

constexpr int run = quern_chunk / chunk_threads;  // neighbouring columns of a thread when searching

struct sampling_arguments {
  quern_sampling what;
  int32_t* state;
  quern_sampled* out;
  int chunks;
  bool vector;
};

/// Philox4x32-10 (base/random.hpp), of which the sampler uses the first two words.
__device__ uint64_t philox_word(uint64_t position, uint64_t stream, uint64_t key) {
  uint32_t c0 = static_cast<uint32_t>(position), c1 = static_cast<uint32_t>(position >> 32),
           c2 = static_cast<uint32_t>(stream), c3 = static_cast<uint32_t>(stream >> 32),
           k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const uint32_t high0 = __umulhi(0xD2511F53U, c0), low0 = 0xD2511F53U * c0;
    const uint32_t high1 = __umulhi(0xCD9E8D57U, c2), low1 = 0xCD9E8D57U * c2;
    c0 = high1 ^ c1 ^ k0;
    c1 = low1;
    c2 = high0 ^ c3 ^ k1;
    c3 = low0;
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  return (static_cast<uint64_t>(c0) << 32) | c1;
}

__device__ uint64_t two_words(const int32_t* words, int low, int high) {
  return (static_cast<uint64_t>(static_cast<uint32_t>(words[high])) << 32) |
         static_cast<uint32_t>(words[low]);
}

/// sampling_uniform of policy/engine/sampler.hpp.
__device__ double slot_uniform(const int32_t* words) {
  const uint64_t word = philox_word(static_cast<uint64_t>(words[quern_slot_index]),
                                    two_words(words, quern_slot_stream_low, quern_slot_stream_high),
                                    two_words(words, quern_slot_key_low, quern_slot_key_high));
  return (static_cast<double>(word >> 12) + 0.5) * 0x1p-52;
}

struct search_shared {
  chunk_sums chunks[most_chunks];
  double factors[most_chunks], plain_factors[most_chunks];
  double warp_sums[chunk_threads / 32];
  row_sums row;
  double goal;  ///< within the chunk, in its own units
  int chunk, found, token, last_positive;
};

/// What thread `threadIdx.x` sees of its `run` columns from `begin` on.
struct run_sum {
  double sum = 0;
  int last_positive = -1;
};

__device__ run_sum sum_run(const float* z, int begin, int count, float top, float inverse) {
  run_sum s;
  for (int i = begin; i < min(begin + run, count); ++i) {
    const float p = __expf((z[i] - top) * inverse);
    s.sum += p;
    if (p > 0) s.last_positive = i;
  }
  return s;
}

/// The first column of the chunk at which the running sum exceeds `goal`; where rounding leaves it
/// above all sums, the last column that can be drawn. -1: none can.
__device__ void search_chunk(search_shared& shared, const float* z, int count, float top,
                             float inverse) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, begin = threadIdx.x * run;
  const run_sum own = sum_run(z, begin, count, top, inverse);
  double sum = own.sum;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const double before = __shfl_up_sync(all_lanes, sum, step);
    if (lane >= step) sum += before;
  }
  if (lane == 31) shared.warp_sums[warp] = sum;
  if (threadIdx.x == 0) {
    shared.found = chunk_threads;
    shared.last_positive = -1;
  }
  __syncthreads();
  double offset = 0;
  for (int w = 0; w < warp; ++w)
    offset += shared.warp_sums[w];
  const double goal = shared.goal;
  if (offset + sum > goal && own.last_positive >= 0)
    atomicMin(&shared.found, static_cast<int>(threadIdx.x));
  if (own.last_positive >= 0) atomicMax(&shared.last_positive, own.last_positive);
  __syncthreads();
  if (shared.found == chunk_threads) {
    if (threadIdx.x == 0) shared.token = shared.last_positive;
  } else if (static_cast<int>(threadIdx.x) == shared.found) {
    double running = offset + sum - own.sum;
    int token = own.last_positive;
    for (int i = begin; i < min(begin + run, count); ++i) {
      const float p = __expf((z[i] - top) * inverse);
      running += p;
      if (p > 0 && running > goal) {
        token = i;
        break;
      }
    }
    shared.token = token;
  }
  __syncthreads();
}

/// The lowest column of the chunk that has its highest logit.
__device__ void find_top(search_shared& shared, const float* z, int count, float top) {
  if (threadIdx.x == 0) shared.token = 0x7fffffff;
  __syncthreads();
  int own = 0x7fffffff;
  for (int i = threadIdx.x; i < count; i += blockDim.x)
    if (z[i] == top) own = min(own, i);
  if (own != 0x7fffffff) atomicMin(&shared.token, own);
  __syncthreads();
}

/// Which chunk the token lies in, and how far into it; thread 0.
__device__ void choose_chunk(search_shared& shared, int chunks, bool greedy, double u) {
  row_sums& row = shared.row;
  int chosen = 0;
  if (greedy) {
    while (shared.chunks[chosen].top != row.top && chosen + 1 < chunks)
      ++chosen;
  } else {
    const double goal = u * row.tempered;
    double before = 0;
    for (int c = 0; c < chunks; ++c) {
      const double part = shared.chunks[c].tempered * shared.factors[c];
      if (part <= 0) continue;
      chosen = c;
      shared.goal = (goal - before) / shared.factors[c];
      before += part;
      if (before > goal) break;
    }
  }
  shared.chunk = chosen;
}

/// The column that is drawn, or that is the highest, from the chunk that was chosen.
__device__ int64_t find_token(search_shared& shared, const float* z, int64_t valid, bool greedy,
                              float inverse) {
  const int64_t from = static_cast<int64_t>(shared.chunk) * quern_chunk;
  const auto count = static_cast<int>(min(static_cast<int64_t>(quern_chunk), valid - from));
  const float chunk_top = shared.chunks[shared.chunk].top;
  if (greedy)
    find_top(shared, z + from, count, chunk_top);
  else
    search_chunk(shared, z + from, count, chunk_top, inverse);
  // Logits that are not numbers have no token: 0, with a log-prob that is not a number either.
  return shared.token < 0 || shared.token >= count ? 0 : from + shared.token;
}

__device__ void advance_slot(int32_t* words, int token, quern_sampled& out) {
  int flags = 1;
  for (int i = 0; i < words[quern_slot_stops]; ++i)
    if (words[quern_slot_first_stop + i] == token) flags |= 2;
  const int index = words[quern_slot_index] + 1;
  if (index >= words[quern_slot_limit]) flags |= 4;
  words[quern_slot_token] = token;
  words[quern_slot_index] = index;
  words[quern_slot_position] += 1;
  if (flags != 1) words[quern_slot_active] = 0;
  out.flags = flags;
}

__device__ void finish_row(const sampling_arguments& a, int entry, int32_t* words, const float* z,
                           float inverse, search_shared& shared) {
  const auto* sums =
      reinterpret_cast<const float4*>(a.what.room) + static_cast<int64_t>(entry) * a.chunks;
  const bool greedy = words[quern_slot_greedy] != 0;
  const int given = a.what.given != nullptr ? a.what.given[entry] : -1;
  if (static_cast<int>(threadIdx.x) < a.chunks) {
    const float4 four = __ldcg(sums + threadIdx.x);
    shared.chunks[threadIdx.x] = {four.x, four.y, four.z, four.w};
  }
  __syncthreads();
  float top = -INFINITY;
  for (int c = 0; c < a.chunks; ++c)
    top = fmaxf(top, shared.chunks[c].top);
  if (static_cast<int>(threadIdx.x) < a.chunks) {
    const float own = shared.chunks[threadIdx.x].top;
    shared.factors[threadIdx.x] = chunk_factor(own, top, inverse);
    shared.plain_factors[threadIdx.x] = chunk_factor(own, top, 1.0F);
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    shared.row = row_sums{};
    shared.row.top = top;
    for (int c = 0; c < a.chunks; ++c)
      join_chunk(shared.row, shared.chunks[c], shared.factors[c], shared.plain_factors[c], inverse);
    if (given < 0) choose_chunk(shared, a.chunks, greedy, greedy ? 0.0 : slot_uniform(words));
  }
  __syncthreads();
  const int64_t token =
      given < 0 ? find_token(shared, z, a.what.valid, greedy, inverse) : int64_t{given};
  if (threadIdx.x != 0) return;
  const double below = static_cast<double>(z[token]) - top;
  quern_sampled result{static_cast<int32_t>(token), 0, 0, 0};
  result.raw_log_prob = static_cast<float>(below - log(shared.row.plain));
  result.log_prob =
      greedy ? result.raw_log_prob : static_cast<float>(below * inverse - log(shared.row.tempered));
  advance_slot(words, static_cast<int>(token), result);
  a.out[entry] = result;
}

__global__ void __launch_bounds__(chunk_threads) sample_kernel(sampling_arguments a) {
  __shared__ float sums_shared[32];
  __shared__ search_shared shared;
  __shared__ int is_last;
  const int entry = blockIdx.y, chunk = blockIdx.x;
  const int slot = a.what.slot[entry];
  int32_t* words = a.state + static_cast<int64_t>(max(slot, 0)) * quern_slot_words;
  // Read before the last block of this entry may change it: that block waits for this one.
  if (slot < 0 || words[quern_slot_active] == 0) {
    if (chunk == 0 && threadIdx.x == 0) a.out[entry] = quern_sampled{-1, 0, 0, 0};
    return;
  }
  const float inverse =
      words[quern_slot_greedy] != 0 ? 1.0F : __int_as_float(words[quern_slot_inverse_temperature]);
  const int64_t row = a.what.logit_row != nullptr ? a.what.logit_row[entry] : entry;
  const float* z = a.what.logits + row * a.what.columns;
  const int64_t from = static_cast<int64_t>(chunk) * quern_chunk;
  float value[chunk_values];
  load_chunk(z + from,
             static_cast<int>(min(static_cast<int64_t>(quern_chunk), a.what.valid - from)),
             a.vector, value);
  const chunk_sums sums = sum_chunk(value, inverse, sums_shared);
  if (threadIdx.x == 0) {
    reinterpret_cast<float4*>(a.what.room)[static_cast<int64_t>(entry) * a.chunks + chunk] =
        make_float4(sums.top, sums.tempered, sums.plain, sums.weighted);
    __threadfence();
    is_last = atomicAdd(a.what.counters + entry, 1) == a.chunks - 1 ? 1 : 0;
    if (is_last != 0) a.what.counters[entry] = 0;
    __threadfence();
  }
  __syncthreads();
  if (is_last != 0) finish_row(a, entry, words, z, inverse, shared);
}

}  // namespace

int32_t sample(quern_sampling what, int32_t* state, quern_sampled* out, void* stream) {
  if (what.count < 0 || what.count > 65535 || what.valid < 1 || what.valid > what.columns ||
      chunks_of(what.valid) > most_chunks)
    return invalid;
  if (what.count == 0) return 0;
  const sampling_arguments a{
      what, state, out, chunks_of(what.valid),
      what.columns % 4 == 0 && reinterpret_cast<uintptr_t>(what.logits) % 16 == 0};
  sample_kernel<<<dim3(static_cast<unsigned>(a.chunks), static_cast<unsigned>(what.count)),
                  chunk_threads, 0, stream_of(stream)>>>(a);
  return launched();
}

}  // namespace quern::policy::device
