// Which compiler flags a candidate may ask for.
#include <string>
#include <vector>

#include "env/lanes/pytorch/build/extension_flags.hpp"
#include "env/lanes/pytorch/build/extension_job.hpp"
#include "samples.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::test;
using texts = std::vector<std::string>;

namespace {

env::extension_flags of_cxx(texts flags) {
  env::extension_request request;
  request.cflags = std::move(flags);
  return env::judge_flags(request);
}
env::extension_flags of_nvcc(texts flags) {
  env::extension_request request;
  request.cuda_cflags = std::move(flags);
  return env::judge_flags(request);
}
env::extension_flags of_link(texts flags) {
  env::extension_request request;
  request.ldflags = std::move(flags);
  return env::judge_flags(request);
}
env::extension_flags of_paths(texts paths) {
  env::extension_request request;
  request.include_paths = std::move(paths);
  return env::judge_flags(request);
}

}  // namespace

TEST_CASE("flags that candidates use are handed on in their order") {
  const auto cxx = of_cxx({"-O3", " -march=native ", "-DN=4 -Wall", "", "-ffast-math"});
  CHECK(cxx.refused == "");
  CHECK(cxx.cxx == texts{"-O3", "-march=native", "-DN=4", "-Wall", "-ffast-math"});
  const auto nvcc = of_nvcc({"-O3", "--use_fast_math", "-Xptxas -O3,-v", "-Xcompiler", "-fPIC,-O3",
                             "--ptxas-options=-v", "-maxrregcount=64", "--maxrregcount", "32",
                             "-std=c++17", "-diag-suppress=177"});
  CHECK(nvcc.refused == "");
  CHECK(nvcc.nvcc == texts{"-O3", "--use_fast_math", "-Xptxas", "-O3,-v", "-Xcompiler", "-fPIC,-O3",
                           "-Xptxas", "-v", "-maxrregcount=64", "-maxrregcount=32", "-std=c++17",
                           "-diag-suppress=177"});
  const auto link = of_link({"-lcublas", "-lcudnn", "-L/usr/local/cuda/lib64", "-lm"});
  CHECK(link.refused == "");
  CHECK(link.link == texts{"-lcublas", "-lcudnn", "-lm"});
}

TEST_CASE("what the build sets itself is left out") {
  const auto nvcc = of_nvcc({"-gencode", "arch=compute_80,code=sm_80", "-arch=sm_70",
                             "-gencode=arch=compute_90,code=sm_90", "--threads 4",
                             "-gencode arch=compute_75,code=sm_75", "--default-stream", "legacy"});
  CHECK(nvcc.refused == "");
  CHECK(nvcc.nvcc.empty());
  CHECK(of_paths({"/usr/local/cuda/include", "/usr/local/cuda-12.4/include/",
                  "/opt/venv/lib/python3.11/site-packages/torch/include"})
            .refused == "");
}

TEST_CASE("flags that read, load or change something else are refused, each by its name") {
  for (const char* flag :
       {"-fplugin=/tmp/x.so", "@/etc/passwd", "-x", "-include", "-I/etc",
        "-I/usr/local/cuda/../etc/include", "-Wl,-rpath,/tmp", "-Wp,-include,/etc/passwd", "-B/tmp",
        "-specs=/tmp/x", "-o", "-flto", "-save-temps", "--sysroot=/", "-wrapper", "-fdump-tree-all",
        "-MD", "main2.cpp"}) {
    CAPTURE(flag);
    const auto judged = of_cxx({flag});
    CHECK(contains(judged.refused, flag));
    CHECK(contains(judged.refused, "extra_cflags"));
    CHECK(judged.cxx.empty());
  }
  for (const char* flag :
       {"-Xcompiler -fplugin=x", "-Xcompiler=-fPIC,-Wl,-rpath", "-ccbin=/tmp/g++", "-rdc=true",
        "--options-file x", "-optf x", "--default-stream per-thread", "-Xptxas --input-as-string",
        "-Xlinker -T", "--run", "--keep", "-include x.h", "--pre-include=x", "-G --cubin", "@x"}) {
    CAPTURE(flag);
    CHECK(contains(of_nvcc({flag}).refused, "extra_cuda_cflags"));
  }
  for (const char* flag :
       {"-l:evil.so", "-lcrypto", "-L/tmp", "/tmp/x.o", "-Wl,-T,x", "@x", "-l"}) {
    CAPTURE(flag);
    CHECK(contains(of_link({flag}).refused, "extra_ldflags"));
  }
  for (const char* path :
       {"/etc", "/home/me/cutlass/include", "../x", "/usr/local/cuda/../../etc/include"}) {
    CAPTURE(path);
    CHECK(contains(of_paths({path}).refused, path));
  }
  const auto both = of_cxx({"-O3", "-fplugin=a", "-specs=b"});
  CHECK(contains(both.refused, "-fplugin=a"));
  CHECK(contains(both.refused, "-specs=b"));
  CHECK(both.cxx == texts{"-O3"});
}

TEST_CASE("of what compilers say the first error and what follows is kept, up to a limit") {
  const std::string text = "main.cpp: In function 'f':\na warning\nmain.cpp:3: error: no\nmore\n";
  CHECK(env::useful_text(text, 100) == "main.cpp:3: error: no\nmore\n");
  CHECK(env::useful_text("only notes\n", 100) == "only notes\n");
  CHECK(env::useful_text("error: at once\n", 100) == "error: at once\n");
  CHECK(env::useful_text("x.cu: error: " + std::string(50, 'y'), 20) ==
        "x.cu: error: yyyyyyy\n(43 more characters are left out)\n");
}
