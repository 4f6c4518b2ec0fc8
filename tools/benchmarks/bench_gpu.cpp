// How well and how fast lane `cuda` judges, on a GPU:
//
//   bench_gpu honest [--suite NAME]      tests/honest/cuda: every verdict that is not `ok`
//   bench_gpu hostile [--no-screen]      tests/hostile/cuda: every verdict that is not among the
//                                        right ones; --host-entry judges plans as host code;
//                                        --repeat N --only A,B: the false-accept rate
//   bench_gpu self [--whole]             a kernel against itself, and against itself made slower;
//                                        --whole: kernels of cuda_quick instead of made-up ones;
//                                        --calibrate: evaluators of this host go by it from now on
//   bench_gpu agreement [--long-s S]     the usual measurement against one of S seconds; with --out
//                                        in parts, --from and --to
//   bench_gpu mixed [--count N]          honest and hostile ones at random: wrong verdicts, and
//                                        what is left behind
//   bench_gpu rate [--form F]            distinct candidates of cuda_quick an hour, and where the
//                                        time goes; --gpus 0,1: what they do together over what
//                                        one does
//
// A figure that is wanted stands beside the one reached; the exit code is 1 where one is missed.
#include "tools/benchmarks/bench_gpu.hpp"

#include <cstdio>
#include <map>

#include <CLI/CLI.hpp>

namespace quern::tools {
namespace {

const std::map<std::string, int (*)(const gpu_bench_options&)> gpu_bench_modes = {
    {"honest", bench_honest},       {"hostile", bench_hostile}, {"self", bench_self},
    {"agreement", bench_agreement}, {"mixed", bench_mixed},     {"rate", bench_rate}};

int bench_gpu(int argc, char** argv) {
  CLI::App app{"How well and how fast lane cuda judges."};
  gpu_bench_options o;
  app.add_option("what", o.what, "honest, hostile, self, agreement, mixed or rate")
      ->required()
      ->check(CLI::IsMember(gpu_bench_modes));
  app.add_option("--suite", o.suite, "honest, rate: only this suite");
  app.add_option("--only", o.only, "files or kernels whose name contains one of these: A,B");
  app.add_option("--form", o.form, "device_only or host_entry")
      ->check(CLI::IsMember({"device_only", "host_entry"}));
  app.add_option("--source", o.source, "the source tree")->capture_default_str();
  app.add_option("--trials", o.trials, "self: of each kernel")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  app.add_option("--rounds", o.rounds, "rate")->check(CLI::Range(1, 100000))->capture_default_str();
  app.add_option("--repeat", o.repeat, "hostile: tries of each candidate")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  app.add_option("--count", o.count, "mixed: evaluations")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  app.add_option("--evaluators", o.evaluators, "mixed: side by side on the GPU")
      ->check(CLI::Range(1, 8))
      ->capture_default_str();
  app.add_option("--settle-every", o.settle_every,
                 "mixed: after so many evaluations all processes end, and what the device still "
                 "holds is printed; 0: at the end only")
      ->check(CLI::Range(0, 1000000))
      ->capture_default_str();
  app.add_option("--seed", o.seed, "mixed: which, in which order")->capture_default_str();
  app.add_option("--kernels", o.kernels, "agreement")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--from", o.from, "agreement: the first of them, from 0");
  app.add_option("--to", o.to, "agreement: one behind the last");
  app.add_option("--long-s", o.long_s, "agreement: seconds of the long measurement")
      ->check(CLI::Range(0.5, 3600.0))
      ->capture_default_str();
  app.add_option("--out", o.out, "agreement: a line each; what it has is not measured again");
  app.add_option("--threads", o.threads, "compilers")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  app.add_option("--gpu,--gpus", o.gpus,
                 "agreement, rate: 0,1,… work side by side; others: the first")
      ->delimiter(',')
      ->check(CLI::Range(0, 63));
  app.add_option("--budget-s", o.budget_s, "seconds of measuring one candidate")
      ->check(CLI::Range(0.02, 3600.0))
      ->capture_default_str();
  bool no_screen = false;
  app.add_flag("--no-screen", no_screen, "without the static screen");
  app.add_flag("--host-entry", o.host_entry, "honest, hostile: judge plans as host code");
  app.add_flag("--whole", o.whole, "self: kernels of cuda_quick, each its own task's baseline");
  app.add_flag("--calibrate", o.calibrate,
               "self: evaluators of this host take what was seen as the null distribution of the "
               "device's class");
  app.add_flag("--best-effort", o.best_effort, "run although sandbox layers are missing");
  app.add_flag("--no-sandbox", o.no_sandbox, "no layer of the sandbox, to see what it costs");
  CLI11_PARSE(app, argc, argv);
  o.screen = !no_screen;
  if (o.gpus.empty()) o.gpus = {0};
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  return gpu_bench_modes.at(o.what)(o);
}

}  // namespace
}  // namespace quern::tools

int main(int argc, char** argv) {
  return quern::tools::bench_gpu(argc, argv);
}
