// The compiler in the sandbox: what it makes, what it refuses, what it cannot reach.
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "env/build/artefact_cache.hpp"
#include "env/lanes/cpp/build/cpp_compiler.hpp"
#include "sandbox_fixture.hpp"

using namespace quern;
using namespace quern::test;
using build_kind = env::compile_result::kind;

namespace {

const std::string prototype =
    "extern \"C\" void kernel(const float* x, float* y, int64_t n, void* workspace, void* "
    "stream);\n"
    "extern \"C\" int64_t workspace_bytes(int64_t n);\n";

using kernel_function = void (*)(const float*, float*, std::int64_t, void*, void*);

// One spawner and compiler for all cases: the prelude takes two seconds.
struct workshop {
  std::unique_ptr<env::spawner> children;
  base::temp_folder cache;
  std::unique_ptr<env::cpp_compiler> compiler;
};

workshop make_workshop(env::layer_set allowed = env::layer_set::all()) {
  auto children = make_spawner(allowed);
  auto cache = base::temp_folder::make("quern-cache");
  REQUIRE(cache.has_value());
  auto made = env::cpp_compiler::create(*children, {.cache_dir = cache->path()});
  REQUIRE_MESSAGE(made.has_value(), (made ? "" : made.error().message));
  return {std::move(children), std::move(*cache), std::move(*made)};
}

workshop& shared() {
  static workshop only = make_workshop();
  return only;
}

env::compile_result compiled(env::cpp_compiler& with, const std::string& source) {
  env::cpp_compile_request request;
  request.source = source;
  request.prototype = prototype;
  request.wall_s = 60;
  auto result = with.compile(request);
  REQUIRE_MESSAGE(result.has_value(), (result ? "" : result.error().message));
  return *result;
}

const std::string doubling =
    "extern \"C\" void kernel(const float* x, float* y, int64_t n, void*, void*) {\n"
    "  for (int64_t i = 0; i < n; ++i) y[i] = 2 * x[i];\n}\n";

}  // namespace

TEST_CASE("a good source becomes a shared object that works, once") {
  auto& compiler = *shared().compiler;
  CHECK(compiler.version().find("g++") != std::string::npos);
  const auto first = compiled(compiler, doubling + "// first\n");
  REQUIRE_MESSAGE(first.outcome == build_kind::built, first.text);
  CHECK_FALSE(first.cached);
  CHECK(first.argv[0].find("g++") != std::string::npos);
  void* library = dlopen(first.artefact.c_str(), RTLD_NOW | RTLD_LOCAL);
  REQUIRE(library != nullptr);
  const auto kernel = reinterpret_cast<kernel_function>(dlsym(library, "kernel"));
  REQUIRE((kernel != nullptr));
  const float x[] = {1, 2, 3};
  float y[3] = {};
  kernel(x, y, 3, nullptr, nullptr);
  CHECK(y[2] == 6);
  dlclose(library);

  const auto second = compiled(compiler, "/* second */" + doubling);
  CHECK(second.cached);
  CHECK(second.key == first.key);
  CHECK(second.artefact == first.artefact);
  CHECK_FALSE(compiled(compiler, doubling + "int other;").cached);
}

TEST_CASE("the precompiled prelude is used and declares the entries") {
  auto& compiler = *shared().compiler;
  // The prelude's names are there without an include, and with one.
  for (const std::string include : {"", "#include <cmath>\n#include <immintrin.h>\n"}) {
    const auto result =
        compiled(compiler, include +
                               "void kernel(const float* x, float* y, int64_t n, void*, void*) {\n"
                               "  y[0] = std::max(std::exp(x[0]), static_cast<float>(n)); }\n");
    CHECK_MESSAGE(result.outcome == build_kind::built, result.text);
  }
  // -Winvalid-pch as an error would show a prelude that is not taken.
  const auto pch =
      compiled(compiler, "#pragma GCC diagnostic error \"-Winvalid-pch\"\n" + doubling);
  CHECK_MESSAGE(pch.outcome == build_kind::built, pch.text);
  CHECK(pch.text.find("pch") == std::string::npos);
}

TEST_CASE("errors come with the compiler's text, bounded, and the candidate's own lines") {
  auto& compiler = *shared().compiler;
  const auto wrong = compiled(compiler, "int a;\nthis is not C++\n");
  CHECK(wrong.outcome == build_kind::error);
  CHECK(wrong.text.find("kernel.cpp:2") != std::string::npos);
  CHECK(compiled(compiler, "int a;\n").text.find("kernel") != std::string::npos);
  CHECK(compiled(compiler, "int f(); " + doubling + "int g() { return f(); }").text.find("f()") !=
        std::string::npos);
  const auto other = compiled(compiler, "extern \"C\" int kernel(const float*) { return 0; }");
  CHECK(other.outcome == build_kind::error);

  std::string noisy = doubling;
  for (int i = 0; i < 2000; ++i)
    noisy += "#warning " + std::string(200, 'w') + "\n";
  noisy += "#error end\n";
  const auto bounded = compiled(compiler, noisy);
  CHECK(bounded.outcome == build_kind::error);
  CHECK(bounded.text.size() <= 2 * (16 << 10) + 200);
}

TEST_CASE("the compiler sees nothing of the host but itself") {
  const auto secret = base::temp_folder::make("quern-secret");
  REQUIRE(secret.has_value());
  const std::string file = (secret->path() / "answers").string();
  REQUIRE(base::write_file_atomic(file, "int answer = 42;\n").has_value());
  chmod(secret->path().c_str(), 0755);
  chmod(file.c_str(), 0644);
  const auto try_all = [&](env::cpp_compiler& compiler) {
    for (const std::string& path : {file, std::string("/etc/shadow"), std::string("/etc/passwd")}) {
      CAPTURE(path);
      const auto taken = compiled(compiler, "asm(\".incbin \\\"" + path + "\\\"\");\n" + doubling);
      CHECK(taken.outcome == build_kind::error);
      const auto included = compiled(compiler, "#include \"" + path + "\"\n" + doubling);
      CHECK(included.outcome == build_kind::error);
      CHECK(included.text.find("root:") == std::string::npos);
    }
  };
  if (host_has({env::layer::mountns}, "the compiler's view of files")) try_all(*shared().compiler);
  if (host_has({env::layer::landlock}, "the compiler's view of files by Landlock alone")) {
    env::layer_set allowed = env::layer_set::all();
    allowed.remove(env::layer::mountns);
    auto alone = make_workshop(allowed);
    CHECK(compiled(*alone.compiler, doubling).outcome == build_kind::built);
    try_all(*alone.compiler);
  }
}

TEST_CASE("time, memory and size of the compiler are bounded") {
  auto& compiler = *shared().compiler;
  env::cpp_compile_request request;
  request.prototype = prototype;
  // Instantiates without end worth waiting for.
  request.source =
      "template <int N, int M> struct f { static constexpr int v = f<N - 1, M>::v + f<N - 1, M + "
      "(1 << N)>::v; };\ntemplate <int M> struct f<0, M> { static constexpr int v = M; };\n"
      "int x = f<25, 0>::v;\n" +
      doubling;
  request.wall_s = 1;
  request.memory_bytes = std::int64_t{4} << 30;
  const auto slow = compiler.compile(request);
  REQUIRE(slow.has_value());
  CHECK(slow->outcome == build_kind::timeout);

  request.wall_s = 60;
  request.memory_bytes = 96 << 20;
  const auto large = compiler.compile(request);
  REQUIRE(large.has_value());
  CHECK(large->outcome == build_kind::error);

  request.memory_bytes = std::int64_t{1} << 30;
  request.source = "char big[100 << 20] = {1};\n" + doubling;
  request.file_bytes = 8 << 20;
  const auto big = compiler.compile(request);
  REQUIRE(big.has_value());
  CHECK(big->outcome == build_kind::error);
  CHECK_FALSE(big->text.empty());

  // The next one is unaffected, and nothing is left.
  CHECK(compiled(compiler, doubling + "int after;").outcome == build_kind::built);
  CHECK(control_groups_left().empty());
}

TEST_CASE("honest kernels compile as they pass the screen") {
  auto& compiler = *shared().compiler;
  for (const auto& item :
       std::filesystem::directory_iterator(source_dir() / "tests/env/screen/honest")) {
    CAPTURE(item.path().filename().string());
    const auto text = base::read_file(item.path());
    REQUIRE(text.has_value());
    const auto result = compiled(compiler, *text);
    CHECK_MESSAGE(result.outcome == build_kind::built, result.text);
  }
}

TEST_CASE("several callers, one cache") {
  auto& compiler = *shared().compiler;
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 3; ++i) {
        env::cpp_compile_request request;
        request.prototype = prototype;
        request.source = doubling + "int number" + std::to_string((t + i) % 4) + ";\n";
        request.wall_s = 60;
        const auto result = compiler.compile(request);
        if (result && result->outcome == build_kind::built &&
            access(result->artefact.c_str(), R_OK) == 0)
          ++good;
      }
    });
  for (auto& thread : threads)
    thread.join();
  CHECK(good == 9);
}

TEST_CASE("a second compiler finds prelude and artefacts of the first") {
  auto& first = shared();
  const auto before = compiled(*first.compiler, doubling + "int shared_one;");
  auto again = env::cpp_compiler::create(*first.children, {.cache_dir = first.cache.path()});
  REQUIRE(again.has_value());
  CHECK((*again)->fingerprint() == first.compiler->fingerprint());
  CHECK(compiled(**again, doubling + "int shared_one;").cached);
  CHECK_FALSE(env::cpp_compiler::create(*first.children, {}).has_value());
  CHECK_FALSE(env::cpp_compiler::create(
                  *first.children, {.cache_dir = first.cache.path(), .program = "/nowhere/g++"})
                  .has_value());
}

TEST_CASE("the cache drops what was used longest ago") {
  const auto folder = base::temp_folder::make("quern-cache");
  REQUIRE(folder.has_value());
  env::artefact_cache cache(folder->path(), 2500);
  const auto source = folder->path() / "source";
  REQUIRE(base::write_file_atomic(source, std::string(1000, 'a')).has_value());
  const base::unique_fd fd(open(source.c_str(), O_RDONLY | O_CLOEXEC));
  std::filesystem::path paths[3];
  for (std::uint64_t i = 0; i < 3; ++i) {
    auto path = cache.store({i, i}, fd.get(), 4096);
    REQUIRE(path.has_value());
    paths[i] = *path;
    // Distinct times of last use, oldest first.
    std::filesystem::last_write_time(
        paths[i], std::filesystem::file_time_type::clock::now() - std::chrono::hours(9 - i));
  }
  std::filesystem::remove(source);
  CHECK(cache.find({0, 0}).has_value());  // and is now the youngest
  cache.trim();
  CHECK(cache.find({0, 0}).has_value());
  CHECK_FALSE(cache.find({1, 1}).has_value());
  CHECK(cache.find({2, 2}).has_value());
  CHECK(cache.store({4, 4}, fd.get(), 10).error().message.find("limit is 10") != std::string::npos);
}
