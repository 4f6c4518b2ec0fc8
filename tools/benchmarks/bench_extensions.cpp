// How fast extensions of candidates are built by our route, beside torch's own load_inline in the
// same run. tools/pytorch_builds checks the candidates and starts it.
//
//   bench_extensions FOLDER [--only TEXT] [--first N] [--load-inline N] [--cache FOLDER]
//                    [--python PROGRAM] [--keep FOLDER] [--slim-only] [--headers-ahead]
//
// Every *.py file of FOLDER is a candidate. It is recorded in a sandboxed Python, and each
// extension that it asks for is built. N of those that were built are built by torch, too, right
// behind ours, and the functions that both libraries export are compared. --keep: a folder that
// gets the modules and an index.json for built_extensions.py, one folder for each candidate.
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
#include "env/lanes/pytorch/build/extension_builder.hpp"
#include "env/lanes/pytorch/build/extension_recording.hpp"
#include "env/sandbox/child.hpp"
#include "tools/benchmarks/bench_load_inline.hpp"

namespace quern::tools {
namespace {

namespace fs = std::filesystem;
using env::extension_result;

struct bench_settings {
  std::string folder, only, cache, python, keep;
  int load_inline = 0, first = 0;
  bool slim_only = false, headers_ahead = false;
};

struct build_line {
  std::string candidate;
  extension_result result;
  bool built = false;
  double wall_s = 0;
  std::unique_ptr<torch_figures> torch;
  bool same_functions = true;  ///< exports what torch's build exports
};

// Compilers of a machine that is shared end late, and a limit would be taken for the candidate's.
constexpr double longest_build_s = 1500;

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

// Where neither route builds: which part of the candidate the compilers refuse.
std::string class_of_failure(const extension_result& result) {
  if (result.outcome == env::compile_result::kind::timeout) return "out of time";
  if (result.by == extension_result::route::none) return "a flag that is refused";
  if (result.text.find("undefined reference") != std::string::npos ||
      result.text.find("cannot find -l") != std::string::npos)
    return "linker";
  const std::size_t cuda = result.text.find("cuda.cu(");
  return cuda < result.text.find("main.cpp:") ? "its CUDA file" : "its C++ file or binding";
}

// The exception of a text that ended before it asked for anything.
std::string class_of_end(const env::extension_recording& recording) {
  if (recording.ending == env::extension_recording::end::lost)
    return "asks for none: process ended";
  if (recording.ending != env::extension_recording::end::raised) return "asks for none";
  const std::string_view text = base::trim(recording.text);
  const std::string_view last = text.substr(text.rfind('\n') + 1);
  return "asks for none: " + std::string(last.substr(0, last.find(':')));
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
    if (settings_.first > 0)
      files.resize(std::min<std::size_t>(files.size(), static_cast<std::size_t>(settings_.first)));
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
    const std::size_t before = lines_.size();
    base::ordered_json index = base::ordered_json::array();
    for (const auto& request : recording.requests) {
      QUERN_CHECK(one(name, request));
      QUERN_CHECK(keep(name, request, index));
    }
    ++candidates_[outcome_of(recording, before)];
    if (settings_.keep.empty() || index.empty()) return {};
    return base::write_file_atomic(fs::path(settings_.keep) / name / "index.json",
                                   base::dump(index));
  }

  // One word for a candidate; its lines begin at `from`.
  std::string outcome_of(const env::extension_recording& recording, std::size_t from) const {
    if (recording.requests.empty()) return class_of_end(recording);
    std::string outcome = "built, slim";
    for (std::size_t i = from; i < lines_.size(); ++i) {
      if (!lines_[i].built) return "broken: " + class_of_failure(lines_[i].result);
      if (lines_[i].result.by == extension_result::route::full) outcome = "built, full alone";
    }
    return outcome;
  }

  base::status compare(const env::extension_request& request, build_line& line) {
    ++compared_;
    QUERN_TRY(auto torch, build_by_torch(children_, python_, request));
    QUERN_TRY(const auto ours, exported_functions(children_, line.result.artefact));
    line.same_functions = ours == torch.functions;
    line.torch = std::make_unique<torch_figures>(std::move(torch));
    return {};
  }

  base::status one(const std::string& name, const env::extension_request& request) {
    build_line line;
    line.candidate = name;
    QUERN_TRY(line.result, builder_.build(request));
    line.built = line.result.outcome == env::compile_result::kind::built;
    line.wall_s = static_cast<double>(line.result.ms) * 1e-3;
    if (line.built && !line.result.cached && compared_ < settings_.load_inline)
      QUERN_CHECK(compare(request, line));
    std::printf("%-48s %-8s %-6s %8.2f %8.2f", name.c_str(),
                line.built ? line.result.cached ? "cached" : "built" : "error",
                name_of(line.result.by), line.result.core_s, line.wall_s);
    if (line.torch)
      std::printf(" %10.2f %10.2f%s", line.torch->core_s, line.torch->wall_s,
                  !line.torch->built    ? "  DIFFERS"
                  : line.same_functions ? ""
                                        : "  OTHER FUNCTIONS");
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
    int same = 0;
    for (const auto& line : lines_) {
      if (line.torch) differ += line.torch->built != line.built ? 1 : 0;
      if (!line.built) continue;
      ++built;
      if (line.result.cached) continue;
      ++routes[name_of(line.result.by)];
      core.push_back(line.result.core_s);
      wall.push_back(line.wall_s);
      if (!line.torch || !line.torch->built) continue;
      same += line.same_functions ? 1 : 0;
      core_ratio.push_back(line.result.core_s / line.torch->core_s);
      wall_ratio.push_back(line.wall_s / line.torch->wall_s);
    }
    const int routed = routes["slim"] + routes["full"];
    for (const auto& [outcome, count] : candidates_)
      std::printf("candidates, %s: %d\n", outcome.c_str(), count);
    std::printf("extensions: %zu, built: %d\n", lines_.size(), built);
    if (routed > 0)
      std::printf("by the slim route: %d of %d (%.0f %%)\n", routes["slim"], routed,
                  100.0 * routes["slim"] / routed);
    std::printf("median of ours: %.2f core-seconds, %.2f s of wall clock\n", median(core),
                median(wall));
    if (!core_ratio.empty())
      std::printf(
          "median of ours by load_inline's, %zu compared: %.3f of the core-seconds, %.3f of the "
          "wall clock; %d with another outcome, %d with the same exported functions\n",
          core_ratio.size(), median(core_ratio), median(wall_ratio), differ, same);
  }

  env::spawner& children_;
  env::python_torch python_;
  std::string scripts_;
  env::extension_builder& builder_;
  bench_settings settings_;
  std::vector<build_line> lines_;
  int compared_ = 0;
  std::map<std::string, int> candidates_;  ///< how many came to which end
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
  options.limits.wall_s = longest_build_s;
  options.headers_ahead = settings.headers_ahead;
  QUERN_TRY(const auto builder, env::extension_builder::create(*children, options));
  QUERN_CHECK(builder->headers_read());
  return extension_bench(*children, std::move(python), scripts.string(), *builder, settings).run();
}

}  // namespace
}  // namespace quern::tools

int main(int argc, char** argv) {
  quern::tools::bench_settings settings;
  CLI::App app("Builds the extensions of candidates, beside torch's load_inline.");
  app.add_option("folder", settings.folder, "candidates, *.py")->required();
  app.add_option("--only", settings.only, "those whose name has this text");
  app.add_option("--first", settings.first, "only so many, in the order of their names");
  app.add_option("--load-inline", settings.load_inline, "how many are built by torch, too");
  app.add_option("--cache", settings.cache, "artefacts; a fresh folder if not given");
  app.add_option("--python", settings.python, "a Python with torch");
  app.add_flag("--slim-only", settings.slim_only, "no second try with torch's own headers");
  app.add_flag("--headers-ahead", settings.headers_ahead,
               "headers of C++ sources are read before the first build, as evaluators on GPUs do");
  app.add_option("--keep", settings.keep, "folder for modules and index.json");
  CLI11_PARSE(app, argc, argv);
  const auto ran = quern::tools::run_bench(settings);
  if (ran) return 0;
  std::fprintf(stderr, "bench_extensions: %s\n", ran.error().message.c_str());
  return 1;
}
