// From the text of a candidate of lane cuda to what runs: forms, what a suite allows, and what is
// built another way because NVRTC cannot.
#include <string>

#include "base/file.hpp"
#include "env/lanes/cuda/build.hpp"
#include "env/lanes/cuda/screen/cuda_screen.hpp"
#include "env/task/task_codec.hpp"
#include "sandbox_fixture.hpp"

using namespace quern;
using namespace quern::test;
using env::cuda_form;

namespace {

struct builder {
  std::unique_ptr<env::spawner> children;
  base::temp_folder cache;
  std::unique_ptr<env::cuda_compiler> compiler;
  env::shared_compilation shared;
};

// None: no toolkit with both compilers here; says so.
builder* one_builder() {
  const auto toolkit = env::find_cuda_toolkit();
  if (!toolkit || toolkit->nvrtc.empty() || toolkit->nvcc.empty()) {
    skip(toolkit ? "NVRTC or nvcc is missing" : toolkit.error().message);
    return nullptr;
  }
  static const std::unique_ptr<builder> only = [] {
    auto children = make_spawner(env::layer_set::all());
    auto cache = base::temp_folder::make("quern-build-test").value();
    auto compiler = env::cuda_compiler::create(*children, {.cache_dir = cache.path()}).value();
    return std::unique_ptr<builder>(
        new builder{std::move(children), std::move(cache), std::move(compiler), {}});
  }();
  return only.get();
}

env::task task_named(const std::string& name) {
  return env::load_task(source_dir() / "env/suites/cuda_quick" / (name + ".task.yaml")).value();
}

std::string honest(const std::string& name) {
  return base::read_file(source_dir() / "tests/honest/cuda" / name).value();
}

env::build_result build(builder& with, const std::string& task, const std::string& source,
                        const env::cuda_policy& policy) {
  return env::build_candidate(*with.compiler, with.shared, task_named(task), source, "sm_90a",
                              policy);
}

/// A plan could be read of it, but Thrust's host side is nothing for NVRTC.
constexpr const char* with_thrust = R"(
#include <cub/block/block_reduce.cuh>
#include <thrust/device_vector.h>
__global__ void sums(const float* x, float* y, int64_t m) {
  using reduce = cub::BlockReduce<float, 256>;
  __shared__ typename reduce::TempStorage storage;
  float mine = 0;
  for (int64_t j = threadIdx.x; j < m; j += 256) mine += x[blockIdx.x * m + j];
  const float sum = reduce(storage).Sum(mine);
  if (threadIdx.x == 0) y[blockIdx.x] = sum;
}
extern "C" void kernel(const float* x, float* y, int64_t n, int64_t m, void* workspace, cudaStream_t stream) {
  sums<<<n, 256, 0, stream>>>(x, y, m);
}
)";

}  // namespace

TEST_CASE("a plan whose headers NVRTC does not compile is built by nvcc, where host code may be") {
  builder* with = one_builder();
  if (with == nullptr) return;
  const auto built = build(*with, "row_sum", with_thrust, {.host_entry = true});
  INFO(built.outcome.detail << "\n" << (built.compiled ? built.compiled->text : ""));
  REQUIRE(built.built.has_value());
  CHECK(built.built->form == cuda_form::host_entry);
  CHECK_FALSE(built.built->plan.has_value());
  CHECK(contains(built.no_plan, "built by nvcc"));

  const auto refused = build(*with, "row_sum", with_thrust, {.host_entry = false});
  CHECK_FALSE(refused.built.has_value());
  CHECK(refused.outcome.kind == env::verdict_kind::compile_error);
  CHECK(refused.no_plan.empty());
}

TEST_CASE("an ordinary mistake is told by NVRTC and costs no second compilation") {
  builder* with = one_builder();
  if (with == nullptr) return;
  std::string source = honest("row_sum.split_atomics.cu");
  source += "__global__ void broken(float* y) { y[0] = not_there; }\n";
  const auto built = build(*with, "row_sum", source, {.host_entry = true});
  CHECK_FALSE(built.built.has_value());
  CHECK(built.outcome.kind == env::verdict_kind::compile_error);
  CHECK(contains(built.outcome.detail, "not_there"));
  CHECK(built.no_plan.empty());
}

TEST_CASE("a suite for the device-only form refuses others with a verdict that says so") {
  builder* with = one_builder();
  if (with == nullptr) return;
  const auto source = honest("column_sum.malloc_async.cu");
  const auto refused = build(*with, "column_sum", source, {.host_entry = false});
  CHECK(refused.outcome.kind == env::verdict_kind::rejected_static);
  CHECK(refused.outcome.reason == "host_entry");
  CHECK(contains(refused.outcome.detail, "policy: host_entry is off"));
  CHECK(build(*with, "column_sum", source, {.host_entry = true}).built.has_value());
  CHECK(build(*with, "row_sum", honest("row_sum.split_atomics.cu"), {.host_entry = false})
            .built.has_value());
}

TEST_CASE("cuBLAS where the suite allows library calls, and nowhere else") {
  builder* with = one_builder();
  if (with == nullptr) return;
  const auto libraries = with->compiler->toolkit().library_folder();
  if (!std::filesystem::exists(libraries / "libcublas.so")) {
    skip("the toolkit has no cuBLAS in " + libraries.string());
    return;
  }
  struct row {
    const char *task, *file;
  };
  for (const auto& [task, file] : {row{"matmul_small", "matmul_small.cublas.cu"},
                                   row{"matmul_bf16", "matmul_bf16.cublas_kept.cu"}}) {
    CAPTURE(file);
    const auto source = honest(file);
    const auto refused = env::screen_cuda(source, {.library_calls = false, .graphs = true});
    REQUIRE(refused.has_value());
    const auto passed = env::screen_cuda(source, {.library_calls = true, .graphs = true});
    INFO((passed ? passed->text : ""));
    CHECK_FALSE(passed.has_value());
    const auto built = build(*with, task, source, {.host_entry = true, .library_calls = true});
    INFO(built.outcome.detail);
    REQUIRE(built.built.has_value());
    CHECK(built.built->calls_libraries);
    // Without the screen the linker still has no library to give.
    const auto unlinked = build(*with, task, source, {.host_entry = true, .library_calls = false});
    CHECK(unlinked.outcome.kind == env::verdict_kind::compile_error);
  }
  const auto plain =
      build(*with, "column_sum", honest("column_sum.malloc_async.cu"), {.library_calls = true});
  REQUIRE(plain.built.has_value());
  CHECK_FALSE(plain.built->calls_libraries);
}

TEST_CASE("the name of a library among its texts does not give a candidate its process") {
  builder* with = one_builder();
  if (with == nullptr) return;
  const auto folder = source_dir() / "tests/hostile/cuda";
  const auto task = env::load_task(folder / "affine.task.yaml").value();
  const auto source = base::read_file(folder / "host/names_a_library.cu").value();
  for (const bool allowed : {false, true}) {
    CAPTURE(allowed);
    const auto r = env::build_candidate(*with->compiler, with->shared, task, source, "sm_90a",
                                        {.host_entry = true, .library_calls = allowed});
    INFO(r.outcome.detail << "\n" << (r.compiled ? r.compiled->text : ""));
    REQUIRE(r.built.has_value());
    // The compiler has kept it, and it counts for nothing.
    CHECK(contains(base::read_file(r.built->compiled.artefact, 64 << 20).value(), "libcublas.so"));
    CHECK_FALSE(r.built->calls_libraries);
  }
}

TEST_CASE("a candidate with streams of its own gets a process with all hardware queues") {
  const auto queues = [](const char* file) { return env::queues_for(honest(file)); };
  for (const char* file : {"attention.streams_by_batch.cu", "transpose.graph_cached.cu",
                           "layer_norm.two_streams.cu", "matmul_small.cublas.cu"}) {
    CAPTURE(file);
    CHECK(queues(file) == env::work_queues::all);
  }
  for (const char* file :
       {"column_sum.malloc_async.cu", "swiglu_bf16.strided_launches.cu", "row_sum.cub_block.cu"}) {
    CAPTURE(file);
    CHECK(queues(file) == env::work_queues::one);
  }
  CHECK(env::queues_for("// cudaStreamCreate\nvoid kernel() {}") == env::work_queues::one);
  for (const char* hidden :
       {"#define M(a, b) a##b\nvoid f() { M(cudaStream, Create)(0); }",
        "void f() { auto s = (cudaStream_t)2; }", "void f() { dlsym(nullptr, \"x\"); }",
        "extern \"C\" int g() __asm__(\"cuStreamCreate\");", "void f() { cudaSomethingNew(); }"}) {
    CAPTURE(hidden);
    CHECK(env::queues_for(hidden) == env::work_queues::all);
  }
}

TEST_CASE("what a kernel was compiled to is known of plans") {
  builder* with = one_builder();
  if (with == nullptr) return;
  const auto built = build(*with, "row_sum", honest("row_sum.split_atomics.cu"), {});
  REQUIRE(built.built.has_value());
  REQUIRE(built.built->resources.size() >= 1);
  CHECK(built.built->resources.front().registers > 0);
  CHECK(built.built->resources.front().registers <= 255);
}

TEST_CASE("a plan whose kernels take memory of the device's heap is not built") {
  builder* with = one_builder();
  if (with == nullptr) return;
  const auto text = [](const char* takes) {
    return fmt::format(R"(
__global__ void sums(const float* x, float* y, int64_t m) {{
  float mine = 0;
  for (int64_t j = 0; j < m; ++j) mine += x[blockIdx.x * m + j];
  float* at = {};
  at[0] = mine;
  y[blockIdx.x] = at[0];
}}
extern "C" void kernel(const float* x, float* y, int64_t n, int64_t m, void* workspace, cudaStream_t stream) {{
  sums<<<n, 1, 0, stream>>>(x, y, m);
}}
)",
                       takes);
  };
  // Spelt so that no screen of the text sees it.
  const auto hidden =
      build(*with, "row_sum", "#define JOIN(a, b) a##b\n" + text("(float*)JOIN(mal, loc)(64)"),
            {.host_entry = true});
  const auto aligned =
      build(*with, "row_sum", text("(float*)__nv_aligned_device_malloc(64, 16)"), {});
  for (const auto* refused : {&hidden, &aligned}) {
    CHECK_FALSE(refused->built.has_value());
    CHECK(refused->outcome.kind == env::verdict_kind::compile_error);
    CHECK(contains(refused->outcome.detail, "heap"));
  }
  const auto fine = build(*with, "row_sum", text("y + blockIdx.x"), {.host_entry = true});
  INFO(fine.outcome.detail);
  CHECK(fine.built.has_value());
}
