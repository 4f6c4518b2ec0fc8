// Attacks of tests/hostile/cuda on their host: their control is that the attempt is made, where
// nothing but namespaces of its own holds it. No device is needed: the host code is compiled as
// C++, and kernels run on the processor.
#include <filesystem>
#include <string>
#include <string_view>

#include <unistd.h>

#include "attempt_trace.hpp"
#include "base/json.hpp"
#include "env/lanes/cpp/build/cpp_compiler.hpp"
#include "sandbox_fixture.hpp"

using namespace quern;
using namespace quern::test;
using env::layer;

namespace {

const std::filesystem::path hostile_cuda = source_dir() / "tests/hostile/cuda";

/// What the host code of the candidates sees of CUDA. A launch is a call: one thread of one block.
const std::string little_cuda = R"(
#include <cstring>
#define __global__ static
struct place { unsigned x, y, z; };
static const place gridDim = {1, 1, 1}, blockDim = {1, 1, 1}, blockIdx = {0, 0, 0}, threadIdx = {0, 0, 0};
typedef void* cudaStream_t;
static inline int cudaStreamSynchronize(cudaStream_t) { return 0; }
static inline int cudaMemsetAsync(void* p, int value, size_t bytes, cudaStream_t) {
  memset(p, value, bytes);
  return 0;
}
)";

/// As C++. A file that it leaves lies in the only folder that a child has, which goes with it.
std::string as_cpp(std::string text) {
  for (std::size_t at = 0; (at = text.find("<<<", at)) != std::string::npos;)
    text.erase(at, text.find(">>>", at) + 3 - at);
  constexpr std::string_view shared = "/tmp/quern-hostile";
  for (std::size_t at = 0; (at = text.find(shared, at)) != std::string::npos;)
    text.erase(at, std::string_view("/tmp/").size());
  return little_cuda + text;
}

constexpr int processes = 64;

}  // namespace

TEST_CASE(
    "attacks of lane cuda on the host are made where namespaces alone hold them, and not "
    "behind filter and locks") {
  if (!host_has({layer::pidns, layer::netns, layer::ipcns, layer::mountns, layer::foreign_uid,
                 layer::landlock, layer::seccomp},
                "attempts of hostile candidates"))
    return;
  if (geteuid() != 0) {
    skip("tracing a child that is another user needs root");
    return;
  }
  const auto guarded = make_spawner();
  auto layers = env::layer_set::all();
  layers.remove(layer::seccomp);
  const auto children = make_spawner(layers);
  const auto cache = base::temp_folder::make("quern-cache");
  REQUIRE(cache.has_value());
  auto compiler = env::cpp_compiler::create(*guarded, {.cache_dir = cache->path()});
  REQUIRE_MESSAGE(compiler.has_value(), (compiler ? "" : compiler.error().message));
  const auto manifest =
      base::parse_json(base::read_file(hostile_cuda / "manifest.json").value()).value();
  struct attack {
    std::string file, call;
    env::cpp_compile_request request;
  };
  std::vector<attack> attacks;
  std::vector<env::cpp_compile_request> requests;
  for (const auto& c : manifest.at("candidates")) {
    if (!c.contains("attempt")) continue;
    attack one{c.at("file").get<std::string>(), c.at("attempt").get<std::string>(), {}};
    one.request.source = as_cpp(base::read_file(hostile_cuda / one.file).value());
    one.request.prototype =
        "extern \"C\" void kernel(const float* x, float* y, int64_t n, void* workspace, void* "
        "stream);\n";
    requests.push_back(one.request);
    attacks.push_back(std::move(one));
  }
  CHECK(attacks.size() >= 11);
  compile_all(**compiler, requests);
  for (const auto& [file, call, request] : attacks) {
    CAPTURE(file);
    const auto built = (*compiler)->compile(request);
    REQUIRE_MESSAGE(built.has_value(), (built ? "" : built.error().message));
    REQUIRE_MESSAGE(built->outcome == env::compile_result::kind::built, built->text);
    const auto open = trace_deed(*children, "call", built->artefact.string(),
                                 env::syscall_profile::gpu, processes);
    REQUIRE_MESSAGE(open.problem.empty(), open.problem);
    CHECK_MESSAGE(was_made(open, call), call, " was not seen; at the end: ", open.last_call);
    const auto locked = trace_deed(*guarded, "call-locked", built->artefact.string(),
                                   env::syscall_profile::gpu, processes);
    CHECK_MESSAGE(!was_made(locked, call), call, " was made in spite of filter and locks");
  }
  CHECK(deeds_still_running().empty());
  CHECK(control_groups_left().empty());
  for (const auto& path : manifest.at("must_not_exist"))
    CHECK_FALSE(std::filesystem::exists(path.get<std::string>()));
}
