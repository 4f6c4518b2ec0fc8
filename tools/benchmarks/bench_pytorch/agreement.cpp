// bench_pytorch agreement: the same verdict by slim and by full builds of extensions.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/program.hpp"
#include "base/text.hpp"
#include "tools/benchmarks/bench_gpu_figures.hpp"
#include "tools/benchmarks/bench_pytorch/rate_list.hpp"

namespace quern::tools {
namespace {

namespace fs = std::filesystem;

constexpr double least_agreeing = 50;
constexpr const char* headers_folder = "env/lanes/pytorch/build/headers";
constexpr const char* share_variable = "QUERN_SHARE";

/// While it lives, evaluators that are opened find slim headers that compile nothing, so that each
/// extension is built with torch's own headers.
class full_builds {
 public:
  static base::expected<full_builds> begin() {
    if (std::getenv(share_variable) != nullptr)
      return base::fail(base::errc::invalid_argument,
                        "{} is set, and this mode sets it for its full builds: unset it",
                        share_variable);
    QUERN_TRY(const auto headers, base::share_folder(headers_folder));
    QUERN_TRY(auto folder, base::temp_folder::make("quern-full-builds"));
    std::error_code error;
    const fs::path copy = folder.path() / headers_folder;
    fs::create_directories(copy.parent_path(), error);
    fs::copy(headers, copy, fs::copy_options::recursive, error);
    if (error)
      return base::fail(base::errc::io, "copying {}: {}", headers.string(), error.message());
    // Each slim build has it, the support object has not.
    QUERN_CHECK(base::write_file_atomic(copy / "quern_binding.h",
                                        "#error \"this evaluator builds with torch's headers\"\n"));
    ::setenv(share_variable, folder.path().c_str(), 1);
    return full_builds(std::move(folder));
  }
  ~full_builds() {
    if (folder_) ::unsetenv(share_variable);
  }
  full_builds(full_builds&& other) noexcept : folder_(std::move(other.folder_)) {
    other.folder_.reset();
  }
  full_builds& operator=(full_builds&&) = delete;

 private:
  explicit full_builds(base::temp_folder folder) : folder_(std::move(folder)) {}
  std::optional<base::temp_folder> folder_;
};

struct route_verdict {
  std::string kind, detail;
  std::int64_t built_ms = 0;
  bool judges = false;  ///< it says something about the candidate
};
using route_verdicts = std::map<std::size_t, route_verdict>;

base::expected<route_verdicts> judge_route(const pytorch_bench_options& o, const char* route,
                                           const std::vector<rated_module>& all,
                                           const std::vector<std::size_t>& places,
                                           const bench_part& part) {
  QUERN_TRY(const auto judge, open_module_judge(o));
  std::vector<env::evaluation_request> requests;
  for (const rated_module& one : all) {
    requests.push_back(rated_request(one, o.seed));
    requests.back().verify_only = true;
  }
  route_verdicts found;
  judge_in_turn({judge.get()}, requests, places, o, part,
                [&](std::size_t place, const env::verdict& v, double seconds) {
                  fmt::print("   {} {:<44} {:5.1f} s  {}\n", route, all[place].name, seconds,
                             kind_text(v));
                  found[place] = {kind_text(v), base::one_line(v.detail).substr(0, 300),
                                  v.compiler ? v.compiler->ms : 0, env::judges_candidate(v.kind)};
                });
  return found;
}

base::expected<bool> compare_routes(const pytorch_bench_options& o) {
  const bench_part part(o);
  QUERN_TRY(auto all, read_rated_modules(o));
  std::erase_if(all, [&](const rated_module& one) {
    return o.gpu ? !one.has_cuda : one.source.find("load_inline") == std::string::npos;
  });
  const auto places = part.places(all.size());
  QUERN_TRY(const auto slim, judge_route(o, "slim", all, places, part));
  route_verdicts full;
  {
    QUERN_TRY(const auto switched, full_builds::begin());
    QUERN_TRY(full, judge_route(o, "full", all, places, part));
  }
  int both = 0, judged = 0, differ = 0;
  std::map<std::string, int> kinds;
  std::int64_t slim_ms = 0, full_ms = 0;
  for (const auto& [place, one] : slim) {
    const auto other = full.find(place);
    if (other == full.end()) continue;
    ++both;
    judged += one.judges && other->second.judges ? 1 : 0;
    ++kinds[one.kind];
    slim_ms += one.built_ms;
    full_ms += other->second.built_ms;
    if (one.kind == other->second.kind) continue;
    ++differ;
    fmt::print("** {}: slim {} ({}), full {} ({})\n", all[place].name, one.kind, one.detail,
               other->second.kind, other->second.detail);
  }
  for (const auto& [kind, count] : kinds)
    fmt::print("   {:<34} {}\n", kind, count);
  fmt::print(
      "agreement {} of {} candidates by both, {} with a verdict on them by both, part {} of {}; "
      "builds took {:.1f} s slim, "
      "{:.1f} s full, in {:.0f} s\n",
      both, all.size(), judged, o.part, o.parts, static_cast<double>(slim_ms) / 1000,
      static_cast<double>(full_ms) / 1000, part.seconds());
  figure_table table;
  table.at_least("candidates judged by both builds, this part's share of 50", judged,
                 std::ceil(least_agreeing / static_cast<double>(o.parts)), "", both);
  table.at_most("candidates with another verdict by full builds", differ, 0, "", both);
  return table.print() == 0 && both == static_cast<int>(places.size());
}

}  // namespace

int bench_agreement_of_builds(const pytorch_bench_options& o) {
  const auto met = compare_routes(o);
  return !met ? bench_failed(met.error()) : *met ? 0 : 1;
}

}  // namespace quern::tools
