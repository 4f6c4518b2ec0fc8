// Runs CUDA kernels on the processor, one thread after another: each CUDA thread is a context of
// its own that gives way at barriers and warp operations. What it finds: indices out of bounds
// (with AddressSanitizer: every tensor and every shared array is an allocation of its own),
// missing barriers (threads run in several orders), divergent barriers, warp operations with
// lanes that are not there, unaligned vector accesses, asynchronous copies that nobody waited
// for. What it does not: memory ordering, and speed.
#pragma once

#include <cuda_runtime.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <sanitizer/asan_interface.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include <sys/mman.h>

#undef __shared__
#define __shared__ EMULATE_SHARED_NOT_TRANSLATED
#undef __constant__
#define __constant__ static
#undef __launch_bounds__
#define __launch_bounds__(...)
#undef __cluster_dims__
#define __cluster_dims__(...)
#undef __grid_constant__
#define __grid_constant__

/// Saves the registers that a call preserves, keeps the stack in *save and goes on on stack `load`.
/// (swapcontext asks the kernel for the signal mask each time, and AddressSanitizer clears whole
/// stacks around it.)
extern "C" void emulate_switch(void** save, void* load);
asm(R"(
.text
.globl emulate_switch
emulate_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");

namespace emu {

inline void fail(const char* what) {
  std::fprintf(stderr, "emulation: %s\n", what);
  std::abort();
}

#define QUIET __attribute__((no_sanitize("address", "undefined")))

struct deposit {
  alignas(16) unsigned char bytes[128];
};

struct meeting {
  unsigned mask = 0, arrived = 0;
  std::uint64_t generation = 0;
  deposit slots[2][32];
};

struct waiting_copy {
  void* to;
  unsigned char bytes[16];
  const void* from;
  int size, valid, group;
};

struct block_state;
struct thread_state {
  void* context = nullptr;
  uint3 tid{};
  int rank = 0;
  bool done = true;
  block_state* block = nullptr;
  std::vector<waiting_copy> copies;
  int group = 0;
};

struct shared_array {
  const void* key;
  void* memory;
};

struct block_state {
  uint3 bid{};
  int count = 0, exited = 0, arrived = 0;
  std::uint64_t generation = 0;
  int votes = 0, votes_out = 0;
  void* dynamic = nullptr;
  std::size_t dynamic_bytes = 0;
  std::vector<shared_array> arrays;
  std::vector<meeting> meetings;  // 32 for each warp, by lowest lane of the mask
  std::vector<thread_state> threads;
};

inline thread_state* self = nullptr;
inline dim3 block_dim, grid_dim;
inline void* home = nullptr;
inline std::uint64_t progress = 0;
inline int order = 0;  // 0 forward, 1 backward, 2 shuffled
inline std::mt19937 engine(7);
inline const std::function<void()>* body = nullptr;
inline int grid_arrived = 0, grid_total = 0;
inline std::uint64_t grid_generation = 0;
inline bool cooperative = false;

constexpr std::size_t stack_bytes = 128 * 1024;
inline char* stack_of(std::size_t i) {
  static std::vector<char*> stacks;
  while (stacks.size() <= i) {
    void* p = mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) fail("no memory for stacks");
    stacks.push_back(static_cast<char*>(p));
  }
  return stacks[i];
}

QUIET inline void give_way() {
  thread_state* me = self;
  emulate_switch(&me->context, home);
  self = me;
}

inline void entry() {
  (*body)();
  thread_state* me = self;
  for (const auto& c : me->copies)
    if (c.group >= 0) fail("a thread ends with asynchronous copies that it did not wait for");
  me->done = true;
  ++me->block->exited;
  ++progress;
  if (me->block->arrived > 0) fail("a thread ends while others of its block wait at a barrier");
  emulate_switch(&me->context, home);
}

inline void start(block_state& block, std::size_t first_stack) {
  const int n = static_cast<int>(block_dim.x * block_dim.y * block_dim.z);
  block.count = n;
  block.meetings.assign(static_cast<std::size_t>((n + 31) / 32 * 32), meeting{});
  block.threads.resize(static_cast<std::size_t>(n));
  for (int i = 0; i < n; ++i) {
    thread_state& t = block.threads[static_cast<std::size_t>(i)];
    t.rank = i;
    t.tid = {i % block_dim.x, i / block_dim.x % block_dim.y, i / (block_dim.x * block_dim.y)};
    t.done = false;
    t.block = &block;
    char* stack = stack_of(first_stack + static_cast<std::size_t>(i));
    __asan_unpoison_memory_region(stack, stack_bytes);
    void** top = reinterpret_cast<void**>(stack + stack_bytes) - 16;
    top[6] = reinterpret_cast<void*>(&entry);  // where the switch returns to, below six registers
    top[7] = nullptr;
    t.context = top;
  }
}

QUIET inline void run(std::vector<std::unique_ptr<block_state>>& blocks) {
  for (;;) {
    const std::uint64_t before = progress;
    bool alive = false;
    std::vector<int> turn;
    for (auto& block : blocks) {
      turn.resize(static_cast<std::size_t>(block->count));
      for (int i = 0; i < block->count; ++i) turn[static_cast<std::size_t>(i)] = i;
      if (order == 1) std::reverse(turn.begin(), turn.end());
      if (order == 2) std::shuffle(turn.begin(), turn.end(), engine);
      for (int i : turn) {
        thread_state& t = block->threads[static_cast<std::size_t>(i)];
        if (t.done) continue;
        alive = true;
        self = &t;
        emulate_switch(&home, t.context);
      }
    }
    if (!alive) return;
    if (progress == before) fail("deadlock: every thread waits");
  }
}

inline void finish(block_state& block) {
  for (auto& a : block.arrays) std::free(a.memory);
  std::free(block.dynamic);
}

inline void* garbage(std::size_t bytes) {
  void* p = nullptr;
  if (posix_memalign(&p, 1024, bytes) != 0) fail("no memory");
  std::memset(p, 0xC7, bytes);
  return p;
}

inline void execute(dim3 grid, dim3 block, std::size_t shared, bool together,
                    const std::function<void()>& what) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.y > 65535 || grid.z > 65535)
    fail("bad grid");
  const unsigned n = block.x * block.y * block.z;
  if (n == 0 || n > 1024 || block.z > 64) fail("bad block");
  if (shared > 227 * 1024) fail("too much dynamic shared memory");
  grid_dim = grid;
  block_dim = block;
  body = &what;
  cooperative = together;
  const std::uint64_t total = std::uint64_t{grid.x} * grid.y * grid.z;
  grid_arrived = 0;
  grid_total = static_cast<int>(total * n);
  std::vector<std::unique_ptr<block_state>> blocks;
  for (std::uint64_t k = 0; k < total; ++k) {
    const std::uint64_t i = order == 1 && !together ? total - 1 - k : k;
    auto b = std::make_unique<block_state>();
    b->bid = {static_cast<unsigned>(i % grid.x), static_cast<unsigned>(i / grid.x % grid.y),
              static_cast<unsigned>(i / grid.x / grid.y)};
    b->dynamic_bytes = shared;
    if (shared > 0) b->dynamic = garbage(shared);
    start(*b, together ? k * n : 0);
    blocks.push_back(std::move(b));
    if (!together) {
      run(blocks);
      finish(*blocks[0]);
      blocks.clear();
    }
  }
  if (together) {
    run(blocks);
    for (auto& b : blocks) finish(*b);
  }
  self = nullptr;
}

inline std::vector<std::function<void()>>* recording = nullptr;  // a graph that is being captured

inline void launch_now_or_record(dim3 grid, dim3 block, std::size_t shared, bool together,
                                 std::function<void()> what) {
  if (recording != nullptr) {
    recording->push_back([=] { execute(grid, block, shared, together, what); });
  } else {
    execute(grid, block, shared, together, what);
  }
}

template <class F>
void launch(dim3 grid, dim3 block, std::size_t shared, cudaStream_t, F f) {
  launch_now_or_record(grid, block, shared, false, f);
}
template <class F>
void launch(dim3 grid, dim3 block, std::size_t shared, F f) {
  launch_now_or_record(grid, block, shared, false, f);
}
template <class F>
void launch(dim3 grid, dim3 block, F f) {
  launch_now_or_record(grid, block, 0, false, f);
}

template <class T, int Key>
T& shared() {
  static char key;
  for (auto& a : self->block->arrays)
    if (a.key == &key) return *static_cast<T*>(a.memory);
  self->block->arrays.push_back({&key, garbage(sizeof(T))});
  return *static_cast<T*>(self->block->arrays.back().memory);
}

inline void* dynamic_shared() {
  if (self->block->dynamic == nullptr) fail("dynamic shared memory that the launch did not ask for");
  return self->block->dynamic;
}

QUIET inline int barrier(int vote) {
  block_state& b = *self->block;
  if (b.exited > 0) fail("a barrier that some threads of the block will never reach");
  const std::uint64_t now = b.generation;
  b.votes += vote;
  if (++b.arrived == b.count) {
    b.arrived = 0;
    b.votes_out = b.votes;
    b.votes = 0;
    ++b.generation;
    ++progress;
  } else {
    while (b.generation == now) give_way();
  }
  return b.votes_out;
}

inline void grid_barrier() {
  if (!cooperative) fail("grid barrier in a launch that is not cooperative");
  const std::uint64_t now = grid_generation;
  if (++grid_arrived == grid_total) {
    grid_arrived = 0;
    ++grid_generation;
    ++progress;
  } else {
    while (grid_generation == now) give_way();
  }
}

QUIET inline const deposit* meet(unsigned mask, const void* data, std::size_t bytes) {
  const int lane = self->rank & 31;
  const int first = self->rank - lane;
  block_state& block = *self->block;
  meeting& m = block.meetings[static_cast<std::size_t>(first + __builtin_ctz(mask))];
  if (m.arrived == 0) {
    m.mask = mask;
    for (int i = 0; i < 32; ++i) {
      if ((mask >> i & 1) == 0) continue;
      if (first + i >= block.count) fail("a warp operation that names lanes beyond the block");
      if (block.threads[static_cast<std::size_t>(first + i)].done)
        fail("a warp operation that names lanes that have ended");
    }
  }
  if ((mask >> lane & 1) == 0) fail("a warp operation by a lane outside its mask");
  if (m.mask != mask) fail("lanes meet with different masks");
  // Two sets of slots in turn: whoever still reads the last one has not arrived at this one.
  const std::uint64_t now = m.generation;
  deposit* slots = m.slots[now & 1];
  for (std::size_t i = 0; i < bytes; ++i) slots[lane].bytes[i] = static_cast<const unsigned char*>(data)[i];
  m.arrived |= 1U << lane;
  if (m.arrived == mask) {
    m.arrived = 0;
    ++m.generation;
    ++progress;
  } else {
    while (m.generation == now) give_way();
  }
  return slots;
}

template <class T>
T of_lane(const deposit* all, int lane) {
  T value;
  std::memcpy(&value, all[lane].bytes, sizeof(T));
  return value;
}

template <class T>
T shuffle(unsigned mask, T value, int from) {
  const deposit* all = meet(mask, &value, sizeof(T));
  if ((mask >> from & 1) == 0) fail("a shuffle from a lane outside the mask");
  return of_lane<T>(all, from);
}

inline void end_group() {
  ++self->group;
}
inline void wait_groups(int left) {  // all but the latest `left` groups
  for (auto& c : self->copies) {
    if (c.group < 0 || c.group >= self->group - left) continue;
    std::memset(c.to, 0, static_cast<std::size_t>(c.size));
    std::memcpy(c.to, c.from, static_cast<std::size_t>(c.valid));
    c.group = -1;
  }
  std::erase_if(self->copies, [](const waiting_copy& c) { return c.group < 0; });
}
inline void copy_later(void* to, const void* from, int size, int valid) {
  if (reinterpret_cast<std::uintptr_t>(to) % static_cast<unsigned>(size) != 0 ||
      reinterpret_cast<std::uintptr_t>(from) % static_cast<unsigned>(size) != 0)
    fail("an asynchronous copy that is not aligned");
  std::memset(to, 0xC7, static_cast<std::size_t>(size));
  self->copies.push_back({to, {}, from, size, valid, self->group});
}

}  // namespace emu

#define threadIdx (emu::self->tid)
#define blockIdx (emu::self->block->bid)
#define blockDim (emu::block_dim)
#define gridDim (emu::grid_dim)
#define warpSize 32
#define __trap() emu::fail("trap")

inline void __syncthreads() { emu::barrier(0); }
inline int __syncthreads_or(int v) { return emu::barrier(v != 0) != 0; }
inline int __syncthreads_count(int v) { return emu::barrier(v != 0); }
inline int __syncthreads_and(int v) { return emu::barrier(v == 0) == 0; }
inline void __syncwarp(unsigned mask = 0xffffffffU) { emu::meet(mask, nullptr, 0); }
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __nanosleep(unsigned) { emu::give_way(); }

template <class T>
T __shfl_sync(unsigned mask, T v, int from, int width = 32) {
  const int lane = emu::self->rank % 32;
  return emu::shuffle(mask, v, lane / width * width + from % width);
}
template <class T>
T __shfl_up_sync(unsigned mask, T v, unsigned by, int width = 32) {
  const int lane = emu::self->rank % 32, from = lane - static_cast<int>(by);
  return emu::shuffle(mask, v, from < lane / width * width ? lane : from);
}
template <class T>
T __shfl_down_sync(unsigned mask, T v, unsigned by, int width = 32) {
  const int lane = emu::self->rank % 32, from = lane + static_cast<int>(by);
  return emu::shuffle(mask, v, from >= lane / width * width + width ? lane : from);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T v, int with, int width = 32) {
  const int lane = emu::self->rank % 32, from = lane ^ with;
  return emu::shuffle(mask, v, from >= lane / width * width + width ? lane : from);
}
inline unsigned __ballot_sync(unsigned mask, int v) {
  const emu::deposit* all = emu::meet(mask, &v, sizeof v);
  unsigned result = 0;
  for (int i = 0; i < 32; ++i)
    if ((mask >> i & 1) != 0 && emu::of_lane<int>(all, i) != 0) result |= 1U << i;
  return result;
}
inline int __any_sync(unsigned mask, int v) { return __ballot_sync(mask, v) != 0; }
inline int __all_sync(unsigned mask, int v) { return __ballot_sync(mask, v) == mask; }
template <class T>
unsigned __match_any_sync(unsigned mask, T v) {
  const emu::deposit* all = emu::meet(mask, &v, sizeof v);
  unsigned result = 0;
  for (int i = 0; i < 32; ++i)
    if ((mask >> i & 1) != 0 && emu::of_lane<T>(all, i) == v) result |= 1U << i;
  return result;
}
template <class T>
T __reduce_add_sync(unsigned mask, T v) {
  const emu::deposit* all = emu::meet(mask, &v, sizeof v);
  T sum = 0;
  for (int i = 0; i < 32; ++i)
    if ((mask >> i & 1) != 0) sum += emu::of_lane<T>(all, i);
  return sum;
}
inline unsigned __activemask() { emu::fail("__activemask says nothing reliable"); return 0; }

template <class T, class U>
T atomicAdd(T* at, U v) { T old = *at; *at = static_cast<T>(old + static_cast<T>(v)); ++emu::progress; return old; }
template <class T>
T atomicMax(T* at, T v) { T old = *at; *at = std::max(old, v); ++emu::progress; return old; }
template <class T>
T atomicMin(T* at, T v) { T old = *at; *at = std::min(old, v); ++emu::progress; return old; }
template <class T>
T atomicExch(T* at, T v) { T old = *at; *at = v; ++emu::progress; return old; }
template <class T>
T atomicCAS(T* at, T compare, T v) { T old = *at; if (old == compare) *at = v; ++emu::progress; return old; }
inline unsigned atomicInc(unsigned* at, unsigned most) { unsigned old = *at; *at = old >= most ? 0 : old + 1; ++emu::progress; return old; }

template <class T> T __ldg(const T* p) { return *p; }
template <class T> T __ldcs(const T* p) { return *p; }
template <class T> T __ldcg(const T* p) { return *p; }
template <class T> T __ldca(const T* p) { return *p; }
template <class T> void __stcs(T* p, T v) { *p = v; }
template <class T> void __stcg(T* p, T v) { *p = v; }
inline float __expf(float x) { return std::exp(x); }
inline float __logf(float x) { return std::log(x); }
inline float __log2f(float x) { return std::log2(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __frcp_rn(float a) { return 1.0F / a; }
inline float __fsqrt_rn(float a) { return std::sqrt(a); }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float rsqrtf(float a) { return 1.0F / std::sqrt(a); }
inline double rsqrt(double a) { return 1.0 / std::sqrt(a); }
inline float normcdff(float v) { return static_cast<float>(0.5 * std::erfc(-static_cast<double>(v) * 0.70710678118654752)); }
inline int __float_as_int(float v) { int r; std::memcpy(&r, &v, 4); return r; }
inline unsigned __float_as_uint(float v) { unsigned r; std::memcpy(&r, &v, 4); return r; }
inline float __int_as_float(int v) { float r; std::memcpy(&r, &v, 4); return r; }
inline float __uint_as_float(unsigned v) { float r; std::memcpy(&r, &v, 4); return r; }
inline int __float2int_rn(float v) { return static_cast<int>(std::nearbyint(v)); }
inline int __popc(unsigned v) { return __builtin_popcount(v); }
inline int __clz(int v) { return v == 0 ? 32 : __builtin_clz(static_cast<unsigned>(v)); }
inline int __ffs(int v) { return __builtin_ffs(v); }
using std::isnan;
using std::isinf;
using std::max;
using std::min;
inline long long max(long long a, long a2) { return std::max<long long>(a, a2); }
inline std::int64_t min(std::int64_t a, int b) { return std::min<std::int64_t>(a, b); }
inline std::int64_t min(int a, std::int64_t b) { return std::min<std::int64_t>(a, b); }
inline std::int64_t max(std::int64_t a, int b) { return std::max<std::int64_t>(a, b); }
inline std::int64_t max(int a, std::int64_t b) { return std::max<std::int64_t>(a, b); }

// ---- the instructions that candidates name in PTX; their own wrappers are left out ----

// A number for addresses within dynamic shared memory only.
inline std::size_t __cvta_generic_to_shared(const void* p) {
  const auto* b = static_cast<const char*>(emu::dynamic_shared());
  const auto at = static_cast<const char*>(p) - b;
  if (at < 0 || static_cast<std::size_t>(at) >= emu::self->block->dynamic_bytes) emu::fail("a shared address as a number");
  return static_cast<std::size_t>(at);
}

/// d += a * b of m64n128k16 by a warpgroup: both operands in dynamic shared memory, 64 elements
/// (128 bytes) along k for each row, swizzled by 128 bytes; the descriptors as the hardware reads
/// them. Asynchrony is not emulated.
template <class T, int N>
void wgmma_base(float (&d)[N / 2], std::uint64_t da, std::uint64_t db, int accumulate) {
  const char* base = static_cast<const char*>(emu::dynamic_shared());
  const auto element = [&](std::uint64_t desc, int row, int k) {
    if (desc >> 62 != 1) emu::fail("wgmma: only the 128-byte swizzle is known");
    const std::size_t start = (desc & 0x3FFF) << 4, stride = (desc >> 32 & 0x3FFF) << 4;
    std::size_t at = start + static_cast<std::size_t>(row / 8) * stride + static_cast<std::size_t>(row % 8) * 128 + static_cast<std::size_t>(k) * 2;
    at ^= (at >> 7 & 7) << 4;
    if (at + 2 > emu::self->block->dynamic_bytes) emu::fail("wgmma reads beyond shared memory");
    T v;
    std::memcpy(&v, base + at, 2);
    return static_cast<float>(v);
  };
  const int lane = emu::self->rank % 32, warp = emu::self->rank / 32 % 4;
  for (int r = 0; r < N / 2; ++r) {
    const int row = warp * 16 + lane / 4 + r / 2 % 2 * 8, column = r / 4 * 8 + lane % 4 * 2 + r % 2;
    if (accumulate == 0) d[r] = 0;
    for (int k = 0; k < 16; ++k) d[r] += element(da, row, k) * element(db, column, k);
  }
}
inline void wgmma_f16_n128(float (&d)[64], std::uint64_t a, std::uint64_t b, int accumulate) { wgmma_base<__half, 128>(d, a, b, accumulate); }
inline void wgmma_bf16_n128(float (&d)[64], std::uint64_t a, std::uint64_t b, int accumulate) { wgmma_base<__nv_bfloat16, 128>(d, a, b, accumulate); }
inline void wgmma_fence() {}
inline void wgmma_commit() {}
inline void wgmma_wait() {}
inline void async_proxy_fence() {}

inline void cp_async_16(void* to, const void* from) { emu::copy_later(to, from, 16, 16); }
inline void cp_async_4(void* to, const void* from) { emu::copy_later(to, from, 4, 4); }
inline void cp_async_16_zero(void* to, const void* from, bool there) { emu::copy_later(to, from, 16, there ? 16 : 0); }
inline void cp_async_commit() { emu::end_group(); }
template <int Left> void cp_async_wait() { emu::wait_groups(Left); }

/// d += a * b of m16n8k16, row-major times column-major.
template <class T>
void mma_16816(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  struct { std::uint32_t a[4], b[2]; } mine;
  std::memcpy(mine.a, a, sizeof mine.a);
  std::memcpy(mine.b, b, sizeof mine.b);
  const emu::deposit* all = emu::meet(0xffffffffU, &mine, sizeof mine);
  const int lane = emu::self->rank % 32;
  const auto element = [&](int from, int word, int half) {
    T pair[2];
    std::memcpy(pair, all[from].bytes + 4 * word, 4);
    return static_cast<float>(pair[half]);
  };
  for (int r = 0; r < 4; ++r) {
    const int row = lane / 4 + r / 2 * 8, column = lane % 4 * 2 + r % 2;
    for (int k = 0; k < 16; ++k) {
      const int a_lane = row % 8 * 4 + k % 8 / 2, a_word = row / 8 + k / 8 * 2;
      const int b_lane = column * 4 + k % 8 / 2, b_word = 4 + k / 8;
      d[r] += element(a_lane, a_word, k % 2) * element(b_lane, b_word, k % 2);
    }
  }
}
inline void mma_bf16(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) { mma_16816<__nv_bfloat16>(d, a, b); }
inline void mma_f16(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) { mma_16816<__half>(d, a, b); }

/// ldmatrix.x4: lane i gives the address of row i % 8 of matrix i / 8.
inline void load_matrix_base(std::uint32_t (&r)[4], const void* row, bool transposed) {
  if (reinterpret_cast<std::uintptr_t>(row) % 16 != 0) emu::fail("ldmatrix: a row that is not aligned");
  const emu::deposit* all = emu::meet(0xffffffffU, &row, sizeof row);
  const int lane = emu::self->rank % 32;
  for (int m = 0; m < 4; ++m) {
    std::uint16_t pair[2];
    for (int h = 0; h < 2; ++h) {
      const int i = transposed ? lane % 4 * 2 + h : lane / 4, j = transposed ? lane / 4 : lane % 4 * 2 + h;
      pair[h] = static_cast<const std::uint16_t*>(emu::of_lane<const void*>(all, m * 8 + i))[j];
    }
    std::memcpy(&r[m], pair, 4);
  }
  emu::meet(0xffffffffU, nullptr, 0);
}
inline void load_matrix_x4(std::uint32_t (&r)[4], const void* row) { load_matrix_base(r, row, false); }
inline void load_matrix_x4_transposed(std::uint32_t (&r)[4], const void* row) { load_matrix_base(r, row, true); }

// mbarrier: arrivals still awaited, bytes still awaited, phase.
struct emulated_barrier {
  std::int16_t expected, pending;
  std::int32_t state;  // bit 0: phase; the rest: bytes, times 2
};
inline void mbarrier_settle(emulated_barrier& b) {
  if (b.pending == 0 && (b.state >> 1) == 0) {
    b.pending = b.expected;
    b.state ^= 1;
    ++emu::progress;
  }
}
inline void mbarrier_init(std::uint64_t* at, int count) {
  emulated_barrier b{static_cast<std::int16_t>(count), static_cast<std::int16_t>(count), 0};
  std::memcpy(at, &b, 8);
}
inline void mbarrier_expect(std::uint64_t* at, int bytes) {
  emulated_barrier b;
  std::memcpy(&b, at, 8);
  b.state += 2 * bytes;
  --b.pending;
  mbarrier_settle(b);
  std::memcpy(at, &b, 8);
}
inline void mbarrier_arrive(std::uint64_t* at) { mbarrier_expect(at, 0); }
inline void bulk_copy(void* to, const void* from, int bytes, std::uint64_t* at) {
  if (bytes % 16 != 0 || reinterpret_cast<std::uintptr_t>(to) % 16 != 0 || reinterpret_cast<std::uintptr_t>(from) % 16 != 0)
    emu::fail("a bulk copy that is not aligned");
  std::memcpy(to, from, static_cast<std::size_t>(bytes));
  emulated_barrier b;
  std::memcpy(&b, at, 8);
  b.state -= 2 * bytes;
  mbarrier_settle(b);
  std::memcpy(at, &b, 8);
}
inline void mbarrier_wait(std::uint64_t* at, int phase) {
  for (;;) {
    emulated_barrier b;
    std::memcpy(&b, at, 8);
    if ((b.state & 1) != phase) return;
    emu::give_way();
  }
}
inline void mbarrier_fence() {}
inline void bulk_store(void* to, const void* from, int bytes) { std::memcpy(to, from, static_cast<std::size_t>(bytes)); }
inline void bulk_store_wait() {}
inline unsigned load_acquire(const unsigned* p) { return *p; }
inline void store_release(unsigned* p, unsigned v) { *p = v; ++emu::progress; }

// ---- the runtime's functions ----

namespace emu {
inline void now_or_record(std::function<void()> f) {
  if (recording != nullptr) recording->push_back(std::move(f)); else f();
}
struct graph { std::vector<std::function<void()>> steps; };
}  // namespace emu

inline cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t) {
  emu::now_or_record([=] { std::memset(to, value, bytes); });
  return cudaSuccess;
}
#define cudaMemsetAsync(...) (cudaMemsetAsync)(__VA_ARGS__)
inline cudaError_t emu_memcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t) {
  emu::now_or_record([=] { std::memcpy(to, from, bytes); });
  return cudaSuccess;
}
#define cudaMemcpyAsync emu_memcpy
#define cudaFuncSetAttribute(...) cudaSuccess
#define cudaGetLastError() cudaSuccess
template <class... P>
cudaError_t emu_cooperative(void (*f)(P...), dim3 grid, dim3 block, void** arguments, std::size_t shared, cudaStream_t) {
  std::size_t i = 0;
  auto copies = std::tuple<P...>{*static_cast<P*>(arguments[i++])...};
  emu::launch_now_or_record(grid, block, shared, true, [=] { std::apply(f, copies); });
  return cudaSuccess;
}
#define cudaLaunchCooperativeKernel emu_cooperative
template <class F>
cudaError_t emu_occupancy(int* blocks, F, int, std::size_t) { *blocks = 1; return cudaSuccess; }
#define cudaOccupancyMaxActiveBlocksPerMultiprocessor emu_occupancy
template <class F>
cudaError_t emu_occupancy_size(int* grid, int* block, F, std::size_t = 0, int = 0) { *grid = 3; *block = 128; return cudaSuccess; }
#define cudaOccupancyMaxPotentialBlockSize emu_occupancy_size
#define cudaGetDevice(p) (*(p) = 0, cudaSuccess)
#define cudaDeviceGetAttribute(p, ...) (*(p) = 3, cudaSuccess)
#define cudaMallocAsync(p, n, s) (*(void**)(p) = emu::garbage(n), cudaSuccess)
inline cudaError_t emu_free(void* p) { emu::now_or_record([=] { std::free(p); }); return cudaSuccess; }
#define cudaFreeAsync(p, s) emu_free(p)
#define cudaStreamCreateWithFlags(p, ...) (*(p) = (cudaStream_t)16, cudaSuccess)
#define cudaStreamDestroy(...) cudaSuccess
#define cudaStreamSynchronize(...) cudaSuccess
#define cudaEventSynchronize(...) cudaSuccess
#define cudaEventCreateWithFlags(p, ...) (*(p) = (cudaEvent_t)16, cudaSuccess)
#define cudaEventDestroy(...) cudaSuccess
#define cudaEventRecord(...) cudaSuccess
#define cudaStreamWaitEvent(...) cudaSuccess
#define cudaStreamBeginCapture(...) (emu::recording = new std::vector<std::function<void()>>, cudaSuccess)
inline cudaError_t emu_end_capture(cudaGraph_t* g) {
  auto* made = new emu::graph{*emu::recording};
  delete emu::recording;
  emu::recording = nullptr;
  *g = reinterpret_cast<cudaGraph_t>(made);
  return cudaSuccess;
}
#define cudaStreamEndCapture(s, g) emu_end_capture(g)
#define cudaGraphInstantiate(e, g, ...) (*(e) = (cudaGraphExec_t) new emu::graph(*(emu::graph*)(g)), cudaSuccess)
inline cudaError_t emu_graph_run(cudaGraphExec_t e) {
  for (auto& f : reinterpret_cast<emu::graph*>(e)->steps) f();
  return cudaSuccess;
}
#define cudaGraphLaunch(e, s) emu_graph_run(e)
#define cudaGraphDestroy(g) (delete (emu::graph*)(g), cudaSuccess)
#define cudaGraphExecDestroy(e) (delete (emu::graph*)(e), cudaSuccess)
#define cudaGraphExecUpdate(e, g, ...) (*(emu::graph*)(e) = *(emu::graph*)(g), cudaSuccess)
template <class T>
cudaError_t emu_to_symbol(T& symbol, const void* from, std::size_t bytes, std::size_t offset = 0, cudaMemcpyKind = cudaMemcpyHostToDevice, cudaStream_t = nullptr) {
  char* to = reinterpret_cast<char*>(&symbol) + offset;
  emu::now_or_record([=] { std::memcpy(to, from, bytes); });
  return cudaSuccess;
}
#define cudaMemcpyToSymbolAsync emu_to_symbol
