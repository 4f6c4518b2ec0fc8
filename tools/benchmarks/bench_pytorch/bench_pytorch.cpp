// How well lane `pytorch` judges, on a GPU or, for what needs none, on a core:
//
//   bench_pytorch honest               tests/honest/pytorch: every verdict that is not `ok` or noisy
//   bench_pytorch hostile [--seeds N]  tests/hostile/pytorch: every one that is accepted
//   bench_pytorch mixed [--count N]    both at random: wrong verdicts, and what is left behind
//   bench_pytorch rate FOLDER...       distinct candidates an hour, first builds included, and where
//                                      each second goes; --kernelbench-beside N: KernelBench's own
//                                      evaluator on N of them with inline CUDA, which are trusted
//   bench_pytorch agreement FOLDER...  the same verdict by slim and by full builds
//   bench_pytorch self [--count N]     references as candidates, and with 2, 5 and 20 % more work:
//                                      what is claimed of them, and by how much it is off
//
// FOLDER has folders with NAME/reference.py and NAME/candidate.py, or KernelBench's files
// level_<L>_problem_<P>_sample_<S>_kernel.py, whose tasks are those of --kernelbench TREE.
// --gpu N judges on that GPU. --core judges on a core what needs no GPU; of the rest extensions and
// Triton kernels are built. --part K/N does a share, which ends after 9 minutes. A figure that is
// wanted stands beside the one reached. Exit code 1: one is missed; 2: it could not be measured.
#include "tools/benchmarks/bench_pytorch/bench_pytorch.hpp"

#include <cstdio>
#include <map>

#include <CLI/CLI.hpp>

#include "tools/cli/parse.hpp"

namespace quern::tools {
namespace {

const std::map<std::string, int (*)(const pytorch_bench_options&)> pytorch_bench_modes = {
    {"honest", bench_honest_modules},         {"hostile", bench_hostile_modules},
    {"mixed", bench_mixed_modules},           {"rate", bench_rate_of_modules},
    {"agreement", bench_agreement_of_builds}, {"self", bench_modules_against_themselves}};

/// "K/N" with K from 1 to N; empty: it is.
std::string read_part(const std::string& text, pytorch_bench_options& o) {
  int used = 0;
  if (std::sscanf(text.c_str(), "%d/%d%n", &o.part, &o.parts, &used) == 2 &&
      static_cast<std::size_t>(used) == text.size() && 1 <= o.part && o.part <= o.parts &&
      o.parts <= 1000)
    return {};
  return "'" + text + "' is not K/N with K from 1 to N, N at most 1000: say 1/3, 2/3 and 3/3";
}

int bench_pytorch(int argc, char** argv) {
  CLI::App app{"How well lane pytorch judges.", "bench_pytorch"};
  pytorch_bench_options o;
  std::string part = "1/1";
  bool core = false;
  app.add_option("what", o.what, "honest, hostile, mixed, rate, agreement or self")
      ->required()
      ->check(CLI::IsMember(pytorch_bench_modes));
  app.add_option("folders", o.folders, "rate, agreement: folders of candidates");
  auto* gpu = app.add_option("--gpu", o.gpu, "judge on this GPU, by the driver's number")
                  ->check(whole_within(0, 63));
  app.add_flag("--core", core, "judge on a core what needs no GPU")->excludes(gpu);
  app.add_option("--part", part, "K/N: a share of the work");
  app.add_option("--source", o.source, "the source tree")->capture_default_str();
  app.add_option("--only", o.only, "candidates whose name contains one of these: A,B");
  // As the seeds of a configuration.
  app.add_option("--seed", o.seed, "of what is drawn")
      ->check(whole_within(0, 9'000'000'000'000'000))
      ->capture_default_str();
  app.add_option("--seeds", o.seeds, "hostile: trials of each candidate")
      ->check(whole_within(1, 1000))
      ->capture_default_str();
  app.add_option("--count", o.count,
                 "of all parts together. mixed: evaluations (default: 500); self: of references as "
                 "they are (default: 200)")
      ->check(whole_within(1, 1000000));
  app.add_flag("--honest", o.honest, "rate, agreement: those of tests/honest/pytorch, too");
  auto* tree =
      app.add_option("--kernelbench", o.kernelbench, "rate, agreement: a clone of its tree")
          ->check(CLI::ExistingDirectory);
  app.add_option(
         "--kernelbench-beside", o.beside,
         "rate: so many with inline CUDA, drawn by --seed, are also judged by KernelBench's "
         "evaluator, which has no sandbox")
      ->needs(tree)
      ->needs(gpu)
      ->check(whole_within(1, 1000));
  app.add_option("--kernelbench-at-once", o.at_once,
                 "rate: evaluations by KernelBench's evaluator side by side, each timed by itself")
      ->check(whole_within(1, 16))
      ->capture_default_str();
  app.add_flag("--beside-only", o.beside_only, "rate: nothing but --kernelbench-beside");
  app.add_option("--python", o.python,
                 "rate: a Python with what KernelBench's evaluator needs (torch, numpy, pydantic); "
                 "default: that of candidates");
  app.add_option(
      "--verdicts", o.verdicts,
      "rate: file that gets a line of JSON for each verdict: name, kind, reason, detail, "
      "and where it was timed speedup and ref_us");
  app.add_option(
         "--windows", o.windows,
         "honest, rate, self: file that gets a line of JSON for each timed window: side, whether "
         "of "
         "calls or of deliveries, when it began, and nanoseconds of each and of looks at its core "
         "(env/judge/core_pace.hpp); behind those of an "
         "evaluation one with its place in the list, task and verdict")
      ->needs(gpu);
  app.add_option(
         "--window-us", o.window_us,
         "what a window of the reference lasts (default: 1000, as in a run), in at least two calls "
         "and at most 32 a millisecond; times are not comparable with a run's")
      ->needs(gpu)
      ->check(number_within(100, 30000));
  app.add_option("--limit-s", o.limit_s,
                 "seconds after which it ends and prints the figures of what it has; the last 55 "
                 "begin nothing new")
      ->check(number_within(60, 86400))
      ->capture_default_str();
  app.add_option("--budget-s", o.budget_s, "seconds of measuring one candidate")
      ->check(number_within(0.05, 60))
      ->capture_default_str();
  app.add_option("--precision", o.precision,
                 "measuring ends before its budget once both half-widths of ln(speed-up) are this "
                 "small (docs/measuring.md)")
      ->check(number_within(0.001, 0.06))
      ->capture_default_str();
  app.add_option("--evaluators", o.evaluators, "rate: side by side on the device")
      ->check(whole_within(1, 8))
      ->capture_default_str();
  app.add_option("--compilers", o.compilers,
                 "threads that build ahead, of all evaluators together; 0: by the cores")
      ->check(whole_within(0, 64))
      ->capture_default_str();
  app.add_option("--sandbox", o.sandbox, "required or best_effort")
      ->check(CLI::IsMember({"required", "best_effort"}))
      ->capture_default_str();
  if (const auto code = parse(app, argc, argv)) return *code;
  std::string wrong = read_part(part, o);
  if (wrong.empty() && !o.gpu && !core) wrong = "say --gpu N, or --core";
  const bool takes_folders = o.what == "rate" || o.what == "agreement";
  if (wrong.empty() && !takes_folders && !o.folders.empty())
    wrong = "'" + o.folders.front() + "': " + o.what + " takes no folder, rate and agreement do";
  if (wrong.empty() && o.what == "mixed" && !o.only.empty())
    wrong = "--only " + o.only + ": mixed draws from all candidates; leave it out";
  if (wrong.empty() && o.beside_only && o.beside == 0)
    wrong = "--beside-only is for --kernelbench-beside N: say how many";
  if (wrong.empty() && !o.windows.empty() && o.evaluators > 1)
    wrong = "--windows is for one evaluator: windows of several would be mixed";
  const bool has_windows = o.what == "honest" || o.what == "rate" || o.what == "self";
  if (wrong.empty() && !o.windows.empty() && !has_windows)
    wrong = "--windows is for honest, rate and self, not for " + o.what;
  if (wrong.empty() && o.what == "self" && core)
    wrong = "self is for a GPU: say --gpu N, or measure on a core by bench_modules";
  if (!wrong.empty()) {
    std::fprintf(stderr, "bench_pytorch: %s\n", wrong.c_str());
    return 2;
  }
  if (o.count == 0) o.count = o.what == "self" ? 200 : 500;
  // As a host of a run asks again, and nothing else does.
  if (o.what == "mixed") o.tries = 3;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  return pytorch_bench_modes.at(o.what)(o);
}

}  // namespace
}  // namespace quern::tools

int main(int argc, char** argv) {
  return quern::tools::bench_pytorch(argc, argv);
}
