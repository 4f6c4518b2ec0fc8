// CUDA's compilers in the sandbox: what they make, what they refuse, what they cannot reach, and
// the file of device code.
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <sys/stat.h>

#include "base/file.hpp"
#include "base/program.hpp"
#include "base/random.hpp"
#include "env/lanes/cuda/build/cuda_compiler.hpp"
#include "env/lanes/cuda/build/device_code.hpp"
#include "env/lanes/cuda/screen/cuda_prelude.hpp"
#include "sandbox_fixture.hpp"

using namespace quern;
using namespace quern::test;
using env::cuda_form;
using build_kind = env::compile_result::kind;

namespace {

struct workshop {
  std::unique_ptr<env::spawner> children;
  base::temp_folder cache;
  std::unique_ptr<env::cuda_compiler> compiler;
};

// None: no toolkit here; says so.
std::unique_ptr<workshop> make_workshop(env::layer_set allowed = env::layer_set::all()) {
  const auto toolkit = env::find_cuda_toolkit();
  if (!toolkit) {
    skip(toolkit.error().message);
    return nullptr;
  }
  auto children = make_spawner(allowed);
  auto cache = base::temp_folder::make("quern-cuda-cache");
  REQUIRE(cache.has_value());
  auto made = env::cuda_compiler::create(*children, {.cache_dir = cache->path()});
  REQUIRE_MESSAGE(made.has_value(), (made ? "" : made.error().message));
  return std::make_unique<workshop>(
      workshop{std::move(children), std::move(*cache), std::move(*made)});
}

workshop* shared(cuda_form form) {
  static std::unique_ptr<workshop> only;
  if (only == nullptr) only = make_workshop();
  if (only == nullptr) return nullptr;
  if (only->compiler->can(form)) return only.get();
  skip("the toolkit has no compiler for this form");
  return nullptr;
}

env::compile_result compiled(env::cuda_compiler& with, const env::cuda_compile_request& request) {
  auto result = with.compile(request);
  REQUIRE_MESSAGE(result.has_value(), (result ? "" : result.error().message));
  return *result;
}

env::cuda_compile_request device(std::string source, std::vector<std::string> kernels) {
  env::cuda_compile_request request(cuda_form::device_only);
  request.source = std::move(source);
  request.kernels = std::move(kernels);
  return request;
}

env::cuda_compile_request host(std::string source) {
  env::cuda_compile_request request(cuda_form::host_entry);
  request.source = std::move(source);
  request.prototype =
      "extern \"C\" void kernel(const float* x, float* y, int64_t n, void* workspace, cudaStream_t "
      "stream);\nextern \"C\" int64_t workspace_bytes(int64_t n);\n";
  return request;
}

const std::string doubling =
    "template <int W, class T>\n"
    "__global__ void twice(const T* x, T* y, int64_t n) {\n"
    "  for (int64_t i = blockIdx.x * W + threadIdx.x; i < n; i += int64_t{W} * gridDim.x)\n"
    "    y[i] = 2 * x[i];\n"
    "}\n"
    "__global__ void clear(float* y) { y[threadIdx.x] = 0; }\n";

const std::string launching =
    doubling +
    "extern \"C\" void kernel(const float* x, float* y, int64_t n, void*, cudaStream_t stream) {\n"
    "  twice<256><<<128, 256, 0, stream>>>(x, y, n);\n}\n";

}  // namespace

TEST_CASE("device code: machine code and the symbols of its kernels, once") {
  workshop* shop = shared(cuda_form::device_only);
  if (shop == nullptr) return;
  const std::vector<std::string> names{"twice<256, float>", "twice<32, double>", "clear"};
  const auto first = compiled(*shop->compiler, device(doubling + "// first\n", names));
  REQUIRE_MESSAGE(first.outcome == build_kind::built, first.text);
  CHECK_FALSE(first.cached);
  const auto file = base::read_file(first.artefact);
  REQUIRE(file.has_value());
  const auto code = env::read_device_code(*file);
  REQUIRE_MESSAGE(code.has_value(), (code ? "" : code.error().message));
  CHECK(code->architecture == "sm_90a");
  REQUIRE(code->kernels.size() == 3);
  CHECK(code->kernels[0].name == "twice<256, float>");
  CHECK(contains(code->kernels[0].symbol, "twice"));
  CHECK(code->kernels[0].symbol != code->kernels[1].symbol);
  const std::string_view cubin = std::string_view(*file).substr(code->offset, code->bytes);
  CHECK(
      cubin.starts_with("\x7f"
                        "ELF"));
  for (const auto& kernel : code->kernels)
    CHECK(contains(cubin, kernel.symbol));

  const auto second = compiled(*shop->compiler, device("/* second */" + doubling, names));
  CHECK(second.cached);
  CHECK(second.artefact == first.artefact);
  auto other = device(doubling, names);
  other.architecture = "sm_80";
  CHECK(shop->compiler->key_of(other) != first.key);
  CHECK(compiled(*shop->compiler, other).outcome == build_kind::built);
  CHECK(shop->compiler->key_of(device(doubling, {"clear"})) != first.key);
  CHECK(contains(shop->compiler->version(), "NVRTC"));
}

TEST_CASE("device code: every header of the list compiles, also those that NVRTC lacks") {
  workshop* shop = shared(cuda_form::device_only);
  if (shop == nullptr) return;
  // Those that take seconds are tried by nvcc too; here one of them stands for all.
  for (const std::string_view header : env::cuda_headers()) {
    if ((header.starts_with("cuda/") && header != "cuda/barrier") || header.ends_with('/'))
      continue;
    CAPTURE(header);
    const std::string line = "#include <" + std::string(header) + ">\n";
    const auto result = compiled(*shop->compiler, device(line + line + doubling, {"clear"}));
    CHECK_MESSAGE(result.outcome == build_kind::built, result.text);
  }
  // All together, and with CUDA's own versions behind ours.
  std::string all;
  for (const auto& [name, text] : env::nvrtc_headers())
    all += "#include <" + name + ">\n";
  all += "#include <cuda/std/cstdint>\n#include <cuda/std/climits>\n#include <cuda/std/cfloat>\n";
  all +=
      "__global__ void uses(float* y, int64_t n) {\n"
      "  static_assert(std::is_same_v<std::remove_cv_t<const int>, int> && sizeof(int64_t) == 8);\n"
      "  float v = -std::numeric_limits<float>::infinity();\n"
      "  v = std::max(v, std::exp(y[0]) + FLT_MAX + INFINITY + float(INT32_MAX) + float(M_PI));\n"
      "  if (std::isnan(v) || n > std::numeric_limits<int64_t>::max() - 1) v = NAN;\n"
      "  float w = std::min(v, 1.0f); std::swap(v, w); y[0] = std::move(v);\n}\n";
  const auto result = compiled(*shop->compiler, device(all, {"uses"}));
  CHECK_MESSAGE(result.outcome == build_kind::built, result.text);
}

TEST_CASE("device code: half, bfloat16, cooperative groups and tensor cores without an include") {
  workshop* shop = shared(cuda_form::device_only);
  if (shop == nullptr) return;
  const auto small = compiled(*shop->compiler,
                              device("__global__ void f(__half* a, __nv_bfloat16* b) {\n"
                                     "  a[0] = __hadd(a[0], a[1]); b[0] = __hmul(b[0], b[1]); }\n",
                                     {"f"}));
  CHECK_MESSAGE(small.outcome == build_kind::built, small.text);
  const auto groups =
      compiled(*shop->compiler,
               device("#include <cooperative_groups.h>\n#include <cooperative_groups/reduce.h>\n"
                      "namespace cg = cooperative_groups;\n"
                      "__global__ void f(float* y) {\n"
                      "  auto warp = cg::tiled_partition<32>(cg::this_thread_block());\n"
                      "  float s = cg::reduce(warp, y[threadIdx.x], cg::plus<float>());\n"
                      "  cg::this_grid().sync();\n  if (warp.thread_rank() == 0) y[0] = s;\n}\n",
                      {"f"}));
  CHECK_MESSAGE(groups.outcome == build_kind::built, groups.text);
  CHECK(groups.ms < 3000);  // 0.1 s; with <cuda/atomic>, which it would draw in, 1.5 s
  const auto wmma =
      compiled(*shop->compiler,
               device("#include <mma.h>\nusing namespace nvcuda;\n"
                      "__global__ void f(const __half* a, const __half* b, float* c) {\n"
                      "  wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> fa;\n"
                      "  wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> fb;\n"
                      "  wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;\n"
                      "  wmma::fill_fragment(fc, 0.0f); wmma::load_matrix_sync(fa, a, 16);\n"
                      "  wmma::load_matrix_sync(fb, b, 16); wmma::mma_sync(fc, fa, fb, fc);\n"
                      "  wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);\n}\n",
                      {"f"}));
  CHECK_MESSAGE(wmma.outcome == build_kind::built, wmma.text);
}

TEST_CASE("device code: errors come with the candidate's own lines, and are not kept") {
  workshop* shop = shared(cuda_form::device_only);
  if (shop == nullptr) return;
  const auto wrong =
      compiled(*shop->compiler, device("__global__ void f() {}\n\nint broken(;\n", {"f"}));
  CHECK(wrong.outcome == build_kind::error);
  CHECK(contains(wrong.text, "kernel.cu(3)"));
  CHECK_FALSE(contains(wrong.text, "nvrtc"));
  // A kernel that is not there is the candidate's mistake too.
  const auto missing = compiled(*shop->compiler, device(doubling, {"not_there"}));
  CHECK(missing.outcome == build_kind::error);
  CHECK(contains(missing.text, "not_there"));
  auto large = device("__device__ char big[300 << 20] = {1};\n" + doubling, {"clear"});
  large.wall_s = 5;
  CHECK(compiled(*shop->compiler, large).outcome != build_kind::built);
  const auto zero = compiled(*shop->compiler, device(std::string("int a;\0 b", 9), {}));
  CHECK(zero.outcome == build_kind::error);
  CHECK(contains(zero.text, "zero byte"));
  CHECK_FALSE(shop->compiler->compile(device(doubling, {"a\tb"})).has_value());
  auto unknown = device(doubling, {"clear"});
  unknown.architecture = "sm_90a;rm";
  CHECK_FALSE(shop->compiler->compile(unknown).has_value());
}

TEST_CASE("device code: time is bounded, and the compiler sees nothing of the host") {
  workshop* shop = shared(cuda_form::device_only);
  if (shop == nullptr) return;
  auto slow = device(
      "template <int N, int M> struct f { static constexpr int v = f<N - 1, M>::v + f<N - 1, M + "
      "(1 << N)>::v; };\ntemplate <int M> struct f<0, M> { static constexpr int v = M; };\n"
      "__global__ void g(int* y) { *y = f<24, 0>::v; }\n",
      {"g"});
  slow.wall_s = 1;
  CHECK(compiled(*shop->compiler, slow).outcome == build_kind::timeout);

  const auto secret = base::temp_folder::make("quern-secret");
  REQUIRE(secret.has_value());
  const std::string file = (secret->path() / "answers").string();
  REQUIRE(base::write_file_atomic(file, "int answer = 42;\n").has_value());
  chmod(secret->path().c_str(), 0755);
  chmod(file.c_str(), 0644);
  const auto try_both = [&](env::cuda_compiler& compiler, const std::string& path) {
    CAPTURE(path);
    const auto taken =
        compiled(compiler, device("#include \"" + path + "\"\n" + doubling, {"clear"}));
    CHECK(taken.outcome == build_kind::error);
    CHECK_FALSE(contains(taken.text, "root:"));
    if (!compiler.can(cuda_form::host_entry)) return skip("the toolkit has no nvcc");
    const auto host_taken = compiled(compiler, host("#include \"" + path + "\"\n" + launching));
    CHECK(host_taken.outcome == build_kind::error);
    CHECK_FALSE(contains(host_taken.text, "root:"));
    const auto assembled =
        compiled(compiler, host("asm(\".incbin \\\"" + path + "\\\"\");\n" + launching));
    CHECK(assembled.outcome == build_kind::error);
  };
  for (const std::string& path : {file, std::string("/etc/passwd")})
    try_both(*shop->compiler, path);
  if (host_has({env::layer::landlock}, "the compilers' view of files by Landlock alone")) {
    env::layer_set allowed = env::layer_set::all();
    allowed.remove(env::layer::mountns);
    const auto alone = make_workshop(allowed);
    CHECK(compiled(*alone->compiler, device(doubling, {"clear"})).outcome == build_kind::built);
    try_both(*alone->compiler, file);
  }
}

TEST_CASE("host entry: a shared object with the entry, and errors on the candidate's lines") {
  workshop* shop = shared(cuda_form::host_entry);
  if (shop == nullptr) return;
  const auto built = compiled(*shop->compiler, host(launching));
  REQUIRE_MESSAGE(built.outcome == build_kind::built, built.text);
  std::printf("nvcc in the sandbox: %lld ms\n", static_cast<long long>(built.ms));
  void* library = dlopen(built.artefact.c_str(), RTLD_NOW | RTLD_LOCAL);
  REQUIRE_MESSAGE(library != nullptr, std::string(dlerror()));
  CHECK((dlsym(library, "kernel") != nullptr));
  dlclose(library);
  CHECK(contains(built.argv[0], "nvcc"));
  CHECK(compiled(*shop->compiler, host("// again\n" + launching)).cached);

  const auto wrong = compiled(*shop->compiler, host(launching + "int broken(;\n"));
  CHECK(wrong.outcome == build_kind::error);
  CHECK(contains(wrong.text, "kernel.cu(10)"));
  CHECK(compiled(*shop->compiler, host(doubling)).outcome == build_kind::error);  // no entry
  const auto prototype = compiled(
      *shop->compiler, host("extern \"C\" int kernel(const float*, float*, int64_t, void*, "
                            "cudaStream_t) { return 0; }"));
  CHECK(prototype.outcome == build_kind::error);
  const auto half =
      compiled(*shop->compiler,
               host("__global__ void h(__half* x) { x[0] = __float2half(1.f); }\n" + launching));
  CHECK_MESSAGE(half.outcome == build_kind::built, half.text);
}

TEST_CASE("how long compiling takes") {
  workshop* shop = shared(cuda_form::device_only);
  if (shop == nullptr) return;
  for (const std::string extra : {"", "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n",
                                  "#include <cooperative_groups.h>\n", "#include <mma.h>\n"}) {
    std::int64_t best = 1 << 20;
    for (int turn = 0; turn < 3; ++turn) {
      const auto result = compiled(
          *shop->compiler,
          device(extra + doubling + "__constant__ int turn" + std::to_string(turn) + " = 1;\n",
                 {"twice<256, float>"}));
      REQUIRE_MESSAGE(result.outcome == build_kind::built, result.text);
      best = std::min(best, result.ms);
    }
    std::printf("NVRTC in the sandbox, from start to end: %lld ms with '%s'\n",
                static_cast<long long>(best), extra.c_str());
    CHECK(best < 5000);  // 0.06 to 0.15 s on an idle machine
  }
}

TEST_CASE("a toolkit is found where it is, and what is missing is said") {
  CHECK(env::is_cuda_architecture("sm_90a"));
  CHECK_FALSE(env::is_cuda_architecture("sm_9"));
  CHECK_FALSE(env::is_cuda_architecture(""));
  CHECK(env::cuda_architecture_for(9, 0) == "sm_90a");
  CHECK(env::cuda_architecture_for(8, 6) == "sm_86");
  CHECK(env::cuda_architecture_for(1, 0) == "");

  const auto folder = base::temp_folder::make("quern-toolkit");
  REQUIRE(folder.has_value());
  const auto empty = env::find_cuda_toolkit(folder->path());
  REQUIRE_FALSE(empty.has_value());
  CHECK(empty.error().code == base::errc::not_found);
  CHECK(contains(empty.error().message, "cuda_runtime.h"));
  // As the wheels of PyPI lie: headers and NVRTC, no nvcc.
  for (const char* part : {"include", "lib"})
    REQUIRE(base::make_folders(folder->path() / part).has_value());
  REQUIRE(base::write_file_atomic(folder->path() / "include/cuda_runtime.h", "").has_value());
  CHECK_FALSE(env::find_cuda_toolkit(folder->path()).has_value());
  for (const char* name :
       {"libnvrtc.so.13", "libnvrtc-builtins.so.13.0", "libnvrtc.alt.so.13", "libother.so"})
    REQUIRE(base::write_file_atomic(folder->path() / "lib" / name, "").has_value());
  const auto found = env::find_cuda_toolkit(folder->path());
  REQUIRE_MESSAGE(found.has_value(), (found ? "" : found.error().message));
  CHECK(found->nvcc.empty());
  CHECK(found->nvrtc.filename() == "libnvrtc.so.13");
  CHECK(found->nvrtc_files().size() == 2);
  CHECK(found->include_folders().size() == 1);
}

TEST_CASE("a file of device code is read as it was written") {
  env::device_code what{"sm_90a", {{"f<int, 3>", "_Z1fIiLi3EEvv"}, {"g", "g"}}, 0, 0};
  const std::string code(
      "\x7f"
      "ELF\n\0code 5\n",
      13);
  const auto file = env::write_device_code(what, code);
  REQUIRE(file.has_value());
  const auto read = env::read_device_code(*file);
  REQUIRE_MESSAGE(read.has_value(), (read ? "" : read.error().message));
  CHECK(read->kernels == what.kernels);
  CHECK(read->architecture == "sm_90a");
  CHECK(std::string_view(*file).substr(read->offset, read->bytes) == code);

  CHECK(env::read_device_code("quern_device_code 2\n").error().code == base::errc::version);
  for (const std::string& broken :
       {std::string(), *file + "x", file->substr(0, file->size() - 1), "x" + *file})
    CHECK(env::read_device_code(broken).error().code == base::errc::corrupt);
  what.kernels[0].name = "a\nb";
  CHECK_FALSE(env::write_device_code(what, code).has_value());
  what.kernels.assign(env::most_device_kernels + 1, {"a", "b"});
  CHECK_FALSE(env::write_device_code(what, code).has_value());
}

TEST_CASE("any bytes get an answer from the reader of device code") {
  const env::device_code what{"sm_90a", {{"f<int, 3>", "_Z1fIiLi3EEvv"}, {"g", "g"}}, 0, 0};
  const auto whole = env::write_device_code(what, "0123456789");
  REQUIRE(whole.has_value());
  base::random_stream random(29, "device code", {0});
  int read_well = 0;
  for (int i = 0; i < 50000; ++i) {
    std::string file = *whole;
    for (std::uint64_t k = 1 + random.below(3); k > 0 && !file.empty(); --k) {
      const std::uint64_t at = random.below(file.size());
      switch (random.below(4)) {
        case 0:
          file[at] = static_cast<char>(random.below(256));
          break;
        case 1:
          file.erase(at, 1 + random.below(4));
          break;
        case 2:
          file.insert(at, file.substr(random.below(file.size()), 1 + random.below(8)));
          break;
        default:
          file[at] = "0123456789\n\t"[random.below(12)];
      }
    }
    const auto read = env::read_device_code(file);
    if (!read) continue;
    ++read_well;
    REQUIRE(read->offset + read->bytes == file.size());
    // What is read can be written, and is then the same bytes.
    REQUIRE(env::write_device_code(*read, file.substr(read->offset)) == file);
  }
  CHECK(read_well > 0);
}
