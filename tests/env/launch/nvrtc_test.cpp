// What is left of a candidate compiles for the device: NVRTC, where it is installed.
#include <map>
#include <string>
#include <vector>

#include <dlfcn.h>

#include "env/launch/plan_fixture.hpp"

using namespace quern;

namespace {

// The few functions of NVRTC that are needed, looked up where the library is.
class run_time_compiler {
 public:
  run_time_compiler() {
    for (const char* name :
         {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", "/usr/local/cuda/lib64/libnvrtc.so"}) {
      if (library_ == nullptr) library_ = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    }
    if (library_ == nullptr) return;
    find(create_, "nvrtcCreateProgram");
    find(destroy_, "nvrtcDestroyProgram");
    find(compile_, "nvrtcCompileProgram");
    find(add_name_, "nvrtcAddNameExpression");
    find(lowered_, "nvrtcGetLoweredName");
    find(log_size_, "nvrtcGetProgramLogSize");
    find(log_, "nvrtcGetProgramLog");
    whole_ = create_ && destroy_ && compile_ && add_name_ && lowered_ && log_size_ && log_;
  }

  [[nodiscard]] bool present() const { return whole_; }

  /// Empty when every name is a kernel of the source, else the compiler's text.
  std::string compile(const std::string& source, const std::vector<std::string>& names) {
    const char* header_texts[] = {
        "#pragma once\ntypedef signed char int8_t; typedef unsigned char uint8_t;\n"
        "typedef int int32_t; typedef unsigned int uint32_t;\n"
        "typedef long int64_t; typedef unsigned long uint64_t;\n",
        "#pragma once\n"};
    const char* header_names[] = {"cstdint", "cuda_runtime.h"};
    void* program = nullptr;
    if (create_(&program, source.c_str(), "candidate.cu", 2, header_texts, header_names) != 0)
      return "nvrtcCreateProgram failed";
    for (const std::string& name : names)
      if (add_name_(program, name.c_str()) != 0) return "nvrtcAddNameExpression failed";
    // Functions without annotation: constexpr ones are all that is left of them.
    const char* options[] = {"--gpu-architecture=compute_90", "--std=c++20",
                             "--device-as-default-execution-space"};
    std::string text;
    if (compile_(program, 3, options) != 0) {
      std::size_t size = 0;
      log_size_(program, &size);
      text.resize(size);
      log_(program, text.data());
      text = "the compiler says: " + text;
    } else {
      for (const std::string& name : names) {
        const char* lowered = nullptr;
        if (lowered_(program, name.c_str(), &lowered) != 0 || lowered == nullptr)
          text += "no lowered name of " + name + "\n";
      }
    }
    destroy_(&program);
    return text;
  }

 private:
  template <class Function>
  void find(Function& into, const char* name) {
    into = reinterpret_cast<Function>(dlsym(library_, name));
  }

  void* library_ = nullptr;
  bool whole_ = false;
  int (*create_)(void**, const char*, const char*, int, const char* const*,
                 const char* const*) = nullptr;
  int (*destroy_)(void**) = nullptr;
  int (*compile_)(void*, int, const char* const*) = nullptr;
  int (*add_name_)(void*, const char*) = nullptr;
  int (*lowered_)(void*, const char*, const char**) = nullptr;
  int (*log_size_)(void*, std::size_t*) = nullptr;
  int (*log_)(void*, char*) = nullptr;
};

const char* const whole_files[] = {
    // macros, an unnamed namespace, functors, templates of the host
    R"(#include <cuda_runtime.h>
#include <cstdint>
#define CEIL_DIV(a, b) (((a) + (b) - 1) / (b))
#define THREADS 256
namespace {
template <int BLOCK, typename T>
__global__ void __launch_bounds__(BLOCK) softmax(const T* __restrict__ x, T* __restrict__ y, int n, int m) {
  __shared__ float s[BLOCK / 32 + 1];
  if (threadIdx.x == 0) s[0] = x[0];
  y[0] = s[0] + n + m + CEIL_DIV(n, 3);
}
struct Sum { __device__ float operator()(float a, float b) const { return a + b; } };
template <typename Op>
__global__ void reduce(const float* x, float* y, int64_t n) { y[0] = Op()(x[0], x[n - 1]); }
template <int BLOCK>
static void run(const float* x, float* y, int64_t n, int64_t m, cudaStream_t s) {
  softmax<BLOCK><<<dim3((unsigned)n), BLOCK, BLOCK / 32 * sizeof(float), s>>>(x, y, (int)n, m);
}
inline int next_pow2(int v) {
  int p = 1;
  while (p < v) p <<= 1;
  return p;
}
}  // namespace
extern "C" int64_t workspace_bytes(int64_t n, int64_t m) { return n * m * (int64_t)sizeof(float); }
extern "C" void kernel(const float* __restrict__ x, const int* ids, float* __restrict__ y, int64_t n, int64_t m,
                       void* workspace, cudaStream_t stream) {
  const int t = next_pow2(static_cast<int>(m));
  switch (t) {
    case 8: run<8>(x, y, n, m, stream); break;
    case 16: run<16>(x, y, n, m, stream); break;
    default: run<1024>(x, y, n, m, stream);
  }
  reduce<Sum><<<CEIL_DIV(n, THREADS), THREADS, 0, stream>>>(x, (float*)workspace, n);
  (void)ids;
}
)",
    // extern "C", constants, aliases, enumerations, a device helper that the host shares
    R"(#include <cstdint>
typedef float scalar;
using index_t = int;
constexpr int squares(int a) { return a * a; }
constexpr int K = squares(4), L = K > 3 ? 7 : 8;
enum class Mode : int { a = 1, b };
template <class T> struct Pair { T a, b; };
__host__ __device__ inline int twice(int a) { return 2 * a; }
template <Mode M, int N = K, typename U = Pair<int>> __global__ void moded(float* p) { p[0] = (int)M + N + sizeof(U); }
extern "C" {
__global__ void k(const scalar* x, scalar y[], index_t n, const index_t m) { y[0] = x[0] + n + twice(m) + K; }
__global__ static void pairs(Pair<float>* p, const unsigned char* q, unsigned long long r) { p->a = q[r]; }
void kernel(const scalar* x, const int32_t* ids, scalar* y, int64_t n, int64_t m, void* w, cudaStream_t st) {
  k<<<twice(1), K, 0, st>>>(x, y, n, L);
  pairs<<<1, 1, 0, st>>>(reinterpret_cast<Pair<float>*>(w), (unsigned char*)w, n);
  moded<Mode::b><<<1, 1, 0, st>>>(y);
  moded<Mode::a, L, Pair<float>><<<1, 1, 0, st>>>(y);
  moded<Mode::a, 1 << 4><<<1, 1, 0, st>>>(y);
}
}
)"};

}  // namespace

TEST_CASE("the device source keeps lines and columns") {
  for (const char* file : whole_files) {
    const std::string source = file;
    const auto plan = env::parse_launch_plan(source, test::plan_signature());
    REQUIRE_MESSAGE(plan.has_value(), (plan ? "" : env::to_string(plan.error())));
    const std::string& device = plan->device_source();
    REQUIRE(device.size() == source.size());
    std::size_t blanks = 0;
    for (std::size_t i = 0; i < source.size(); ++i) {
      if (source[i] == device[i]) continue;
      REQUIRE(device[i] == ' ');
      REQUIRE(source[i] != '\n');
      ++blanks;
    }
    CHECK(blanks > 300);
    CHECK(!test::contains(device, "cudaStream_t"));
    CHECK(!test::contains(device, "<<<"));
    CHECK(test::contains(device, "__global__"));
  }
}

TEST_CASE("the device source compiles and has every kernel that the plan names") {
  run_time_compiler compiler;
  if (!compiler.present()) return test::skip("NVRTC is not installed");
  std::vector<std::string> files(std::begin(whole_files), std::end(whole_files));
  files.push_back(test::plan_file(R"(
    tiled<BLOCK><<<1, 1, 0, stream>>>(x, y, n); tiled<TILE><<<1, 1, 0, stream>>>(x, y, n);
    typed<float4><<<1, 1, 0, stream>>>((const float4*)x, (float4*)y, n);
    typed<float, false><<<1, 1, 0, stream>>>(x, y, n);
    typed<<<1, 1, 0, stream>>>((unsigned long long*)workspace, (unsigned long long*)workspace, n);
    detail::fill<float, detail::WARPS><<<1, 1, 0, stream>>>(y, n);
    detail::fill<unsigned char, 3><<<1, 1, 0, stream>>>((uint8_t*)workspace, n);
    detail::inner<<<1, 1, 0, stream>>>(y); copy<<<1, 1, 0, stream>>>(x, y, n);)"));
  for (const std::string& file : files) {
    const auto plan = env::parse_launch_plan(file, test::plan_signature());
    REQUIRE_MESSAGE(plan.has_value(), (plan ? "" : env::to_string(plan.error())));
    CHECK(compiler.compile(plan->device_source(), plan->kernel_names()) == "");
  }
}
