// The static screen of lane `cuda`: what it refuses, by which rule, and that it leaves honest
// kernels alone.
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/random.hpp"
#include "env/lanes/cuda/screen/cuda_prelude.hpp"
#include "env/lanes/cuda/screen/cuda_screen.hpp"
#include "env/screen/canonical.hpp"
#include "env/screen/lexer.hpp"
#include "support/test.hpp"

using namespace quern;
using env::screen_rule;

namespace {

std::optional<env::screen_finding> screen(std::string_view source,
                                          env::cuda_screen_policy policy = {}) {
  return env::screen_cuda(source, policy);
}

const std::string host_part =
    "extern \"C\" void kernel(const float* x, float* y, int64_t n, void* w, cudaStream_t s) {\n"
    "  scale<<<int(n / 256), 256, 0, s>>>(x, y, n);\n}\n";
const std::string device_part =
    "__global__ void scale(const float* x, float* y, int64_t n) {\n"
    "  int64_t i = blockIdx.x * 256 + threadIdx.x;\n  if (i < n) y[i] = 2 * x[i];\n}\n";

void check_allowed(const std::string& text, env::cuda_screen_policy policy = {}) {
  CAPTURE(text);
  const auto found = screen(text + "\n" + device_part + host_part, policy);
  CHECK_MESSAGE(!found.has_value(), (found ? found->text : ""));
}

void check_refused(screen_rule rule, const std::string& text) {
  CAPTURE(text);
  const auto found = screen(text + "\n" + device_part + host_part);
  REQUIRE(found.has_value());
  CAPTURE(found->text);
  CHECK(std::string(env::name_of(found->rule)) == std::string(env::name_of(rule)));
  CHECK(found->line >= 1);
}

std::string in_kernel(const std::string& statement) {
  return "__global__ void f(float* y) { " + statement + " }";
}

std::string in_host(const std::string& statement) {
  return "void helper(int n) { " + statement + " }";
}

const std::filesystem::path hostile = test::source_dir() / "tests/hostile/cuda";

base::json read_manifest(const std::filesystem::path& file) {
  const auto text = base::read_file(file);
  REQUIRE_MESSAGE(text.has_value(), file.string());
  auto parsed = base::parse_json(*text);
  REQUIRE_MESSAGE(parsed.has_value(), (parsed ? "" : parsed.error().message));
  return *parsed;
}

}  // namespace

TEST_CASE("cuda: honest kernels pass") {
  const auto folder = test::source_dir() / "tests/honest/cuda";
  if (!std::filesystem::exists(folder / "manifest.json"))
    return test::skip("the honest candidates of lane cuda are not here");
  int seen = 0;
  const base::json manifest = read_manifest(folder / "manifest.json");
  for (const auto& item : manifest["candidates"]) {
    const std::string file = item["file"];
    CAPTURE(file);
    const auto text = base::read_file(folder / file);
    if (!text) continue;
    env::cuda_screen_policy policy;
    policy.library_calls = item.contains("needs");
    const auto found = screen(*text, policy);
    CHECK_MESSAGE(!found.has_value(), (found ? found->text : ""));
    ++seen;
  }
  CHECK(seen > 0);
}

TEST_CASE("cuda: hostile candidates are refused where the screen alone has to, legal ones never") {
  if (!std::filesystem::exists(hostile / "manifest.json"))
    return test::skip("the hostile candidates of lane cuda are not here");
  const base::json manifest = read_manifest(hostile / "manifest.json");
  int seen = 0;
  for (const auto& item : manifest["candidates"]) {
    const std::string file = item["file"];
    CAPTURE(file);
    const auto text = base::read_file(hostile / file);
    if (!text) continue;
    ++seen;
    const auto found = screen(*text);
    CAPTURE((found ? found->text : "passed"));
    // Either the screen refuses it, and that is the verdict, or it has none to give.
    CHECK(found.has_value() == (item["want"].value("screen", "") == "rejected_static"));
  }
  CHECK(seen > 0);
}

TEST_CASE("cuda: includes are those of the list") {
  for (const auto header : env::cuda_headers())
    if (!header.ends_with('/')) check_allowed("#include <" + std::string(header) + ">");
  check_allowed("#include \"cuda_fp16.h\"\n#include <cuda/std/limits>\n#include <cstdint>");
  for (const char* text :
       {"#include <thread>", "#include \"/etc/passwd\"", "#include <cublas_v2.h>",
        "#include <cuda/std/../../x>", "#include <cutlass/cutlass.h>", "#include HEADER",
        "#include <iostream>", "#include <cuda/std/>", "#include"})
    check_refused(screen_rule::include, text);
  check_allowed("#include <cublas_v2.h>\n#include <cutlass/cutlass.h>", {.library_calls = true});
}

TEST_CASE("cuda: macros, conditionals and pragmas") {
  for (const char* text :
       {"#define TILE 32", "#define CEIL(a, b) (((a) + (b) - 1) / (b))",
        "#define SWAP(a, b) do { auto c = a; a = b; b = c; } while (0)",
        "#define DEVICE __device__ __forceinline__\nDEVICE float twice(float x) { return 2 * x; }",
        "#if __CUDA_ARCH__ >= 900\n#define FAST 1\n#else\n#define FAST 0\n#endif",
        "#ifndef TILE\n#define TILE 32\n#endif\n#undef TILE", "#pragma once",
        "#pragma nv_diag_suppress 177", "#if 0\n#error no\n#endif",
        "__global__ void g(float* y) {\n#pragma unroll 4\n  for (int i = 0; i < 4; ++i) y[i] = "
        "0;\n}"})
    check_allowed(text);
  for (const char* text :
       {"#define PASTE(a, b) a##b", "#define TEXT(a) #a", "#define OPEN {", "#define CLOSE )",
        "#define CACHE __device__ float kept[100];", "#define SET static int x = 0",
        "#define __global__", "#define const", "#define kernel other", "#define cudaMalloc mine",
        "#define threadIdx zero", "#line 3", "#include_next <cmath>", "#embed \"x\"",
        "#undef __device__", "#if 1\nvoid f() {\n#else\nvoid g() {\n#endif\n}", "#else"})
    check_refused(screen_rule::preprocessor, text);
  check_refused(screen_rule::pragma, "#pragma weak x = y");
  check_refused(screen_rule::pragma, "#pragma nv_abi preserve_n_data(1)");
}

TEST_CASE("cuda: PTX in device functions, without clocks, traps, calls and declarations") {
  for (const char* text :
       {"asm volatile(\"cp.async.ca.shared.global [%0], [%1], 16;\" :: \"r\"(0), \"l\"(y));",
        "float r; asm(\"ex2.approx.ftz.f32 %0, %1;\" : \"=f\"(r) : \"f\"(y[0]));",
        "asm volatile(\"{\\n\\t.reg .pred p;\\n\\tsetp.ne.b32 p, %0, 0;\\n\\t@p bra L;\\n}\" :: "
        "\"r\"(1));",
        "unsigned id; asm(R\"(mov.u32 %0, %%smid;)\" : \"=r\"(id));",
        "asm volatile(\"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 \" \"{%0}, {%1};\" "
        "::);",
        "asm volatile(\"mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\" ::);"})
    check_allowed(in_kernel(text));
  check_allowed("#define WAIT(n) asm volatile(\"cp.async.wait_group %0;\" :: \"n\"(n))");
  check_allowed("struct s { __device__ void f() { asm(\"bar.sync 0;\"); } };");
  for (const char* text :
       {"asm(\"mov.u64 %0, %%clock64;\" : \"=l\"(t));",
        "asm(\"mov.u64 %0, %%globaltimer;\" : "
        "\"=l\"(t));",
        "asm(\"mov.u64 %0, %%clo\" \"ck64;\" : \"=l\"(t));", "asm(\"mov.u64 %0, %%cl\\x6fck64;\");",
        "asm(\"trap;\");", "asm(\"@p trap;\");", "asm(\"{ brkpt; }\");",
        "asm volatile(\"nanosleep.u32 100;\");", "asm(\"call (x), vprintf, (y, z);\");",
        "asm(\".global .u32 kept;\");", "asm(TEXT);", "asm(\"a\" TEXT \"b\");", "asm;",
        "__asm__ volatile(R\"(trap;)\");"})
    check_refused(screen_rule::assembler, in_kernel(text));
  for (const char* text : {"asm(\".incbin \\\"/etc/passwd\\\"\");", "asm(\"nop;\");",
                           "void f() { asm(\"mov.u32 %0, 1;\"); }",
                           "__host__ __device__ void f() { asm(\"bar.sync 0;\"); }",
                           "#define CLOCK(t) asm(\"mov.u64 %0, %%clock64;\" : \"=l\"(t))"})
    check_refused(screen_rule::assembler, text);
}

TEST_CASE("cuda: assembler is PTX, by a list of its instructions") {
  for (const char* text :
       {"asm volatile(\"\" ::: \"memory\");", "asm(\"/* of the row */ bar.sync 0; // all\");",
        "asm volatile(\"{\\n .reg .pred P1;\\n LAB_WAIT:\\n "
        "mbarrier.try_wait.parity.shared::cta.b64 "
        "P1, [%0], %1;\\n @P1 bra DONE;\\n bra LAB_WAIT;\\n DONE:\\n }\" :: \"r\"(1));",
        "asm(\"ld.global.nc.v4.f32 {%0, %1, %2, %3}, [%4];\");",
        "asm(\"{ .reg .b32 a, b; mov.b64 {a, b}, %1; add.u32 %0, a, b; }\");",
        "asm(\"@!%p1 st.shared.f32 [%0], %1;\");",
        "asm(\"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32\\n {%0,%1},\\n {%2,%3}, "
        "{%4};\");",
        "asm(\"wgmma.fence.sync.aligned; elect.sync _|p, 0xffffffff;\");"})
    check_allowed(in_kernel(text));
  for (const char* text :
       {// Data, as the host's assembler has it.
        "asm(\".value 0x050f\");", "asm(\".2byte 0x050f\");", "asm(\".short 0x050f\");",
        "asm(\".hword 1\");", "asm(\".octa 1\");", "asm(\".fill 2, 1, 5\");", "asm(\".zero 4\");",
        "asm(\".string16 \\\"a\\\"\");", "asm(\".org 4\");", "asm(\".uleb128 5\");",
        "asm(\".shared .u32 kept;\");", "asm(\".local .u32 kept;\");",
        // Its instructions, which have no type.
        "asm(\"mov $60, %eax; syscall\");", "asm(\"syscall\");", "asm(\"ret;\");",
        "asm(\"jmp 1f\");", "asm(\"add $1, %rax\");", "asm(\"svc 0\");", "asm(\"rdtsc\");",
        // What a line, a label, a guard or a comment could hide.
        "asm(\"mov.u32 %0, 1\\n syscall\");", "asm(\"L: syscall\");", "asm(\"@p syscall\");",
        "asm(\"/* x */ syscall\");", "asm(\"bar.sync 0; // x\\n syscall\");",
        "asm(\"{ .reg .b32 a; syscall; }\");", "asm(\"exit;\");", "asm(\"pmevent 1;\");",
        "asm(\"alloca.u64 p, 8;\");", "asm(\"brx.idx %0, t;\");", "asm(\"unheard.of 1;\");",
        "asm(\"mov.u64 %0, %clock64;\");"})
    check_refused(screen_rule::assembler, in_kernel(text));
}

TEST_CASE("cuda: what places a function is the same for both passes of the compiler") {
  const std::string f = "void f() { asm(\"bar.sync 0;\"); }\n";
  // The control: without conditionals it is device code in both.
  check_allowed("#define DEVICE __device__ inline\nDEVICE " + f);
  check_allowed("#ifdef __CUDA_ARCH__\n__device__ " + f + "#endif\n");
  check_allowed("#if N > 2\n__device__ int width();\n#else\n__device__ long width();\n#endif\n");
  check_allowed("#ifdef __CUDA_ARCH__\n#define WIDTH 32\n#else\n#define WIDTH 1\n#endif\n");
  const std::string arch = "#ifdef __CUDA_ARCH__\n";
  for (const std::string& text :
       {arch + "#define DEVICE __device__\n#else\n#define DEVICE\n#endif\nDEVICE " + f,
        arch +
            "#define DEVICE __device__\n#endif\n#ifndef DEVICE\n#define DEVICE\n#endif\nDEVICE " +
            f,
        "#define PLACE __device__\n" + arch +
            "#define DEVICE PLACE\n#else\n#define DEVICE\n#endif\nDEVICE " + f,
        "#define DEVICE __device__\n#undef DEVICE\n#define DEVICE\nDEVICE " + f,
        "#define DEVICE __device__\n#define DEVICE\nDEVICE " + f, arch + "__device__\n#endif\n" + f,
        arch + "#else\n__global__\n#endif\n" + f, arch + "int a;\n__device__ inline\n#endif\n" + f,
        "#if 1\n" + arch + "__device__\n#endif\n#endif\n" + f})
    check_refused(screen_rule::preprocessor, text);
}

TEST_CASE("cuda: names that no candidate needs") {
  for (const char* text :
       {"y[0] = clock64();", "y[0] = clock();", "__nanosleep(100);", "__trap();", "__brkpt();",
        "printf(\"x\");", "assert(y);", "float* p = (float*)malloc(4);", "float* p = new float[4];",
        "delete y;", "free(y);"})
    check_refused(screen_rule::forbidden_name, in_kernel(text));
  for (const char* text : {"cudaLaunchHostFunc(0, 0, 0);",
                           "cudaIpcGetMemHandle(0, 0);",
                           "cudaDeviceReset();",
                           "cudaEventElapsedTime(0, 0, 0);",
                           "cublasSgemm(0);",
                           "cutlass::gemm::x(a, b);",
                           "cudaHostAlloc(&p, n, 0);",
                           "cudaMallocManaged(&p, n);",
                           "std::thread t;",
                           "fork();",
                           "std::chrono::steady_clock::now();",
                           "syscall(1);",
                           "dlopen(0, 0);",
                           "std::exit(0);",
                           "exit(0);",
                           "open(\"x\", 0);",
                           "pthread_create(0, 0, 0, 0);",
                           "cuMemExportToShareableHandle(0);",
                           "cuModuleLoadData(0, 0);",
                           "getenv(\"X\");",
                           "__builtin_return_address(0);",
                           "std::cout << n;",
                           "nvmlInit();",
                           "__cudaRegisterFunction(0);"})
    check_refused(screen_rule::forbidden_name, in_host(text));
  check_refused(screen_rule::forbidden_name, "__managed__ float kept[4];");
  check_refused(screen_rule::forbidden_name, "#define STOP __trap()");
  check_refused(screen_rule::position, in_kernel("y[0] = __LINE__;"));
  check_refused(screen_rule::attribute, "__attribute__((constructor)) void f() {}");
  // Such words as names of one's own, and what only looks like them.
  check_allowed(in_kernel("float time = y[0], clock = time; y[1] = clock;"));
  check_allowed("struct pipe_state { int read, write; };");
  check_allowed(in_kernel("pipe.read(y); y[0] = bar->poll();"));
  check_allowed(in_host("cublasSgemm(0);"), {.library_calls = true});
  check_allowed(in_host("cudaGraphLaunch(0, 0);"));
  CHECK(screen(in_host("cudaGraphLaunch(0, 0);"), {.graphs = false}).has_value());
}

TEST_CASE("cuda: device variables that survive the call") {
  for (const char* text :
       {"__device__ float kept[1024];",
        "static __device__ float kept;",
        "__device__ float* last;",
        "namespace a { __device__ int done[2]; }",
        "struct t { int a; };\n__device__ t kept;",
        "__device__ unsigned long long first, second;",
        "__device__ float one = 1.0f;",
        "#define DEVICE __device__\nDEVICE float kept[4];",
        "#define A __device__\n#define B A\nB float kept[4];",
        "template <int N> __device__ float kept[N];",
        "__device__ __half kept{};",
        "alignas(16) __device__ float kept[4];",
        "__device__ float kept(0);",
        "__device__ t kept(-1, 2);",
        "__device__ array<float, sizeof(int)> kept;",
        "template <> __device__ float kept<4>(0);",
        "_Pragma(\"unroll\") __device__ float kept[4];",
        "__device__ std::array<f<(3)>, 2> kept;",
        "__device__ array<float, f(N)> kept;",
        "template <int N = 4> __device__ float kept[N];",
        "template <int N = f()> __device__ float kept[N];",
        "__device__ float (kept)[64];",
        "__device__ float kept((0));",
        "template <> __device__ float kept<4>((0));",
        "template <class T> using id = T; __device__ id<float> (kept)[64];",
        "#define END ;\n__device__ float kept[64] END extern \"C\" { __device__ int f(int); }",
        "template <int N, bool S = N < 4> __device__ float kept[N];"})
    check_refused(screen_rule::device_state, text);
  check_refused(screen_rule::device_state, in_kernel("static float kept[32]; y[0] = kept[0];"));
  for (const char* text :
       {"__device__ unsigned arrived;",
        "__device__ unsigned int arrived = 0;",
        "static __device__ int arrived;",
        "__constant__ float weights[64];",
        "__device__ const float table[2] = {1, 2};",
        "__device__ constexpr float two = 2;",
        "constexpr float table[2] = {1, 2};",
        "__device__ float twice(float x);",
        "__device__ __forceinline__ float twice(float x) { return 2 * x; }",
        "template <class T> __device__ T twice(T x) { return x + x; }",
        "__global__ void __launch_bounds__(256, 2) g(float* y) { y[0] = 1; }",
        "static __global__ void g(float* y) { y[0] = 1; }",
        "__device__ float4 operator+(float4 a, float4 b);",
        "__device__ __forceinline__ float4 operator+(float4 a, float4 b) { return a; }",
        "__device__ float4& operator+=(float4& a, float4 b) { return a; }",
        "__device__ bool operator<(v a, v b) { return a.x < b.x; }",
        "__device__ v operator<<(v a, int b) { return a; }",
        "struct v { __device__ int& operator[](int i) { return x[i]; } int x[4]; };",
        "struct v { __device__ v& operator=(const v& o) { x = o.x; return *this; } int x; };",
        "struct v { __device__ operator float() const { return x; } int x; };",
        "struct v { __device__ float operator()(int i) const { return i; } };",
        "struct v { friend __device__ v operator*(v a, v b) { return a; } int x; };",
        "template <> __device__ float to_float<float>(float v) { return v; }",
        "template <> __device__ float to_float<a<b<float>>>(a<b<float>> v) { return v; }",
        "template <class T, int N = sizeof(T)> __device__ float f(T v) { return v; }",
        "template <int N, bool S = N < 4> __device__ float f(float x) { return x; }",
        "template <int N> __device__ std::enable_if_t<N < 4, float> f(float x) { return x; }",
        "struct v { __device__ v(int a) : x(a) {} __device__ ~v() {} int x; };",
        "__device__ auto f(float x) -> decltype(x) { return x; }",
        "__device__ float f(float x) noexcept { return x; }",
        "__attribute__((noinline)) __device__ float f(float x) { return x; }",
        "__global__ void __launch_bounds__((2 * 128)) g(float* y) { y[0] = 1; }",
        "__device__ float f(float x) __attribute__((noinline)) { return x; }",
        "__device__ unsigned arrived(0);",
        "#define ALIGNED(n) alignas(n)\nstruct v { ALIGNED(16) int x; __device__ int f(int); };"})
    check_allowed(text);
  // The bodies of such functions are device code.
  check_refused(screen_rule::device_state,
                "template <int N, bool S = N < 4> __global__ void g(float* y) "
                "{ static float kept[4]; y[0] = kept[0]; }");
  check_refused(screen_rule::device_state, in_kernel("if (y) static float kept[32]; y[0] = 1;"));
  check_refused(screen_rule::device_launch,
                "__device__ v operator+(v a, v b) { scale<<<1, 32>>>(y, y, 1); return a; }");
  check_refused(screen_rule::forbidden_name,
                "template <> __device__ int* f<int>(int v) { return new int; }");
  check_allowed("__device__ v operator+(v a, v b) { asm(\"bar.sync 0;\"); return a; }");
  check_allowed(in_kernel("static __shared__ float tile[32]; extern __shared__ float more[];"));
  check_allowed(in_kernel("static constexpr int N = 4; static const float t[2] = {1, 2};"));
  check_allowed(in_host("static cudaGraphExec_t graph = nullptr;"));
  check_allowed(
      in_host("auto f = [=] __device__ { return n; }; const auto g = [] __device__(float x) { "
              "return x; };"));
}

TEST_CASE("cuda: kernels start no kernels, and declarations of what is elsewhere") {
  check_refused(screen_rule::device_launch, in_kernel("scale<<<1, 32>>>(y, y, 1);"));
  check_refused(screen_rule::device_launch,
                "__device__ void f(float* y) { if (y) { scale<<<1, 32>>>(y, y, 1); } }");
  check_allowed("template <class F> void launch(F f, cudaStream_t s) { f<<<1, 32, 0, s>>>(); }");
  check_allowed(in_kernel("int a = 1 << 2; y[0] = a << 1 < 3;"));
  for (const char* text :
       {"extern \"C\" int other(int);", "extern int x;", "extern \"C\" { int other(int); }",
        "void f() { extern int x; }", "extern \"C\" int errors;",
        "extern \"C\" __device__ int vprintf_of(const char*, void*);"})
    check_refused(screen_rule::external, text);
  check_allowed("extern \"C\" {\n__global__ void g(float* y) { y[0] = 1; }\n}");
  check_allowed(
      "extern \"C\" {\n__global__ void g(float* y) { y[0] = 1; }\n}\nstruct v { int x; };");
  check_allowed("extern \"C\" {}\nusing f = float;");
  check_allowed(
      "_Pragma(\"unroll\")\nextern \"C\" {\n__device__ float f(float x) { return x; }\n}\nusing g "
      "= float;");
  const auto in_block = screen("extern \"C\" {\n" + device_part + host_part + "}");
  CHECK_MESSAGE(!in_block, (in_block ? in_block->text : ""));
  check_refused(screen_rule::external, "extern \"C\" {}\nextern int x;");
  check_allowed("extern \"C\" __global__ void g(float* y) { y[0] = 1; }");
  check_allowed("extern \"C\" int64_t workspace_bytes(int64_t n) { return 4 * n; }");
  check_allowed("extern __shared__ float buffer[];");
}

TEST_CASE("cuda: launches are texts of their own") {
  using env::canonical_source;
  const std::string launch = "f<<<g, b, 0, s>>>(x);";
  CHECK(canonical_source(launch) == "f <<< g , b , 0 , s >>> ( x ) ;\n");
  CHECK(canonical_source("f <<< g,b,0,s >>> (x) ;") == canonical_source(launch));
  CHECK(canonical_source("f<< <g, b, 0, s>> >(x);") != canonical_source(launch));
  CHECK(canonical_source("f<A<B<int>>><<<1, 2>>>(x);") ==
        "f < A < B < int >> > <<< 1 , 2 >>> ( x ) ;\n");
  CHECK(canonical_source(canonical_source(launch)) == canonical_source(launch));
  // Without a launch nothing is other than in lane cpp.
  CHECK(canonical_source("A<B<C<int>>> a;") == "A < B < C < int >> > a ;\n");
}

TEST_CASE("cuda: any text gets an answer, and the same one in its canonical form") {
  constexpr auto pieces = std::to_array<std::string_view>(
      {"__device__", "__global__", "void",       "f",         "(",
       ")",          "{",          "}",          "[",         "]",
       ";",          "=",          "asm",        "\"trap;\"", "\"bar.sync 0;\"",
       "\n",         " ",          "#define A ", "#if 1\n",   "#endif\n",
       "#else\n",    "A",          "<<<",        ">>>",       "<<",
       "<",          ">",          "float",      "kept",      "extern",
       "\"C\"",      "static",     "__shared__", "::",        ",",
       "*",          "template",   "namespace",  "struct",    "R\"(",
       ")\"",        "\\\n",       "//",         "/*",        "*/",
       "#",          "##",         "const",      "new",       "1"});
  for (std::uint64_t i = 0; i < 20000; ++i) {
    base::random_stream random(31, "cuda screen", {i});
    std::string text;
    for (std::uint64_t k = 3 + random.below(30); k > 0; --k) {
      text += pieces[random.below(pieces.size())];
      if (random.below(2) == 0) text += ' ';
    }
    CAPTURE(text);
    const auto found = screen(text);
    if (found) REQUIRE(found->line >= 1);
    const std::string canonical = env::canonical_source(text);
    REQUIRE(env::canonical_source(canonical) == canonical);
    REQUIRE(screen(canonical).has_value() == found.has_value());
  }
}

TEST_CASE("cuda: long and nested texts take linear time") {
  for (const std::string unit : {"[",
                                 "(",
                                 "{",
                                 "__device__ ",
                                 "static ",
                                 "namespace a{",
                                 "extern \"C\" {",
                                 "asm(\"x\" ",
                                 "asm(",
                                 "f<<<1,2>>>",
                                 "#define A (\n",
                                 "#if 1\n",
                                 "#define A __device__\nA ",
                                 "template<",
                                 "__device__ void f(){",
                                 "#include <",
                                 "\"",
                                 "a ",
                                 "#define A B\n",
                                 "= ",
                                 "a = ",
                                 "f<a>() ",
                                 "f> () ",
                                 "a < ",
                                 "operator+() ",
                                 "__device__ f<a>(0) = "}) {
    std::string text;
    while (text.size() + unit.size() <= env::max_source_bytes)
      text += unit;
    CAPTURE(unit);
    (void)screen(text);
  }
  CHECK(screen(std::string(env::max_source_bytes + 1, ' '))->rule == screen_rule::too_long);
}
