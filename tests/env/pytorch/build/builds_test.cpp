// Builds of extensions: what becomes of a request, and that Python can use it.
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/program.hpp"
#include "env/build/tool.hpp"
#include "env/lanes/pytorch/build/extension_builder.hpp"
#include "env/lanes/pytorch/build/extension_recording.hpp"
#include "env/sandbox/child.hpp"
#include "samples.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::test;
using build_kind = env::compile_result::kind;
using route = env::extension_result::route;

namespace {

// One builder for all cases: its support object takes seconds.
struct workshop {
  std::unique_ptr<env::spawner> children;
  base::temp_folder cache;
  env::python_torch python;
  std::string scripts;
  std::unique_ptr<env::extension_builder> builder;
};

// None: no Python with torch here; the running case is skipped.
workshop* shared() {
  static std::unique_ptr<workshop> only;
  if (only != nullptr) return only.get();
  auto python = env::find_python_torch(std::getenv("QUERN_PYTHON") != nullptr
                                           ? ""
                                           : (source_dir() / ".venv-python/bin/python3").string());
  if (!python) {
    skip(python.error().message);
    return nullptr;
  }
  auto children = env::spawner::create(env::sandbox_mode::best_effort);
  REQUIRE_MESSAGE(children.has_value(), (children ? "" : children.error().message));
  auto cache = base::temp_folder::make("quern-extensions");
  REQUIRE(cache.has_value());
  const auto scripts = base::share_folder("env/lanes/pytorch/build");
  REQUIRE(scripts.has_value());
  env::extension_options options;
  options.cache_dir = cache->path();
  options.python = python->program;
  auto builder = env::extension_builder::create(**children, options);
  REQUIRE_MESSAGE(builder.has_value(), (builder ? "" : builder.error().message));
  only = std::make_unique<workshop>(workshop{std::move(*children), std::move(*cache),
                                             std::move(*python), scripts->string(),
                                             std::move(*builder)});
  return only.get();
}

env::extension_result built(workshop& with, const env::extension_request& request) {
  auto result = with.builder->build(request);
  REQUIRE_MESSAGE(result.has_value(), (result ? "" : result.error().message));
  return *result;
}

// Runs a text in a sandboxed Python that sees `folder` and the scripts; what it printed.
std::string by_python(workshop& with, const std::string& folder, const std::string& text) {
  env::child_spec spec = env::python_spec(with.python, {"-s", "-E", "-c", text, folder});
  spec.read_only.push_back(folder);
  spec.read_only.push_back(with.scripts);
  spec.env.push_back("QUERN_SCRIPTS=" + with.scripts);
  spec.out = spec.err = env::child_stream::captured();
  auto ran = env::run_tool(*with.children, spec);
  REQUIRE_MESSAGE(ran.has_value(), (ran ? "" : ran.error().message));
  CHECK_MESSAGE(ran->end.succeeded(), ran->end.text() << ran->err);
  return ran->out;
}

// A candidate as models write them: C++ only, so that it runs where no GPU is.
constexpr const char* candidate = R"(
import os, torch
from torch.utils.cpp_extension import load_inline
source = """
#include <torch/extension.h>
torch::Tensor scaled(torch::Tensor x, double by, bool twice) {
  TORCH_CHECK(x.dim() == 1, "one dimension is needed, got ", x.dim());
  auto y = torch::empty_like(x);
  for (int64_t i = 0; i < x.numel(); ++i)
    y.data_ptr<float>()[i] = x.data_ptr<float>()[i] * (twice ? 2 * by : by);
  return y + torch::zeros_like(x);
}
std::vector<torch::Tensor> parts(const std::vector<torch::Tensor>& all, c10::optional<torch::Tensor> more) {
  std::vector<torch::Tensor> made = {all[0], torch::relu(all[1])};
  if (more.has_value()) made.push_back(*more);
  return made;
}
"""
os.environ["CXX"] = "/tmp/evil"
print("noise")
module = load_inline(name="parts_of", cpp_sources=[source], functions=["scaled", "parts"], extra_cflags=["-O2"])
class ModelNew(torch.nn.Module):
    def forward(self, x):
        return module.scaled(x, 3, True)
)";

constexpr const char* use = R"(
import os, sys
sys.path.insert(0, os.environ["QUERN_SCRIPTS"])
import torch, built_extensions
built_extensions.install(sys.argv[1])
scope = {}
exec(open(os.path.join(sys.argv[1], "candidate.py")).read(), scope)
module = scope["module"]
def said(call, *values):
    try:
        return repr(call(*values))
    except Exception as error:
        return type(error).__name__ + ": " + str(error).split("\n")[0]
x = torch.tensor([1., -2.])
print(said(scope["ModelNew"](), x))
print(said(module.parts, [x, x], None))
print(said(module.parts, [x, x], x)[:15])
print(said(module.scaled, torch.ones(1, 1), 1.0, False))
print(said(module.scaled, x, "3", False).split("(")[0])
print(said(module.scaled, x.double(), 1, False))
from torch.utils.cpp_extension import load_inline
print(said(lambda: load_inline(name="parts_of", cpp_sources="int never;", functions=[])).split(" was")[0])
)";

void write(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path) << text;
}

}  // namespace

TEST_CASE("a candidate's extension is recorded, built by the slim route, and used in Python") {
  workshop* with = shared();
  if (with == nullptr) return;
  const auto recording =
      env::record_extensions(*with->children, with->python, with->scripts, candidate, "null");
  REQUIRE_MESSAGE(recording.has_value(), (recording ? "" : recording.error().message));
  CHECK_MESSAGE((recording->ending == env::extension_recording::end::imported), recording->text);
  REQUIRE(recording->requests.size() == 1);
  const auto& request = recording->requests[0];
  CHECK(request.name == "parts_of");
  const auto result = built(*with, request);
  REQUIRE_MESSAGE(result.outcome == build_kind::built, result.text << result.slim_text);
  CHECK_MESSAGE((result.by == route::slim), result.slim_text);
  CHECK(result.text == "");
  CHECK(result.core_s > 0);

  const auto again = built(*with, request);
  CHECK(again.cached);
  CHECK(again.artefact == result.artefact);

  auto folder = base::temp_folder::make("quern-modules");
  REQUIRE(folder.has_value());
  const auto file = result.artefact.filename();
  std::filesystem::copy_file(result.artefact, folder->path() / file);
  std::filesystem::permissions(folder->path(), std::filesystem::perms(0755));
  const auto json = base::parse_json(env::write_extension_request(request));
  REQUIRE(json.has_value());
  write(folder->path() / "candidate.py", candidate);
  write(folder->path() / "index.json",
        base::dump(base::json::array({{{"request", *json}, {"file", file.string()}}})));
  CHECK(by_python(*with, folder->path().string(), use) ==
        "noise\n"
        "tensor([  6., -12.])\n"
        "[tensor([ 1., -2.]), tensor([1., 0.])]\n"
        "[tensor([ 1., -\n"
        "RuntimeError: one dimension is needed, got 2\n"
        "TypeError: scaled\n"
        "RuntimeError: expected scalar type Float but found Double\n"
        "LateBuild: the extension 'parts_of'\n");
}

TEST_CASE("what fails with slim headers is built with torch's, or fails with the text of these") {
  workshop* with = shared();
  if (with == nullptr) return;
  // Casters of pybind11 are in torch's headers alone.
  auto with_casters =
      cpp_request("at::Tensor f(at::Tensor x, py::dict options) { return x + 1; }", {"f"});
  with_casters.cflags = {"-O0"};
  const auto full = built(*with, with_casters);
  REQUIRE_MESSAGE(full.outcome == build_kind::built, full.text);
  CHECK((full.by == route::full));
  CHECK(contains(full.slim_text, "error"));

  const auto wrong =
      built(*with, cpp_request("at::Tensor f(at::Tensor x) { return x.no_such_method(); }", {"f"}));
  CHECK((wrong.outcome == build_kind::error));
  CHECK(contains(wrong.text, "main.cpp:2"));
  CHECK(contains(wrong.text, "no_such_method"));
  CHECK_FALSE(contains(wrong.text, "quern"));
  CHECK(wrong.artefact.empty());
}

TEST_CASE("CUDA: a source with slim headers computes on CPU tensors what torch's would") {
  workshop* with = shared();
  if (with == nullptr) return;
  if (!with->builder->has_cuda()) {
    skip("there is no nvcc: run tools/setup.sh --cuda");
    return;
  }
  env::extension_request request;
  request.name = "cuda_parts";
  request.with_cuda = true;
  request.cuda_cflags = {"-O3", "--use_fast_math"};
  // The C++ file sees LibTorch's classes, the CUDA file ours: tensors, lists and optionals cross.
  request.cpp_sources = {
      "torch::Tensor twice(torch::Tensor x, torch::Tensor like);\n"
      "std::vector<torch::Tensor> views(const torch::Tensor& x, c10::IntArrayRef shape,\n"
      "                                 c10::optional<torch::Tensor> more);\n"
      "torch::Tensor launched(torch::Tensor x);\n"
      "std::vector<torch::Tensor> sums(torch::Tensor x);"};
  request.functions.emplace();
  for (const char* name : {"twice", "views", "launched", "sums"})
    request.functions->push_back({name, name});
  request.cuda_sources = {R"(#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
template <typename T> __global__ void double_kernel(const T* x, T* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] + x[i];
}
torch::Tensor twice(torch::Tensor x, torch::Tensor like) {
  auto y = torch::zeros(x.sizes(), like.options().dtype(x.scalar_type()));
  AT_DISPATCH_FLOATING_TYPES_AND_HALF(x.scalar_type(), "twice", ([&] {
    const scalar_t* from = x.data_ptr<scalar_t>();
    for (int64_t i = 0; i < x.numel(); ++i) y.data_ptr<scalar_t>()[i] = from[i] + from[i];
  }));
  return y;
}
std::vector<torch::Tensor> views(const torch::Tensor& x, c10::IntArrayRef shape,
                                 c10::optional<torch::Tensor> more) {
  auto full = torch::full({2}, 7, torch::dtype(torch::kInt64).device(x.device()));
  std::vector<torch::Tensor> all = {x.view(shape), x.t().contiguous(), full};
  if (more.has_value()) all.push_back(more.value() * x);
  return all;
}
std::vector<torch::Tensor> sums(torch::Tensor x) {
  auto changed = x.clone();
  changed *= 2;
  changed += x;
  changed -= 1;
  changed /= x;
  return {torch::sum(x, {1}, true), torch::mean(x, {0, 1}), 2.0 * x + 1, (x - 1) / 2, changed};
}
torch::Tensor launched(torch::Tensor x) {
  TORCH_CHECK(x.is_cuda(), "x must be on a device, is on ", x.device());
  auto y = torch::empty_like(x);
  double_kernel<float><<<1, 32, 0, at::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
  return y;
}
)"};
  const auto result = built(*with, request);
  REQUIRE_MESSAGE(result.outcome == build_kind::built, result.text << result.slim_text);
  CHECK_MESSAGE((result.by == route::slim), result.slim_text);
  const std::string use_cuda = R"(
import importlib.machinery, importlib.util, sys, torch
def load(path):
    loader = importlib.machinery.ExtensionFileLoader("cuda_parts", path)
    spec = importlib.util.spec_from_file_location("cuda_parts", path, loader=loader)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module
module = load(sys.argv[1])
x = torch.tensor([[1., 2., 3.], [4., 5., 6.]])
print(module.twice(x, x.long()).tolist())
print(module.twice(x.half(), x).dtype)
like = [x.sum(1, True), x.mean(), 2 * x + 1, (x - 1) / 2, (3 * x - 1) / x]
print([torch.equal(a, b) for a, b in zip(module.sums(x), like)])
print([(list(v.shape), v.dtype, v.flatten().tolist()) for v in module.views(x, [3, 2], x)])
for call in (lambda: module.twice(x.int(), x), lambda: module.launched(x), lambda: module.views(x, [4], None)):
    try:
        call()
    except Exception as error:
        print(type(error).__name__, str(error))
before = sys.getrefcount(x)
for _ in range(100):
    module.views(x, (6,), x)
print(sys.getrefcount(x) - before)
)";
  CHECK(by_python(*with, result.artefact.string(), use_cuda) ==
        "[[2.0, 4.0, 6.0], [8.0, 10.0, 12.0]]\n"
        "torch.float16\n"
        "[True, True, True, True, True]\n"
        "[([3, 2], torch.float32, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), "
        "([3, 2], torch.float32, [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]), "
        "([2], torch.int64, [7, 7]), "
        "([2, 3], torch.float32, [1.0, 4.0, 9.0, 16.0, 25.0, 36.0])]\n"
        "NotImplementedError \"twice\" not implemented for 'Int'\n"
        "RuntimeError x must be on a device, is on cpu\n"
        "RuntimeError shape '[4]' is invalid for input of size 6\n"
        "0\n");
}

TEST_CASE("CUDA: what both sets of headers refuse alike is compiled with torch's once, and told") {
  workshop* with = shared();
  if (with == nullptr) return;
  if (!with->builder->has_cuda()) {
    skip("there is no nvcc: run tools/setup.sh --cuda");
    return;
  }
  auto request = cpp_request("at::Tensor f(at::Tensor x) { return x.no_such_method(); }", {"f"});
  request.with_cuda = true;
  request.cuda_sources = {"__global__ void k(const float* x) { x[0] = 1; }"};
  const auto wrong = built(*with, request);
  CHECK((wrong.outcome == build_kind::error));
  CHECK(contains(wrong.text, "cuda.cu(4): error"));
  CHECK_FALSE(contains(wrong.text, "no_such_method"));
  CHECK(wrong.full_runs == 1);
}

TEST_CASE("C++ sources of the slim route have precompiled headers, or read them") {
  workshop* with = shared();
  if (with == nullptr) return;
  if (!with->children->layers().has(env::layer::mountns)) {
    skip("headers are precompiled only with mount namespaces");
    return;
  }
  auto folder = base::temp_folder::make("quern-headers");
  REQUIRE(folder.has_value());
  std::filesystem::permissions(folder->path(), std::filesystem::perms(0755));
  const auto headers = folder->path() / "headers";
  std::filesystem::copy(base::share_folder("env/lanes/pytorch/build/headers").value(), headers);
  env::extension_options options;
  options.cache_dir = folder->path() / "cache";
  options.python = with->python.program;
  options.headers = headers;
  options.full_route = false;
  options.headers_ahead = true;
  auto builder = env::extension_builder::create(*with->children, options);
  REQUIRE_MESSAGE(builder.has_value(), (builder ? "" : builder.error().message));
  options.headers_ahead = false;
  options.cache_dir = folder->path() / "plain";
  auto plain = env::extension_builder::create(*with->children, options);
  REQUIRE_MESSAGE(plain.has_value(), (plain ? "" : plain.error().message));
  const auto request_of = [](const std::string& flag) {
    auto request = cpp_request(
        "at::Tensor f(at::Tensor x) { TORCH_CHECK(x.dim() == 1, \"not \", x.dim()); return x + 1; "
        "}",
        {"f"});
    if (!flag.empty()) request.cflags = {flag};
    return request;
  };
  const auto built_by = [&](env::extension_builder& one, const std::string& flag) {
    const auto result = one.build(request_of(flag));
    REQUIRE_MESSAGE(result.has_value(), (result ? "" : result.error().message));
    return *result;
  };
  std::map<std::string, std::string> expected;
  for (const char* flag : {"", "-O2", "-O3"})
    expected[flag] = base::read_file(built_by(**plain, flag).artefact).value();
  // One that ends at once, and one that shares what the first makes.
  options.headers_ahead = true;
  options.headers_dir = folder->path() / "cache";
  REQUIRE(env::extension_builder::create(*with->children, options).has_value());
  auto second = env::extension_builder::create(*with->children, options);
  REQUIRE(second.has_value());
  for (auto* one : {&builder, &second}) {
    const auto ahead = (**one)->headers_read();
    REQUIRE_MESSAGE(ahead.has_value(), (ahead ? "" : ahead.error().message));
  }
  const auto made = std::filesystem::directory_iterator(folder->path() / "cache/headers");
  CHECK(std::distance(made, {}) == 1);
  // What was read ahead is all that is left of it.
  write(headers / "quern_host.h", "#error this was read\n");
  for (const auto& [flag, artefact] : expected) {
    const auto result = built_by(**builder, flag);
    CHECK_MESSAGE((result.by == route::slim), flag);
    CHECK(base::read_file(result.artefact).value() == artefact);
  }
  CHECK((built_by(**builder, "-ffast-math").by == route::none));
}

TEST_CASE("a flag that is refused is the candidate's error, and no compiler runs") {
  workshop* with = shared();
  if (with == nullptr) return;
  auto request = cpp_request("at::Tensor f(at::Tensor x) { return x; }", {"f"});
  request.cflags = {"-fplugin=/tmp/own.so"};
  const auto result = built(*with, request);
  CHECK((result.outcome == build_kind::error));
  CHECK((result.by == route::none));
  CHECK(contains(result.text, "-fplugin=/tmp/own.so"));
}

TEST_CASE("a function that is not declared is the candidate's error, and no compiler runs") {
  workshop* with = shared();
  if (with == nullptr) return;
  const auto result =
      built(*with, cpp_request("torch::Tensor add(torch::Tensor a) { return a; }", {"sub"}));
  CHECK((result.outcome == build_kind::error));
  CHECK((result.by == route::none));
  CHECK(contains(result.text, "`functions` names 'sub'"));
}

TEST_CASE("texts that raise, exit, print or never end a call are recorded as far as they came") {
  workshop* with = shared();
  if (with == nullptr) return;
  const auto recorded = [&](const std::string& text) {
    auto made = env::record_extensions(*with->children, with->python, with->scripts, text, "[3]");
    REQUIRE_MESSAGE(made.has_value(), (made ? "" : made.error().message));
    return *made;
  };
  const std::string call =
      "from torch.utils.cpp_extension import load_inline, load\n"
      "m = load_inline('a', 'int x;', functions=['f'])\n";
  const auto exits = recorded(call + "print('{\"end\":\"imported\"}')\nimport sys\nsys.exit(0)\n");
  CHECK(exits.requests.size() == 1);
  CHECK((exits.ending == env::extension_recording::end::raised));
  const auto guarded = recorded(
      "import os\n"
      "from torch.utils.cpp_extension import load\n"
      "open('k.cpp', 'w').write('#include \"k.h\"')\n"
      "open('k.h', 'w').write('int h;')\n"
      "class ModelNew:\n"
      "  def __init__(self, n):\n"
      "    try:\n"
      "      self.m = load(name='b%d' % n, sources=['k.cpp'], extra_include_paths=[os.getcwd()])\n"
      "      self.m.run(1)\n"
      "    except Exception:\n"
      "      self.m = None\n");
  CHECK((guarded.ending == env::extension_recording::end::constructed));
  REQUIRE(guarded.requests.size() == 1);
  CHECK(guarded.requests[0].name == "b3");
  CHECK(guarded.requests[0].files[0].text == "#include \"k.h\"");
  CHECK(guarded.requests[0].headers[0].name == "k.h");
  CHECK(guarded.requests[0].include_paths.empty());
  CHECK((recorded("import os\nos._exit(3)\n").ending == env::extension_recording::end::lost));
  // More calls in the text than requests: the model is made and called, as far as an extension.
  const std::string later =
      call +
      "import torch\n"
      "class ModelNew(torch.nn.Module):\n"
      "  def __init__(self, n):\n"
      "    super().__init__()\n"
      "  def forward(self, x):\n"
      "    made = load_inline('b%d' % x.shape[0], 'int y;', functions=['f'])\n"
      "    try:\n"
      "      made.f(x)\n"
      "    except Exception:\n"
      "      load_inline('never', 'int z;', functions=['f'])\n";
  const auto called = recorded(later + "def get_inputs(): return [torch.rand(1 << 20, 1 << 20)]\n");
  CHECK_MESSAGE((called.ending == env::extension_recording::end::called), called.text);
  REQUIRE(called.requests.size() == 2);
  CHECK(called.requests[1].name == "b1048576");
  CHECK((recorded(later).ending == env::extension_recording::end::constructed));
  // What was asked for before a call that ends the process is not lost with it.
  const auto ended = recorded(later + "def get_inputs():\n  import os\n  os._exit(3)\n");
  CHECK((ended.ending == env::extension_recording::end::lost));
  CHECK(ended.requests.size() == 1);
  CHECK((recorded("x = (\n").ending == env::extension_recording::end::raised));
  // A call in a function may be made more than once.
  const auto twice = recorded(
      "from torch.utils.cpp_extension import load_inline\n"
      "def build(name): return load_inline(name, 'int x;', functions=['f'])\n"
      "first = build('a')\n"
      "class ModelNew:\n"
      "  def __init__(self, n):\n"
      "    self.second = build('b')\n");
  REQUIRE(twice.requests.size() == 2);
  CHECK(twice.requests[1].name == "b");
  // The making of a model that ends its process loses nothing of the import.
  const auto lost = recorded(call +
                             "class ModelNew:\n"
                             "  def __init__(self, n):\n"
                             "    import os\n"
                             "    os._exit(3)\n"
                             "    load_inline('b', 'int y;', functions=['f'])\n");
  CHECK((lost.ending == env::extension_recording::end::lost));
  CHECK(lost.requests.size() == 1);
}
