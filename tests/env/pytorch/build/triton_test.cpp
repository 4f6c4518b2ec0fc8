// Triton kernels: learnt from a candidate and compiled for sm_90, without a GPU.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "base/file.hpp"
#include "base/json.hpp"
#include "env/lanes/pytorch/build/triton_builder.hpp"
#include "env/lanes/pytorch/recording_python.hpp"
#include "env/sandbox/child.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::test;
using triton_kind = env::compile_result::kind;

namespace {

struct triton_workshop {
  std::unique_ptr<env::spawner> children;
  base::temp_folder cache;
  std::unique_ptr<env::triton_builder> builder;
};

// None: no Python with torch and Triton here; the running case is skipped.
triton_workshop* triton_shared() {
  static std::unique_ptr<triton_workshop> only;
  if (only != nullptr) return only.get();
  auto children = env::spawner::create(env::sandbox_mode::best_effort);
  REQUIRE_MESSAGE(children.has_value(), (children ? "" : children.error().message));
  auto cache = base::temp_folder::make("quern-triton");
  REQUIRE(cache.has_value());
  env::triton_options options;
  options.cache_dir = cache->path();
  if (std::getenv("QUERN_PYTHON") == nullptr)
    options.python = source_dir() / ".venv-python/bin/python3";
  auto builder = env::triton_builder::create(**children, options);
  if (!builder) {
    REQUIRE_MESSAGE(builder.error().code == base::errc::not_found, builder.error().message);
    skip(builder.error().message);
    return nullptr;
  }
  only = std::make_unique<triton_workshop>(
      triton_workshop{std::move(*children), std::move(*cache), std::move(*builder)});
  return only.get();
}

env::triton_recording learnt(triton_workshop& with, const std::string& text) {
  auto recording = env::record_triton_kernels(
      *with.children, with.builder->python(), with.builder->scripts(), text, "[3.5]",
      R"([{"shape": [64, 32], "dtype": "float32"}, {"value": 2}])");
  REQUIRE_MESSAGE(recording.has_value(), (recording ? "" : recording.error().message));
  return *recording;
}

env::triton_result compiled(triton_workshop& with, const env::triton_kernel& kernel) {
  auto result = with.builder->build(kernel);
  REQUIRE_MESSAGE(result.has_value(), (result ? "" : result.error().message));
  return *result;
}

void change_last_byte(const std::filesystem::path& path) {
  std::filesystem::permissions(path, std::filesystem::perms(0644));
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(-1, std::ios::end);
  const char last = static_cast<char>(file.get() ^ 1);
  file.seekp(-1, std::ios::end);
  file.put(last);
}

// A candidate as models write them.
constexpr const char* triton_head = R"(
import torch, triton
import triton.language as tl
@triton.jit
def scaled(x_ptr, y_ptr, n, scale, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n) * scale, mask=at < n)
@triton.autotune(configs=[triton.Config({"BLOCK": 64}, num_warps=2), triton.Config({"BLOCK": 128})], key=["n"])
@triton.jit
def tuned(x_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + at, tl.load(x_ptr + at, mask=at < n) + 1, mask=at < n)
class ModelNew(torch.nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor(scale))
)";
constexpr const char* triton_forward = R"(
    def forward(self, x, times):
        assert x.is_cuda and x.device.type == "cuda" and torch.cuda.is_available()
        y = torch.empty_like(x, device="cuda")
        grid = lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)
        for _ in range(times):
            scaled[grid](x, y, x.numel(), self.scale.item(), BLOCK=64)
        scaled[grid](x, y[1:], x.numel() - 1, 2.0, BLOCK=64, num_warps=8)
        tuned[grid](y, y.numel())
        return y
)";

}  // namespace

TEST_CASE("a child of a warm Python learns the same kernels as a process of its own") {
  triton_workshop* with = triton_shared();
  if (with == nullptr) return;
  env::recording_python python(env::sandbox_mode::best_effort);
  const auto learnt_warm = [&](const std::string& text) {
    auto child = python.fork({});
    REQUIRE_MESSAGE(child.has_value(), (child ? "" : child.error().message));
    const auto job = env::triton_recorder_job(
        text, "[3.5]", R"([{"shape": [64, 32], "dtype": "float32"}, {"value": 2}])");
    REQUIRE(job.has_value());
    const auto lines = child->record_kernels(*job, {60, 120});
    REQUIRE_MESSAGE(lines.has_value(), (lines ? "" : lines.error().text));
    const auto recording = env::parse_triton_recording(*lines);
    REQUIRE_MESSAGE(recording.has_value(), (recording ? "" : recording.error().message));
    return *recording;
  };
  const std::string head = triton_head;
  for (const std::string& text :
       {head + triton_forward, head + "    def forward(self, x, times):\n        return x\n",
        head + "    def forward(self, x, times):\n        raise ValueError('no')\n"}) {
    const auto warm = learnt_warm(text);
    const auto own = learnt(*with, text);
    CHECK(warm.reason == own.reason);
    CHECK(warm.notes == own.notes);
    REQUIRE(warm.kernels.size() == own.kernels.size());
    for (std::size_t i = 0; i < warm.kernels.size(); ++i) {
      CHECK(with->builder->key_of(warm.kernels[i]) == with->builder->key_of(own.kernels[i]));
      CHECK(warm.kernels[i].launch_key == own.kernels[i].launch_key);
    }
  }
}

TEST_CASE("kernels of a candidate are learnt and become machine code for sm_90") {
  triton_workshop* with = triton_shared();
  if (with == nullptr) return;
  const auto recording = learnt(*with, std::string(triton_head) + triton_forward);
  CHECK_MESSAGE((recording.reason == env::triton_reason::none), recording.text);
  // scaled with a multiple of 16 and without, and the two configurations of tuned.
  REQUIRE(recording.kernels.size() == 4);
  REQUIRE(recording.notes.size() == 1);
  CHECK(contains(recording.notes[0], "autotune: 2 configurations of tuned"));
  CHECK(contains(recording.notes[0], "choice is made on the device"));
  CHECK(recording.kernels[0].options == "{}");
  CHECK(recording.kernels[1].options == R"({"num_warps":8})");
  CHECK(recording.kernels[0].signature == R"(["*fp32","*fp32","i32","fp32","constexpr"])");
  CHECK(contains(recording.kernels[0].ttir, "tt.divisibility"));

  const auto first = compiled(*with, recording.kernels[0]);
  REQUIRE_MESSAGE((first.outcome == triton_kind::built), first.text);
  CHECK_FALSE(first.cached);
  const auto file = base::read_file(first.artefact);
  REQUIRE(file.has_value());
  const auto kernel = env::read_triton_artefact(*file);
  REQUIRE_MESSAGE(kernel.has_value(), (kernel ? "" : kernel.error().message));
  CHECK(env::check_cubin(kernel->cubin).has_value());
  CHECK(contains(std::string(kernel->cubin), "scaled"));
  CHECK(contains(kernel->metadata, R"("num_warps":4)"));
  const auto launcher = base::read_file(first.launcher);
  REQUIRE(launcher.has_value());
  CHECK(contains(*launcher, "PyInit___triton_launcher"));
  CHECK(contains(*launcher, "libcuda.so.1"));

  // The same kernel is compiled once; another of the same signature has the same launcher.
  CHECK(compiled(*with, recording.kernels[0]).cached);
  const auto second = compiled(*with, recording.kernels[1]);
  REQUIRE_MESSAGE((second.outcome == triton_kind::built), second.text);
  CHECK(second.artefact != first.artefact);
  CHECK(second.launcher == first.launcher);

  // What was changed on the disk is not handed out.
  for (const auto& path : {first.artefact, first.launcher}) {
    change_last_byte(path);
    const auto again = compiled(*with, recording.kernels[0]);
    CHECK(again.repaired);
    CHECK_FALSE(again.cached);
    CHECK(base::read_file(again.artefact).value_or("") == *file);
    CHECK(base::read_file(again.launcher).value_or("") == *launcher);
    CHECK(compiled(*with, recording.kernels[0]).cached);
  }
}

TEST_CASE("what cannot be learnt has a name, and what was learnt before it stays") {
  triton_workshop* with = triton_shared();
  if (with == nullptr) return;
  const auto by_value = learnt(*with, std::string(triton_head) + R"(
    def forward(self, x, times):
        product[(1,)](x, x, x, 1024, B=256, num_stages=4)
        scaled[(int(x.sum().item()),)](x, x, x.numel(), 1.0, BLOCK=32)
@triton.jit
def product(a_ptr, b_ptr, c_ptr, K, B: tl.constexpr):
    m = tl.arange(0, 64)
    k = tl.arange(0, B)
    acc = tl.zeros((64, 64), dtype=tl.float32)
    for at in range(0, K, B):
        acc += tl.dot(tl.load(a_ptr + m[:, None] * K + (at + k)[None, :]),
                      tl.load(b_ptr + (at + k)[:, None] * 64 + m[None, :]))
    tl.store(c_ptr + m[:, None] * 64 + m[None, :], acc)
)");
  CHECK_MESSAGE((by_value.reason == env::triton_reason::data_dependent), by_value.text);
  REQUIRE(by_value.kernels.size() == 1);
  // Learnt, and more than a block of the device has: the candidate's error.
  const auto large = compiled(*with, by_value.kernels[0]);
  CHECK((large.outcome == triton_kind::error));
  CHECK(contains(large.text, "out of shared memory: 524288 bytes are needed"));
  CHECK(large.artefact.empty());
  const auto refused = learnt(*with, std::string(triton_head) + R"(
    def forward(self, x, times):
        broken[(1,)](x)
@triton.jit
def broken(x_ptr):
    tl.store(x_ptr, tl.no_such_function(x_ptr))
)");
  CHECK((refused.reason == env::triton_reason::kernel_refused));
  CHECK(contains(refused.text, "no_such_function"));
  CHECK(refused.kernels.empty());
}

TEST_CASE(
    "a text that is no kernel, and one that needs more than a block has, are its own errors") {
  triton_workshop* with = triton_shared();
  if (with == nullptr) return;
  env::triton_kernel kernel{"none", std::string(64, '0'), "module { no.such_thing }", "[]", "{}"};
  const auto result = compiled(*with, kernel);
  CHECK((result.outcome == triton_kind::error));
  CHECK_FALSE(result.text.empty());
  CHECK(result.artefact.empty());
}
