// The files of a build: as torch writes them, and with slim headers.
#include <algorithm>
#include <string>
#include <vector>

#include "env/lanes/pytorch/build/extension_job.hpp"
#include "env/lanes/pytorch/build/slim_sources.hpp"
#include "samples.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::test;

namespace {

bool has_relu(std::string_view name) {
  return name == "relu";
}

// The lines behind the mark that gives them their numbers.
std::string numbered(const env::build_source& source) {
  const std::size_t mark = source.text.find("#line ");
  REQUIRE(mark != std::string::npos);
  return source.text.substr(source.text.find('\n', mark) + 1);
}

}  // namespace

TEST_CASE("full sources are those of torch") {
  const auto sources = env::full_sources(full_request());
  REQUIRE(sources.size() == 2);
  CHECK(sources[0].name == "main.cpp");
  CHECK(sources[0].text ==
        "#include <torch/extension.h>\ntorch::Tensor add(torch::Tensor a, torch::Tensor b);\n"
        "PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {\n"
        "m.def(\"add\", torch::wrap_pybind_function(add), \"adds\");\n}\n");
  CHECK(sources[1].name == "cuda.cu");
  CHECK(sources[1].cuda);
  CHECK(sources[1].text.starts_with(
      "#include <torch/types.h>\n#include <cuda.h>\n#include <cuda_runtime.h>\n#include <torch"));
  auto plain = full_request();
  plain.error_handling = plain.implicit_headers = false;
  CHECK(contains(env::full_sources(plain)[0].text, "m.def(\"add\", add, \"adds\");"));
  CHECK_FALSE(contains(env::full_sources(plain)[0].text, "#include"));
}

TEST_CASE("a function that no C++ source can declare is known before a compiler runs") {
  const auto missing = [](std::string source, std::vector<std::string> functions) {
    return env::undeclared_function(cpp_request(std::move(source), std::move(functions)));
  };
  CHECK(missing("int f();", {"f"}) == std::nullopt);
  CHECK(missing("int f();", {"f", "g"}) == "g");
  CHECK(missing("// g is a function\nconst char* g2 = \"g\";", {"g"}) == "g");
  CHECK(missing("namespace n { int f(); }", {"n::f"}) == std::nullopt);
  CHECK(missing("namespace n { int f(); }", {"n::g"}) == "n::g");
  CHECK(missing("#define CALL(x) int x();\nCALL(g)", {"g"}) == std::nullopt);
  // What may bring a name in without saying it.
  CHECK(missing("using namespace at;", {"relu"}) == std::nullopt);
  CHECK(missing("#define PAIR(x) int x##_a();\nPAIR(g)", {"g_a"}) == std::nullopt);
  auto with_header = cpp_request("", {"g"});
  with_header.headers = {{"own.h", "int g();"}};
  CHECK(env::undeclared_function(with_header) == std::nullopt);
  with_header.functions.reset();
  CHECK(env::undeclared_function(with_header) == std::nullopt);
}

TEST_CASE("with torch's headers the compiler that failed without them is asked first") {
  auto request = full_request();
  request.headers.clear();
  const auto script_of = [&](env::build_way way) {
    return env::make_extension_job({}, request, {}, env::full_sources(request), "sm_90a", way)
        .script;
  };
  const auto is_before = [](const std::string& script, std::string_view a, std::string_view b) {
    return script.find(a) < script.find(b);
  };
  CHECK(is_before(script_of({}), "'-c' 'main.cpp'", "'-c' 'cuda.cu'"));
  CHECK(is_before(script_of({.first = env::compiled_first::cuda}), "'-c' 'cuda.cu'",
                  "'-c' 'main.cpp'"));
  CHECK(contains(script_of({.slim = true}), "[ $bad = 0 ] || exit 4"));
  CHECK_FALSE(contains(script_of({}), "exit 4"));
}

TEST_CASE("a precompiled header is for the flags that it was made with") {
  const auto level_of = [](const std::vector<std::string>& flags) {
    const char* level = env::precompiled_level(flags);
    return std::string(level == nullptr ? "none" : level);
  };
  CHECK(level_of({}) == "O0");
  CHECK(level_of({"-O0", "-DNDEBUG", "-Wall"}) == "O0");
  CHECK(level_of({"-O1", "-O3", "-std=c++17"}) == "O3");
  CHECK(level_of({"-O3", "-O2"}) == "O2");
  for (const char* flag : {"-O", "-O1", "-Os", "-Ofast", "-ffast-math", "-march=native", "-g",
                           "-std=gnu++17", "-std=c++20", "-fopenmp"})
    CHECK_MESSAGE(level_of({"-O2", flag}) == "none", flag);
}

TEST_CASE("slim sources have no header of torch, and lines keep their numbers") {
  const auto sources = env::slim_sources(full_request(), has_relu);
  REQUIRE(sources.has_value());
  REQUIRE(sources->size() == 2);
  for (const auto& source : *sources)
    CHECK_FALSE(contains(source.text, "torch/extension.h"));
  CHECK(contains((*sources)[0].text, "#line 2 \"main.cpp\""));
  CHECK(contains((*sources)[0].text, "quern_binding.h"));
  CHECK(contains((*sources)[1].text, "#line 4 \"cuda.cu\""));
  CHECK(contains((*sources)[1].text, "quern_device.h"));
  // The line of the include is empty, not gone.
  CHECK(numbered((*sources)[1]) == "\n__global__ void k() {}\n\n");
}

TEST_CASE("a C++ source gets the operators that it names, if ATen has them") {
  const auto request = cpp_request(
      "  #  include \"torch/extension.h\"\nat::Tensor f(at::Tensor x) { return torch::relu(x); }",
      {"f"});
  const auto sources = env::slim_sources(request, has_relu);
  REQUIRE(sources.has_value());
  CHECK(contains((*sources)[0].text, "#include <ATen/ops/relu.h>"));
  CHECK_FALSE(contains((*sources)[0].text, "#include <ATen/ops/Tensor.h>"));
  CHECK_FALSE(contains((*sources)[0].text, "torch/extension.h"));
}

TEST_CASE("a CUDA source sees of CUDA's parts of torch what it includes, and no more") {
  const auto head = [](const std::string& text) {
    auto request = full_request();
    request.cuda_sources = {text};
    const auto sources = env::slim_sources(request, has_relu);
    REQUIRE(sources.has_value());
    return (*sources)[1].text;
  };
  const std::string all = "#include <torch/extension.h>\nvoid f(cublasHandle_t) {}\n";
  for (const char* part : {"QUERN_SLIM_CUDA_CHECKS", "QUERN_SLIM_AT_CUDA", "QUERN_SLIM_STREAMS",
                           "QUERN_SLIM_GUARDS", "<cublas_v2.h>"})
    CHECK_FALSE(contains(head(all), part));
  const std::string context = head("#include <ATen/cuda/CUDAContext.h>\n" + all);
  for (const char* part :
       {"QUERN_SLIM_CUDA_CHECKS", "QUERN_SLIM_AT_CUDA", "QUERN_SLIM_STREAMS", "<cublas_v2.h>"})
    CHECK(contains(context, part));
  CHECK_FALSE(contains(context, "QUERN_SLIM_GUARDS"));
  const std::string guard = head("#include <c10/cuda/CUDAGuard.h>\n" + all);
  CHECK(contains(guard, "QUERN_SLIM_GUARDS"));
  CHECK_FALSE(contains(guard, "QUERN_SLIM_AT_CUDA"));
}

TEST_CASE("what has no slim form is known before a compiler runs") {
  for (const char* text :
       {"#include <torch/csrc/autograd/custom_function.h>\n", "TORCH_LIBRARY(x, m) {}",
        "struct F : torch::autograd::Function<F> {};", "#include <pybind11/numpy.h>\n"}) {
    CAPTURE(text);
    CHECK_FALSE(env::slim_sources(cpp_request(text, {}), has_relu).has_value());
    auto cuda = full_request();
    cuda.cuda_sources = {text};
    CHECK_FALSE(env::slim_sources(cuda, has_relu).has_value());
  }
  // ATen's own headers fit ATen's own classes, which only C++ files see.
  const char* aten = "#include <ATen/cuda/CUDABlas.h>\n";
  CHECK(env::slim_sources(cpp_request(aten, {}), has_relu).has_value());
  auto cuda = full_request();
  cuda.cuda_sources = {aten};
  CHECK_FALSE(env::slim_sources(cuda, has_relu).has_value());
  auto quoted = full_request();
  (*quoted.functions)[0].text = "says \"hello\"";
  CHECK_FALSE(env::slim_sources(quoted, has_relu).has_value());
}

TEST_CASE("files of load are taken by their names, and a pure CUDA file gets no header") {
  env::extension_request request;
  request.name = "from_files";
  request.files = {
      {"bind.cpp", "#include <torch/extension.h>\nPYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {}"},
      {"kernel.cu", "#include <cuda_runtime.h>\n__global__ void k() {}"}};
  request.implicit_headers = false;
  const auto sources = env::slim_sources(request, has_relu);
  REQUIRE(sources.has_value());
  REQUIRE(sources->size() == 2);
  CHECK(contains((*sources)[0].text, "quern_host.h"));
  CHECK(contains((*sources)[0].text, "quern_binding.h"));
  CHECK_FALSE((*sources)[0].cuda);
  CHECK_FALSE(contains((*sources)[1].text, "quern_"));
  CHECK((*sources)[1].cuda);
  CHECK(env::full_sources(request)[1].text == request.files[1].text + "\n");
}
