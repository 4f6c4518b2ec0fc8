// Bodies of `kernel` that the grammar covers, each with the steps it makes.
#include <string>

#include "env/lanes/cuda/cuda_lane.hpp"
#include "env/launch/plan_fixture.hpp"
#include "env/tensor_task/prototype.hpp"
#include "support/tensor_task.hpp"

using namespace quern;
using test::steps_of;

namespace {

struct accepted_case {
  const char* body;
  const char* steps;
  std::int64_t n = 1000;
  std::int64_t m = 8;
};

const accepted_case accepted_launches[] = {
    {"", ""},
    {"return;", ""},
    {";;{ }", ""},
    {"copy<<<1, 32, 0, stream>>>(x, y, n);", "copy<<<1 1 1|32 1 1|0>>>(in0+0, out0+0, 1000)"},
    {"copy<<<ceil_div(n * m, BLOCK), BLOCK, 0, stream>>>(x, y, (int)(n * m));",
     "copy<<<32 1 1|256 1 1|0>>>(in0+0, out0+0, 8000)"},
    {"::copy<<<1, TILE, 16 * sizeof(float), stream>>>(x, y, 7);",
     "copy<<<1 1 1|32 1 1|64>>>(in0+0, out0+0, 7)"},
    {"dim3 grid((n + 31) / 32, m);\ndim3 block(TILE, 8);\ncopy<<<grid, block, 0, stream>>>(x, y, "
     "1);",
     "copy<<<32 8 1|32 8 1|0>>>(in0+0, out0+0, 1)"},
    {"dim3 g{1, 2, 3}; dim3 b = dim3(4, 5); dim3 c = 6, d;\n"
     "copy<<<g, b, 0, stream>>>(x, y, g.z); copy<<<c, d, 0, stream>>>(x, y, b.x * b.y);",
     "copy<<<1 2 3|4 5 1|0>>>(in0+0, out0+0, 3); copy<<<6 1 1|1 1 1|0>>>(in0+0, out0+0, 20)"},
    {"dim3 g; g.x = n / 10; g.y += 1; g.z *= 2; ++g.z; copy<<<g, dim3{8}, 0, stream>>>(x, y, 1);",
     "copy<<<100 2 3|8 1 1|0>>>(in0+0, out0+0, 1)"},
    {"auto g = n > 10 ? dim3(1, 2) : dim3(3); copy<<<g, 1, 0, stream>>>(x, y, 1);",
     "copy<<<1 2 1|1 1 1|0>>>(in0+0, out0+0, 1)"},
    {"copy<<<{2, 3}, {4}, 0, stream>>>(x, y, 1);", "copy<<<2 3 1|4 1 1|0>>>(in0+0, out0+0, 1)"},
    {"copy<<<n >> 2, 256 >> 1, 1 << 4, stream>>>(x, y, 1);",
     "copy<<<250 1 1|128 1 1|16>>>(in0+0, out0+0, 1)"},
    {"if (n <= 1024) tiled<1024><<<1, 1024, 0, stream>>>(x, y, n);\n"
     "else { tiled<256><<<2, 256, 0, stream>>>(x, y, n); }",
     "tiled<1024><<<1 1 1|1024 1 1|0>>>(in0+0, out0+0, 1000L)"},
    {"if (n <= 999) { return; } else if (m == 8 && !(n < 3)) copy<<<1, 2, 0, stream>>>(x, y, 3);\n"
     "else copy<<<4, 5, 0, stream>>>(x, y, 6);",
     "copy<<<1 1 1|2 1 1|0>>>(in0+0, out0+0, 3)"},
    {"for (int i = 0; i < 3; ++i) copy<<<1, 1, 0, stream>>>(x + i, y + 2 * i, i);",
     "copy<<<1 1 1|1 1 1|0>>>(in0+0, out0+0, 0); copy<<<1 1 1|1 1 1|0>>>(in0+4, out0+8, 1); "
     "copy<<<1 1 1|1 1 1|0>>>(in0+8, out0+16, 2)"},
    {"int64_t s = n; int rounds = 0; while (s > 1) { s = (s + 1) / 2; rounds++; }\n"
     "copy<<<rounds, s, 0, stream>>>(x, y, rounds);",
     "copy<<<10 1 1|1 1 1|0>>>(in0+0, out0+0, 10)"},
    {"int p = 1; do { p <<= 1; } while (p < n); copy<<<1, 1, 0, stream>>>(x, y, p);",
     "copy<<<1 1 1|1 1 1|0>>>(in0+0, out0+0, 1024)"},
    {"int a, b; for (a = 0, b = 9; ; a++, b -= 2) { if (a == 1) continue; if (a >= b) break; }\n"
     "copy<<<1, 1, 0, stream>>>(x, y, 10 * a + b);",
     "copy<<<1 1 1|1 1 1|0>>>(in0+0, out0+0, 33)"},
    {"switch (m) { case 4: copy<<<4, 1, 0, stream>>>(x, y, 4); break;\n"
     "case 2 * 4: copy<<<8, 1, 0, stream>>>(x, y, 8); case 9: break; default: return; }\n"
     "copy<<<1, 1, 0, stream>>>(x, y, 1);",
     "copy<<<8 1 1|1 1 1|0>>>(in0+0, out0+0, 8); copy<<<1 1 1|1 1 1|0>>>(in0+0, out0+0, 1)"},
    {"switch (n % 7) { default: copy<<<1, 1, 0, stream>>>(x, y, 1); case 100: "
     "copy<<<2, 1, 0, stream>>>(x, y, 2); }",
     "copy<<<1 1 1|1 1 1|0>>>(in0+0, out0+0, 1); copy<<<2 1 1|1 1 1|0>>>(in0+0, out0+0, 2)"},
    {"(void)workspace; (void)ids; copy<<<1, 1, 0, stream>>>(x, y, 1);",
     "copy<<<1 1 1|1 1 1|0>>>(in0+0, out0+0, 1)"},
    {"numbers<<<1, 1, 0, stream>>>(n, 65, -3, 4294967295u, -5, 1 / 3.0);",
     "numbers<<<1 1 1|1 1 1|0>>>(1b, 65b, -3s, -1, -5L, 0.3333333333333333d)"},
    {"float a = 1.0f / std::sqrt((float)m); scale<<<1, 1, 0, stream>>>(x, y, n, a);",
     "scale<<<1 1 1|1 1 1|0>>>(in0+0, out0+0, 1000L, 0.35355338f)"},
    {"scale<<<1, 1, 0, stream>>>(x, y, n, rsqrtf(4.0f) + powf(2, 3) + fmaxf(1, 2.5f) - 0x1p-1f);",
     "scale<<<1 1 1|1 1 1|0>>>(in0+0, out0+0, 1000L, 10.5f)"},
    {"scale<<<1, 1, 0, stream>>>(x, y, n, -INFINITY); scale<<<1, 1, 0, stream>>>(x, y, INT_MAX, "
     "-FLT_MAX);",
     "scale<<<1 1 1|1 1 1|0>>>(in0+0, out0+0, 1000L, -inff); scale<<<1 1 1|1 1 1|0>>>(in0+0, "
     "out0+0, "
     "2147483647L, -3.4028235e+38f)"},
    {"scale<<<1, 1, 0, stream>>>(x, y, std::numeric_limits<int>::max(), "
     "std::numeric_limits<float>::lowest());",
     "scale<<<1 1 1|1 1 1|0>>>(in0+0, out0+0, 2147483647L, -3.4028235e+38f)"},
    {"int64_t a = std::min<int64_t>(n, 300), b = std::max(n, m), c = min(3, 4), d = max(3u, 7);\n"
     "copy<<<a, c, 0, stream>>>(x, y, b + d + abs(-5));",
     "copy<<<300 1 1|3 1 1|0>>>(in0+0, out0+0, 1012)"},
    {"const unsigned long long big = 1'000'000ull; constexpr auto k = 0x10 + 0b11 + 010;\n"
     "copy<<<k, 1, 0, stream>>>(x, y, static_cast<int>(big) % 1000 + int(2.9) + int{3});",
     "copy<<<27 1 1|1 1 1|0>>>(in0+0, out0+0, 5)"},
    {"bool even = n % 2 == 0; size_t bytes = (n * 4 + 255) & ~255; copy<<<even ? 2 : 3, 1, "
     "bytes, stream>>>(x, y, (int64_t)bytes ^ 1);",
     "copy<<<2 1 1|1 1 1|4096>>>(in0+0, out0+0, 4097)"},
    {"int v = 100; v -= 1; v *= 2; v /= 3; v %= 50; v |= 64; v &= 0x7f; v ^= 1; v >>= 1; v--;\n"
     "copy<<<1, 1, 0, stream>>>(x, y, v);",
     "copy<<<1 1 1|1 1 1|0>>>(in0+0, out0+0, 39)"},
    {"static constexpr int T = 64; const int U = T * 2; using index = int;\n"
     "index v = round_up<index>(100, U) + round_up(n, (int64_t)T);\n"
     "copy<<<T, U, 0, stream>>>(x, y, v);",
     "copy<<<64 1 1|128 1 1|0>>>(in0+0, out0+0, 1152)"},
};

const accepted_case accepted_pointers[] = {
    {"float* tmp = reinterpret_cast<float*>(workspace) + n; copy<<<1, 1, 0, stream>>>(tmp, y, 1);",
     "copy<<<1 1 1|1 1 1|0>>>(ws+4000, out0+0, 1)"},
    {"auto* a = (float*)workspace; const float* b = &a[n]; a += 3; a++; a -= 1; --a; a = a + m;\n"
     "copy<<<1, 1, 0, stream>>>(b, a, 1);",
     "copy<<<1 1 1|1 1 1|0>>>(ws+4000, ws+40, 1)"},
    {"char* p = static_cast<char*>(workspace);\nfloat* a = (float*)p; p += n * sizeof(float);\n"
     "float* b = reinterpret_cast<float*>(p); copy<<<1, 1, 0, stream>>>(a, b, 1);",
     "copy<<<1 1 1|1 1 1|0>>>(ws+0, ws+4000, 1)"},
    {"typed<float4><<<1, 1, 0, stream>>>(reinterpret_cast<const float4*>(x) + 2, (float4*)y, n / "
     "4);",
     "typed<float4><<<1 1 1|1 1 1|0>>>(in0+32, out0+0, 250)"},
    {"copy<<<1, 1, 0, stream>>>(nullptr, y + n * m, 1); copy<<<1, 1, 0, stream>>>(m > 8 ? nullptr "
     ": "
     "x, m > 8 ? y : NULL, 1);",
     "copy<<<1 1 1|1 1 1|0>>>(null, out0+32000, 1); copy<<<1 1 1|1 1 1|0>>>(in0+0, null, 1)"},
    {"float* const a = y; const float* b = x; if (n > 5) b = a; copy<<<1, 1, 0, stream>>>(b, 2 + "
     "a, "
     "1);",
     "copy<<<1 1 1|1 1 1|0>>>(out0+0, out0+8, 1)"},
    {"float* src = const_cast<float*>(x); float* dst = y; for (int s = 1; s < 4; s *= 2) {\n"
     "copy<<<1, s, 0, stream>>>(src, dst, s); float* t = src; src = dst; dst = t; }",
     "copy<<<1 1 1|1 1 1|0>>>(in0+0, out0+0, 1); copy<<<1 1 1|2 1 1|0>>>(out0+0, in0+0, 2)"},
    {"cudaMemsetAsync(workspace, 0, n * sizeof(int), stream);\n"
     "cudaMemsetAsync(y + 1, -1, 8, stream); cudaMemsetAsync(y, 0, 0, stream);",
     "set(ws+0, 0, 4000); set(out0+4, 255, 8)"},
    {"cudaMemcpyAsync(y, x, n * m * sizeof(float), cudaMemcpyDeviceToDevice, stream);\n"
     "cudaMemcpyAsync((char*)workspace + 64, workspace, 64, cudaMemcpyDeviceToDevice, stream);",
     "copy(out0+0, in0+0, 32000); copy(ws+64, ws+0, 64)"},
    {"int k = 5; k += 1; void* args[] = {&x, (void*)&y, &k};\n"
     "cudaLaunchCooperativeKernel((void*)copy, dim3(4), 128, args, 512, stream);",
     "together copy<<<4 1 1|128 1 1|512>>>(in0+0, out0+0, 6)"},
    {"size_t count = n; void* args[3] = {&x, &y, &count}; count = 7; dim3 g(2, 2);\n"
     "cudaLaunchCooperativeKernel(tiled<64>, g, 64, args, 0, stream);",
     "together tiled<64><<<2 2 1|64 1 1|0>>>(in0+0, out0+0, 7L)"},
    {"cudaFuncSetAttribute(tiled<64>, cudaFuncAttributeMaxDynamicSharedMemorySize, 100 * 1024);\n"
     "cudaFuncSetAttribute((const void*)copy, cudaFuncAttributeMaxDynamicSharedMemorySize, 1);\n"
     "tiled<64><<<1, 64, 100 * 1024, stream>>>(x, y, n);",
     "tiled<64><<<1 1 1|64 1 1|102400>>>(in0+0, out0+0, 1000L)"},
};

const accepted_case accepted_templates[] = {
    {"constexpr int B = 128; tiled<B><<<1, B, 0, stream>>>(x, y, n);\n"
     "tiled<B / 2 + (3 > 2)><<<1, 1, 0, stream>>>(x, y, n);",
     "tiled<128><<<1 1 1|128 1 1|0>>>(in0+0, out0+0, 1000L); tiled<65><<<1 1 1|1 1 1|0>>>(in0+0, "
     "out0+0, 1000L)"},
    {"tiled<BLOCK><<<1, BLOCK, 0, stream>>>(x, y, n); tiled<TILE><<<1, TILE, 0, stream>>>(x, y, "
     "n);",
     "tiled<BLOCK><<<1 1 1|256 1 1|0>>>(in0+0, out0+0, 1000L); tiled<32><<<1 1 1|32 1 "
     "1|0>>>(in0+0, "
     "out0+0, 1000L)"},
    {"typed<<<1, 1, 0, stream>>>(x, y, n); typed<float><<<1, 1, 0, stream>>>(x, y, n);\n"
     "typed<float, false><<<1, 1, 0, stream>>>(x, y, n);",
     "typed<float><<<1 1 1|1 1 1|0>>>(in0+0, out0+0, 1000); typed<float><<<1 1 1|1 1 1|0>>>(in0+0, "
     "out0+0, 1000); typed<float, false><<<1 1 1|1 1 1|0>>>(in0+0, out0+0, 1000)"},
    {"detail::inner<<<1, detail::WARPS * 32, 0, stream>>>(y);",
     "detail::inner<<<1 1 1|256 1 1|0>>>(out0+0)"},
    {"detail::fill<float, detail::WARPS><<<1, 1, 0, stream>>>(y, n);\n"
     "::detail::fill<unsigned char, 1 << 3><<<1, 1, 0, stream>>>((uint8_t*)workspace, ROWS);",
     "detail::fill<float, detail::WARPS><<<1 1 1|1 1 1|0>>>(out0+0, 1000); detail::fill<unsigned "
     "char, 8><<<1 1 1|1 1 1|0>>>(ws+0, 1024)"},
};

void check_accepted(const accepted_case& one) {
  CAPTURE(one.body);
  CHECK(steps_of(one.body, one.n, one.m) == one.steps);
}

}  // namespace

TEST_CASE("size arithmetic, control flow and launches") {
  for (const accepted_case& one : accepted_launches)
    check_accepted(one);
}

TEST_CASE("pointers, fills, copies and cooperative launches") {
  for (const accepted_case& one : accepted_pointers)
    check_accepted(one);
}

TEST_CASE("template arguments and namespaces") {
  for (const accepted_case& one : accepted_templates)
    check_accepted(one);
}

namespace {

struct accepted_file {
  const char* text;
  const char* steps;
};

const accepted_file accepted_files[] = {
    // macros, an unnamed namespace, functors, functions of the host with loops and launches
    {R"(#define CEIL_DIV(a, b) (((a) + (b) - 1) / (b))
namespace {
template <int BLOCK, typename T>
__global__ void __launch_bounds__(BLOCK) softmax(const T* __restrict__ x, T* y, int n, int m) {}
struct Sum { __device__ float operator()(float a, float b) const { return a + b; } };
template <typename Op> __global__ void reduce(const float* x, float* y, int64_t n) {}
template <int BLOCK> static void run(const float* x, float* y, int64_t n, int64_t m, cudaStream_t s) {
  softmax<BLOCK><<<dim3((unsigned)n), BLOCK, BLOCK / 32 * sizeof(float), s>>>(x, y, (int)n, m);
}
inline int next_pow2(int v) { int p = 1; while (p < v) p <<= 1; return p; }
}
extern "C" void kernel(const float* __restrict__ x, const int* ids, float* __restrict__ y, int64_t n, int64_t m, void* workspace, cudaStream_t stream) {
  switch (next_pow2((int)m)) {
    case 8: run<8>(x, y, n, m, stream); break;
    default: run<1024>(x, y, n, m, stream);
  }
  reduce<Sum><<<CEIL_DIV(n, 256), 256, 0, stream>>>(x, (float*)workspace, n);
}
)",
     "softmax<8, float><<<1000 1 1|8 1 1|0>>>(in0+0, out0+0, 1000, 8); reduce<Sum><<<4 1 1|256 1 "
     "1|0>>>(in0+0, ws+0, 1000L)"},
    // a block of extern "C", other names of the parameters, none for the workspace
    {R"(extern "C" {
__global__ void k(float *y, int n) { if (n) y[0] = 1; }
int64_t workspace_bytes(int64_t, int64_t) { return 4; }
void kernel(const float* a, const int32_t* b, float* c, const int64_t rows, long long columns, void*, cudaStream_t s)
{
    k<<<(rows + 127) / 128, 128, 0, s>>>(c, rows);
}
}
)",
     "k<<<8 1 1|128 1 1|0>>>(out0+0, 1000)"},
    // aliases, a declaration before the definition, constants from functions, enumerations
    {R"(typedef float scalar;
using index_t = int;
__global__ void k(const scalar* x, scalar y[], index_t n, const index_t m);
__global__ void k(const scalar* x, scalar y[], index_t n, const index_t m) { }
template<class T> struct Pair { T a, b; };
__global__ void pairs(Pair<float>* p, const unsigned char* q, unsigned long long r) {}
enum class Mode : int { a = 1, b };
template <Mode M, typename U = Pair<int>> __global__ void moded(float* p) {}
constexpr int squares(int a) { return a * a; }
constexpr int K = squares(4), L = K > 3 ? 7 : 8;
void unused() { int* p = new int; delete p; }
extern "C" void kernel(const scalar* x, const int* ids, scalar* y, int64_t n, int64_t m, void* w, cudaStream_t st) {
  k<<<1, K, 0, st>>>(x, y, n, L);
  pairs<<<1, 1, 0, st>>>(reinterpret_cast<Pair<float>*>(w), (unsigned char*)w, n);
  moded<Mode::b><<<1, 1, 0, st>>>(y);
  moded<Mode::a, Pair<float>><<<1, 1, 0, st>>>(y);
}
)",
     "k<<<1 1 1|16 1 1|0>>>(in0+0, out0+0, 1000, 7); pairs<<<1 1 1|1 1 1|0>>>(ws+0, ws+0, 1000L); "
     "moded<Mode::b><<<1 1 1|1 1 1|0>>>(out0+0); moded<Mode::a, Pair<float>><<<1 1 1|1 1 "
     "1|0>>>(out0+0)"},
    // names handed on by templates of the host, T by value
    {R"(enum class Mode { a, b };
__device__ float op(float a) { return a; }
template <Mode M, float (*F)(float)> __global__ void k(float* y, int n) {}
template <typename T> __global__ void set(T* y, T a, int n) {}
template <Mode M> void run(float* y, int64_t n, cudaStream_t s) { k<M, op><<<1, 1, 0, s>>>(y, n); }
extern "C" void kernel(const float* x, const int* ids, float* y, int64_t n, int64_t m, void* w, cudaStream_t st) {
  run<Mode::b>(y, n, st);
  set<<<1, 1, 0, st>>>(y, 2.0f, 1); set<float><<<1, 1, 0, st>>>(y, 2.5, 1); set<int><<<1, 1, 0, st>>>((int*)w, 2, 1);
}
)",
     "k<Mode::b, op><<<1 1 1|1 1 1|0>>>(out0+0, 1000); set<float><<<1 1 1|1 1 1|0>>>(out0+0, 2f, "
     "1); "
     "set<float><<<1 1 1|1 1 1|0>>>(out0+0, 2.5f, 1); set<int><<<1 1 1|1 1 1|0>>>(ws+0, 2, 1)"},
    // pragmas of all spellings, wherever they stand
    {R"(_Pragma("nv_diag_suppress 177")
#define QUIET _Pragma("nv_diag_suppress 550")
__global__ void k(float* y, int n) { _Pragma("unroll") for (int i = 0; i < n; ++i) y[i] = 1; }
QUIET
extern "C" _Pragma("nv_diag_default 550") void kernel(const float* x, const int* ids, float* y, int64_t n, int64_t m, void* w, cudaStream_t st) {
#pragma unroll
  for (int i = 0; i < 2; ++i) k<<<1, 1, 0, st>>>(y, i);
  _Pragma("unroll")
  for (int i = 0; i < 1; ++i) k<<<1, 1, 0, st>>>(y, 7);
}
)",
     "k<<<1 1 1|1 1 1|0>>>(out0+0, 0); k<<<1 1 1|1 1 1|0>>>(out0+0, 1); k<<<1 1 1|1 1 "
     "1|0>>>(out0+0, 7)"},
};

}  // namespace

TEST_CASE("whole files") {
  for (const accepted_file& one : accepted_files) {
    CAPTURE(one.text);
    CHECK(test::steps_of_file(one.text, 1000, 8) == one.steps);
  }
}

TEST_CASE("the signature of a task") {
  env::task what;
  what.lane = &env::cuda_lane;
  env::tensor_body& tensors = test::edit_tensors(what);
  tensors.size_names = {"n"};
  tensors.inputs.push_back(
      {.name = "h", .type = env::dtype::f16, .shape = {}, .dists = {}, .below = {}});
  tensors.inputs.push_back(
      {.name = "b", .type = env::dtype::bf16, .shape = {}, .dists = {}, .below = {}});
  tensors.inputs.push_back(
      {.name = "u", .type = env::dtype::u8, .shape = {}, .dists = {}, .below = {}});
  tensors.outputs.push_back({.name = "o", .type = env::dtype::i64, .shape = {}});
  tensors.outputs.push_back({.name = "d", .type = env::dtype::f64, .shape = {}});
  // The prototype that candidates are given is accepted; so are other spellings of its types.
  const auto accepted = [&](const std::string& prototype) {
    const auto plan = env::parse_launch_plan(prototype + " {}", env::signature_of(what));
    return plan ? std::string("accepted") : env::to_string(plan.error());
  };
  CHECK(accepted(what.lane->entry(what)) == "accepted");
  CHECK(accepted("extern \"C\" void kernel(const half* __restrict__ h, nv_bfloat16 const* b, const "
                 "unsigned char* u, "
                 "long long* __restrict__ o, double* d, long n, void* w, cudaStream_t s)") ==
        "accepted");
  CHECK(
      accepted("extern \"C\" void kernel(const __nv_bfloat16* h, const half* b, const uint8_t* u, "
               "int64_t* o, double* d, int64_t n, void* w, cudaStream_t s)") ==
      "line 1, column 24: parameter 1 is const __nv_bfloat16*, the task's 'h' is const __half*");
}
