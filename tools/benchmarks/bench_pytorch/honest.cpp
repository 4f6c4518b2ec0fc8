// bench_pytorch honest: candidates that are right, in the styles of those that people write.
#include <cstdio>

#include <fmt/format.h>

#include "base/text.hpp"
#include "tools/benchmarks/bench_gpu_figures.hpp"
#include "tools/benchmarks/bench_pytorch/bench_pytorch.hpp"
#include "tools/benchmarks/bench_pytorch/build_check.hpp"
#include "tools/benchmarks/bench_pytorch/module_files.hpp"

namespace quern::tools {
namespace {

constexpr double least_honest = 60;

struct honest_counts {
  int judged = 0, ok = 0, noisy = 0, unsupported = 0, flagged = 0;
};

/// Whether the verdict is one that an honest candidate may get.
bool take_honest(const honest_module& one, const env::verdict& v, honest_counts& counts) {
  ++counts.judged;
  if (v.kind == env::verdict_kind::ok && one.is_supported) return ++counts.ok;
  if (v.kind == env::verdict_kind::noisy && one.is_supported) return ++counts.noisy;
  if (v.kind == env::verdict_kind::unsupported && !one.is_supported) return ++counts.unsupported;
  ++counts.flagged;
  return false;
}

std::vector<env::evaluation_request> requests_of_honest(const std::vector<honest_module>& all,
                                                        const pytorch_bench_options& o) {
  std::vector<env::evaluation_request> requests;
  for (const honest_module& one : all) {
    env::evaluation_request request;
    request.subject = one.subject;
    request.source = one.source;
    request.seed = o.seed;
    // Without a GPU nothing here is about time.
    request.verify_only = !o.gpu.has_value();
    requests.push_back(std::move(request));
  }
  return requests;
}

struct build_counts {
  int tried = 0, failed = 0;
};

/// Builds what cannot run without a GPU.
base::expected<build_counts> build_the_rest(const std::vector<honest_module>& all,
                                            const pytorch_bench_options& o,
                                            const bench_part& part) {
  const auto mode =
      o.sandbox == "required" ? env::sandbox_mode::required : env::sandbox_mode::best_effort;
  QUERN_TRY(const auto check, build_check::open(mode));
  build_counts counts;
  for (const std::size_t place : part.places(all.size())) {
    const honest_module& one = all[place];
    if (one.on_cores) continue;
    QUERN_TRY(const auto parts, check->build(one));
    ++counts.tried;
    counts.failed += parts.problem.empty() ? 0 : 1;
    fmt::print("{} {:<38} {} extensions, {} files of kernels  {}\n",
               parts.problem.empty() ? "  " : "**", one.name, parts.extensions, parts.kernels,
               base::one_line(parts.problem).substr(0, 300));
  }
  return counts;
}

base::expected<bool> judge_honest(const pytorch_bench_options& o) {
  const bench_part part(o);
  QUERN_TRY(auto all, read_honest_modules(o.source));
  const auto whole = static_cast<double>(all.size());
  QUERN_CHECK(keep_named(all, o.only));
  QUERN_TRY(const auto judge, open_module_judge(o));
  std::vector<std::size_t> places;
  for (const std::size_t place : part.places(all.size()))
    if (o.gpu || all[place].on_cores) places.push_back(place);
  honest_counts counts;
  const bool whole_part =
      judge_in_turn({judge.get()}, requests_of_honest(all, o), places, o, part,
                    [&](std::size_t place, const env::verdict& v, double seconds) {
                      const bool fine = take_honest(all[place], v, counts);
                      fmt::print("{} {:<38} {:5.1f} s  {} {}  {}\n", fine ? "  " : "**",
                                 all[place].name, seconds, kind_text(v), speed_text(v),
                                 fine ? "" : base::one_line(v.detail).substr(0, 400));
                    });
  figure_table table;
  build_counts built;
  if (!o.gpu) {
    QUERN_TRY(built, build_the_rest(all, o, part));
  }
  fmt::print(
      "honest {} judged in {:.0f} s, part {} of {}: ok {}, noisy {}, torch.compile (unsupported) "
      "{}; built without being judged {}\n",
      counts.judged, part.seconds(), o.part, o.parts, counts.ok, counts.noisy, counts.unsupported,
      built.tried);
  if (built.tried > 0)
    table.at_most("honest candidates that could not be built", built.failed, 0, "", built.tried);
  table.at_least("honest candidates, all parts", whole, least_honest, "", 1);
  table.at_most("honest candidates called anything but ok, noisy or that", counts.flagged, 0, "",
                counts.judged);
  return table.print() == 0 && whole_part;
}

}  // namespace

int bench_honest_modules(const pytorch_bench_options& o) {
  const auto met = judge_honest(o);
  return !met ? bench_failed(met.error()) : *met ? 0 : 1;
}

}  // namespace quern::tools
