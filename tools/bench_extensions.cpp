// How fast extensions of candidates are built by our route, beside torch's own load_inline in the
// same run. tools/pytorch_builds checks the candidates and starts it.
//
//   bench_extensions FOLDER [--only TEXT] [--load-inline N] [--cache FOLDER] [--python PROGRAM]
//                    [--keep FOLDER] [--slim-only]
//
// Every *.py file of FOLDER is a candidate. It is recorded in a sandboxed Python, and each
// extension that it asks for is built. Of N of them torch builds the same request, in a sandboxed
// Python with compilers, a fresh folder, and one architecture. --keep: a folder that gets the
// modules and an index.json for built_extensions.py, one folder for each candidate.
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
#include "base/program.hpp"
#include "base/text.hpp"
#include "env/build/cuda_toolkit.hpp"
#include "env/build/tool.hpp"
#include "env/lanes/pytorch/build/extension_builder.hpp"
#include "env/lanes/pytorch/build/extension_recording.hpp"
#include "env/sandbox/child.hpp"

namespace quern::tools {
namespace {

namespace fs = std::filesystem;
using env::extension_result;

constexpr double torch_wall_s = 590;

// What the sandboxed Python runs for a comparison: one call with the request's own arguments.
constexpr const char* torch_build = R"(
import json, os, resource, subprocess, sys, time
request = json.load(sys.stdin)
os.environ["TORCH_EXTENSIONS_DIR"] = os.path.abspath("extensions")
from torch.utils import cpp_extension
from torch.utils.cpp_extension import load, load_inline

def run(commands, folder):
    running = [subprocess.Popen(command, shell=True, cwd=folder, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True) for command in commands]
    said = [one.communicate()[0] for one in running]
    for one, text in zip(running, said):
        if one.returncode != 0:
            raise RuntimeError(text)

def build(build_directory, verbose, error_prefix):
    """What ninja would do; the sandbox forbids the process groups in which it starts commands."""
    listed = subprocess.check_output(["ninja", "-t", "commands"], cwd=build_directory, text=True)
    *compile_all, link = listed.splitlines()
    run(compile_all, build_directory)
    run([link], build_directory)

cpp_extension._run_ninja_build = build
flags = dict(extra_cflags=request["cflags"], extra_cuda_cflags=request["cuda_cflags"],
             extra_ldflags=request["ldflags"], extra_include_paths=request["include_paths"],
             with_cuda=request["with_cuda"])
begin = time.monotonic()
try:
    if request["files"]:
        for name, text in request["files"] + request["headers"]:
            open(name, "w").write(text)
        load(request["name"], [name for name, _ in request["files"]], **flags)
    else:
        functions = request["functions"]
        load_inline(request["name"], request["cpp_sources"], request["cuda_sources"] or None,
                    functions=functions if functions is None else dict(functions),
                    with_pytorch_error_handling=request["error_handling"],
                    no_implicit_headers=not request["implicit_headers"], **flags)
    built, text = True, ""
except Exception as error:
    built, text = False, str(error)[-1000:]
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps({"built": built, "wall_s": time.monotonic() - begin,
                  "core_s": used.ru_utime + used.ru_stime, "text": text}))
)";

struct bench_settings {
  std::string folder, only, cache, python, keep;
  int load_inline = 0;
  bool slim_only = false;
};

struct torch_figures {
  bool built = false;
  double wall_s = 0, core_s = 0;
  std::string text;
};

struct build_line {
  std::string candidate;
  extension_result result;
  bool built = false;
  double wall_s = 0;
  std::unique_ptr<torch_figures> torch;
};

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

const char* name_of(extension_result::route by) {
  switch (by) {
    case extension_result::route::slim:
      return "slim";
    case extension_result::route::full:
      return "full";
    case extension_result::route::none:
      break;
  }
  return "none";
}

class extension_bench {
 public:
  extension_bench(env::spawner& children, env::python_torch python, std::string scripts,
                  env::extension_builder& builder, bench_settings settings)
      : children_(children),
        python_(std::move(python)),
        scripts_(std::move(scripts)),
        builder_(builder),
        settings_(std::move(settings)) {}

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
    std::printf("%-48s %-8s %-6s %8s %8s %10s %10s\n", "candidate", "outcome", "route", "core s",
                "wall s", "torch core", "torch wall");
    for (const auto& file : files)
      QUERN_CHECK(candidate(file));
    sum();
    return {};
  }

 private:
  base::status candidate(const fs::path& file) {
    QUERN_TRY(const auto source, base::read_file(file, 4 << 20));
    QUERN_TRY(const auto recording,
              env::record_extensions(children_, python_, scripts_, source, "null"));
    const std::string name = file.stem().string();
    if (recording.requests.empty())
      std::printf("%-48s asks for nothing (%s)\n", name.c_str(),
                  base::one_line(recording.text).substr(0, 1600).c_str());
    without_ += recording.requests.empty() ? 1 : 0;
    base::ordered_json index = base::ordered_json::array();
    for (const auto& request : recording.requests) {
      QUERN_CHECK(one(name, request));
      QUERN_CHECK(keep(name, request, index));
    }
    if (settings_.keep.empty() || index.empty()) return {};
    return base::write_file_atomic(fs::path(settings_.keep) / name / "index.json",
                                   base::dump(index));
  }

  base::status one(const std::string& name, const env::extension_request& request) {
    build_line line;
    line.candidate = name;
    QUERN_TRY(line.result, builder_.build(request));
    line.built = line.result.what == env::compile_result::kind::built;
    line.wall_s = static_cast<double>(line.result.ms) * 1e-3;
    if (compared_ < settings_.load_inline) {
      ++compared_;
      QUERN_TRY(auto torch, by_torch(request));
      line.torch = std::make_unique<torch_figures>(std::move(torch));
    }
    std::printf("%-48s %-8s %-6s %8.2f %8.2f", name.c_str(),
                line.built ? line.result.cached ? "cached" : "built" : "error",
                name_of(line.result.by), line.result.core_s, line.wall_s);
    if (line.torch)
      std::printf(" %10.2f %10.2f%s", line.torch->core_s, line.torch->wall_s,
                  line.torch->built == line.built ? "" : "  DIFFERS");
    std::printf("\n");
    if (!line.built)
      std::printf("    %s\n", base::one_line(line.result.text).substr(0, 300).c_str());
    if (!line.result.slim_text.empty())
      std::printf("    not slim: %s\n",
                  base::one_line(line.result.slim_text).substr(0, 300).c_str());
    if (line.torch && !line.torch->built)
      std::printf("    torch: %s\n", base::one_line(line.torch->text).substr(0, 300).c_str());
    std::fflush(stdout);
    lines_.push_back(std::move(line));
    return {};
  }

  base::expected<torch_figures> by_torch(const env::extension_request& request) {
    QUERN_TRY(const auto input, env::as_memory_file(env::write_extension_request(request)));
    env::child_spec spec = env::python_spec(python_, {"-s", "-E", "-c", torch_build});
    for (const auto& folder : env::compiler_folders())
      spec.read_only.push_back(folder);
    for (const auto& folder : python_.include_folders())
      spec.read_only.push_back(folder);
    if (const auto toolkit = env::find_cuda_toolkit()) {
      spec.read_only.push_back(toolkit->root.string());
      spec.read_only.push_back(toolkit->library_folder().string());
      spec.env.push_back("CUDA_HOME=" + toolkit->root.string());
    }
    QUERN_TRY(const auto compiler, env::find_compiler());
    spec.env.push_back("CXX=" + compiler.string());
    spec.env.emplace_back("TORCH_CUDA_ARCH_LIST=9.0");
    spec.in = env::child_stream::from(input.get());
    spec.out = spec.err = env::child_stream::captured();
    spec.limits.wall_s = spec.limits.cpu_s = torch_wall_s;
    spec.limits.file_bytes = 256 << 20;
    spec.limits.work_bytes = std::int64_t{2} << 30;
    spec.limits.processes = 128;
    QUERN_TRY(const auto ran, env::run_tool(children_, spec));
    const auto answer = base::parse_json(base::trim(ran.out), 2);
    if (!answer)
      return base::fail(base::errc::unavailable, "load_inline gave no answer: {}; {}",
                        ran.end.text(), ran.err.substr(0, 2000));
    torch_figures figures;
    QUERN_TRY(figures.built, base::get<bool>(*answer, "built"));
    QUERN_TRY(figures.wall_s, base::get<double>(*answer, "wall_s"));
    QUERN_TRY(figures.core_s, base::get<double>(*answer, "core_s"));
    QUERN_TRY(figures.text, base::get<std::string>(*answer, "text"));
    return figures;
  }

  base::status keep(const std::string& name, const env::extension_request& request,
                    base::ordered_json& index) {
    if (settings_.keep.empty()) return {};
    const fs::path folder = fs::path(settings_.keep) / name;
    QUERN_CHECK(base::make_folders(folder));
    QUERN_TRY(const auto json, base::parse_json(env::write_extension_request(request)));
    base::ordered_json entry{{"request", json}};
    const auto& result = lines_.back().result;
    if (lines_.back().built) {
      const std::string file = base::to_hex(result.key) + ".so";
      std::error_code error;
      fs::copy_file(result.artefact, folder / file, fs::copy_options::overwrite_existing, error);
      if (error) return base::fail(base::errc::io, "copying {}: {}", file, error.message());
      entry["file"] = file;
    } else {
      entry["error"] = result.text;
    }
    index.push_back(std::move(entry));
    return {};
  }

  void sum() const {
    std::vector<double> core, wall, core_ratio, wall_ratio;
    std::map<std::string, int> routes;
    int built = 0;
    int differ = 0;
    for (const auto& line : lines_) {
      if (line.torch) differ += line.torch->built != line.built ? 1 : 0;
      if (!line.built) continue;
      ++built;
      if (line.result.cached) continue;
      ++routes[name_of(line.result.by)];
      core.push_back(line.result.core_s);
      wall.push_back(line.wall_s);
      if (!line.torch || !line.torch->built) continue;
      core_ratio.push_back(line.result.core_s / line.torch->core_s);
      wall_ratio.push_back(line.wall_s / line.torch->wall_s);
    }
    const int routed = routes["slim"] + routes["full"];
    std::printf("extensions: %zu, built: %d, candidates that ask for none: %d\n", lines_.size(),
                built, without_);
    if (routed > 0)
      std::printf("by the slim route: %d of %d (%.0f %%)\n", routes["slim"], routed,
                  100.0 * routes["slim"] / routed);
    std::printf("median of ours: %.2f core-seconds, %.2f s of wall clock\n", median(core),
                median(wall));
    if (!core_ratio.empty())
      std::printf(
          "median of ours by load_inline's, %zu compared: %.3f of the core-seconds, %.3f of the "
          "wall clock; %d with another outcome\n",
          core_ratio.size(), median(core_ratio), median(wall_ratio), differ);
  }

  env::spawner& children_;
  env::python_torch python_;
  std::string scripts_;
  env::extension_builder& builder_;
  bench_settings settings_;
  std::vector<build_line> lines_;
  int compared_ = 0;
  int without_ = 0;
};

base::status run_bench(const bench_settings& settings) {
  QUERN_TRY(const auto children, env::spawner::create(env::sandbox_mode::best_effort));
  QUERN_TRY(auto python, env::find_python_torch(settings.python));
  QUERN_TRY(const auto scripts, base::share_folder("env/lanes/pytorch/build"));
  QUERN_TRY(const auto fresh, base::temp_folder::make("quern-extensions"));
  env::extension_options options;
  options.cache_dir = settings.cache.empty() ? fresh.path() : fs::path(settings.cache);
  options.python = python.program;
  options.full_route = !settings.slim_only;
  QUERN_TRY(const auto builder, env::extension_builder::create(*children, options));
  return extension_bench(*children, std::move(python), scripts.string(), *builder, settings).run();
}

}  // namespace
}  // namespace quern::tools

int main(int argc, char** argv) {
  quern::tools::bench_settings settings;
  CLI::App app("Builds the extensions of candidates, beside torch's load_inline.");
  app.add_option("folder", settings.folder, "candidates, *.py")->required();
  app.add_option("--only", settings.only, "those whose name has this text");
  app.add_option("--load-inline", settings.load_inline, "how many are built by torch, too");
  app.add_option("--cache", settings.cache, "artefacts; a fresh folder if not given");
  app.add_option("--python", settings.python, "a Python with torch");
  app.add_flag("--slim-only", settings.slim_only, "no second try with torch's own headers");
  app.add_option("--keep", settings.keep, "folder for modules and index.json");
  CLI11_PARSE(app, argc, argv);
  const auto ran = quern::tools::run_bench(settings);
  if (ran) return 0;
  std::fprintf(stderr, "bench_extensions: %s\n", ran.error().message.c_str());
  return 1;
}
