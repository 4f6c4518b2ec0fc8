// Compiles the Triton kernels of candidates ahead, without a GPU. tools/pytorch_builds checks the
// candidates and starts it.
//
//   bench_triton FOLDER [--only TEXT] [--cache FOLDER] [--python PROGRAM]
//
// Every NAME.py of FOLDER with a NAME.task beside it is a candidate and its task: the task's text
// says what the model is constructed and called with. Both run in the sandbox alone, in processes
// of their own.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "env/build/tool.hpp"
#include "env/lanes/pytorch/build/extension_recording.hpp"
#include "env/lanes/pytorch/build/triton_builder.hpp"
#include "env/sandbox/child.hpp"

namespace quern::tools {
namespace {

namespace fs = std::filesystem;
using env::compile_result;

constexpr double longest_task_s = 120;

// Runs a task's text on tensors without memory; prints what its model is constructed and called
// with.
constexpr const char* task_of = R"(
import json, os, sys, torch
scope = {}
answer = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
exec(sys.stdin.read(), scope)
init = scope.get("get_init_inputs", list)()
with torch.device("meta"):
    inputs = scope["get_inputs"]()
answer.write(json.dumps({"init_args": init, "inputs": [
    {"shape": list(one.shape), "dtype": str(one.dtype).split(".")[1]} if isinstance(one, torch.Tensor)
    else {"value": one} for one in inputs]}))
answer.flush()
os._exit(0)
)";

struct triton_bench_settings {
  std::string folder, only, cache, python;
};

struct triton_sums {
  int candidates = 0, whole = 0;  ///< whole: every launch was learnt and compiled
  int kernels = 0, built = 0, again = 0;
  std::map<std::string, int> reasons, refused;
  std::vector<double> core_s;
};

class triton_bench {
 public:
  triton_bench(env::spawner& children, env::triton_builder& builder, triton_bench_settings settings)
      : children_(children), builder_(builder), settings_(std::move(settings)) {}

  base::status run() {
    std::vector<fs::path> files;
    std::error_code error;
    for (const auto& item : fs::directory_iterator(settings_.folder, error))
      if (item.path().extension() == ".py" &&
          item.path().filename().string().find(settings_.only) != std::string::npos)
        files.push_back(item.path());
    if (error)
      return base::fail(base::errc::not_found, "{}: {}", settings_.folder, error.message());
    std::sort(files.begin(), files.end());
    for (const auto& file : files)
      QUERN_CHECK(candidate(file));
    print_sums();
    return {};
  }

 private:
  base::expected<base::json> task(const fs::path& file) {
    QUERN_TRY(const auto text, base::read_file(file, 4 << 20));
    QUERN_TRY(const auto input, env::as_memory_file(text));
    env::child_spec spec = env::python_spec(builder_.python(), {"-s", "-E", "-c", task_of});
    spec.in = env::child_stream::from(input.get());
    spec.out = spec.err = env::child_stream::captured();
    spec.limits.wall_s = spec.limits.cpu_s = longest_task_s;
    QUERN_TRY(const auto ran, env::run_tool(children_, spec));
    auto answer = base::parse_json(base::trim(ran.out), 16);
    if (!answer)
      return base::fail(base::errc::unavailable, "the task {} does not run: {}; {}", file.string(),
                        ran.end.text(), ran.err.substr(0, 2000));
    return *answer;
  }

  base::status candidate(const fs::path& file) {
    ++sums_.candidates;
    const std::string name = file.stem().string();
    QUERN_TRY(const auto source, base::read_file(file, 4 << 20));
    QUERN_TRY(const auto given, task(fs::path(file).replace_extension(".task")));
    QUERN_TRY(const auto recording,
              env::record_triton_kernels(children_, builder_.python(), builder_.scripts(), source,
                                         base::dump(given.at("init_args")),
                                         base::dump(given.at("inputs"))));
    int built = 0;
    std::string refusals;
    for (const auto& kernel : recording.kernels)
      QUERN_CHECK(compile(kernel, built, refusals));
    const bool learnt = recording.reason == env::triton_reason::none;
    ++sums_.reasons[std::string(env::name_of(recording.reason))];
    sums_.whole += learnt && built == static_cast<int>(recording.kernels.size()) ? 1 : 0;
    std::printf("%-14s kernels learnt: %2zu, compiled: %2d, %s\n", name.c_str(),
                recording.kernels.size(), built,
                std::string(env::name_of(recording.reason)).c_str());
    for (const auto& note : recording.notes)
      std::printf("    %s\n", note.c_str());
    if (!learnt) {
      const std::string_view text = base::trim(recording.text);
      std::printf("    %s\n",
                  std::string(text.substr(text.rfind('\n') + 1)).substr(0, 200).c_str());
    }
    std::printf("%s", refusals.c_str());
    std::fflush(stdout);
    return {};
  }

  base::status compile(const env::triton_kernel& kernel, int& built, std::string& refusals) {
    ++sums_.kernels;
    QUERN_TRY(const auto result, builder_.build(kernel));
    if (result.outcome == compile_result::kind::built) {
      ++built;
      ++sums_.built;
      sums_.again += result.cached ? 1 : 0;
      if (!result.cached) sums_.core_s.push_back(result.core_s);
      return {};
    }
    const std::string text = base::one_line(result.text);
    ++sums_.refused[result.outcome == compile_result::kind::timeout
                        ? "out of time"
                        : text.substr(0, text.find(':'))];
    refusals += fmt::format("    {}: {}\n", kernel.name, text.substr(0, 200));
    return {};
  }

  void print_sums() {
    std::printf("Triton candidates: %d, every launch learnt and compiled: %d\n", sums_.candidates,
                sums_.whole);
    for (const auto& [reason, count] : sums_.reasons)
      std::printf("candidates, %s: %d\n", reason.c_str(), count);
    std::printf("kernels learnt: %d, compiled for sm_90: %d (%d of them found in the cache)\n",
                sums_.kernels, sums_.built, sums_.again);
    for (const auto& [reason, count] : sums_.refused)
      std::printf("kernels not compiled, %s: %d\n", reason.c_str(), count);
    std::sort(sums_.core_s.begin(), sums_.core_s.end());
    if (!sums_.core_s.empty())
      std::printf("core-seconds of a kernel: median %.2f, most %.2f\n",
                  sums_.core_s[sums_.core_s.size() / 2], sums_.core_s.back());
  }

  env::spawner& children_;
  env::triton_builder& builder_;
  triton_bench_settings settings_;
  triton_sums sums_;
};

base::status run_triton_bench(const triton_bench_settings& settings) {
  QUERN_TRY(const auto children, env::spawner::create(env::sandbox_mode::best_effort));
  QUERN_TRY(const auto fresh, base::temp_folder::make("quern-triton"));
  env::triton_options options;
  options.cache_dir = settings.cache.empty() ? fresh.path() : fs::path(settings.cache);
  options.python = settings.python;
  QUERN_TRY(const auto builder, env::triton_builder::create(*children, options));
  return triton_bench(*children, *builder, settings).run();
}

}  // namespace
}  // namespace quern::tools

int main(int argc, char** argv) {
  quern::tools::triton_bench_settings settings;
  CLI::App app("Compiles the Triton kernels of candidates ahead, without a GPU.");
  app.add_option("folder", settings.folder, "candidates NAME.py and tasks NAME.task")->required();
  app.add_option("--only", settings.only, "those whose name has this text");
  app.add_option("--cache", settings.cache, "artefacts; a fresh folder if not given");
  app.add_option("--python", settings.python, "a Python with torch and Triton");
  CLI11_PARSE(app, argc, argv);
  const auto ran = quern::tools::run_triton_bench(settings);
  if (ran) return 0;
  std::fprintf(stderr, "bench_triton: %s\n", ran.error().message.c_str());
  return 1;
}
