// What the modes of bench_gpu share: options, lists of candidates, evaluators, requests built
// ahead.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "env/lanes/cuda/cuda_evaluator.hpp"

namespace quern::tools {

struct gpu_bench_options {
  std::string what, suite, only, form, source = ".", out;
  int trials = 20, rounds = 1, threads = 8, repeat = 1, count = 500, kernels = 20, evaluators = 1;
  int settle_every = 0;  ///< evaluations; 0: at the end only
  int from = 0, to = 1000000;
  std::vector<int> gpus = {0};
  std::uint64_t seed = 1;
  double budget_s = 0.15, long_s = 30;
  bool screen = true, whole = false, host_entry = false, best_effort = false, no_sandbox = false;
  bool calibrate = false;
};

/// One file of tests/honest/cuda or tests/hostile/cuda, with the verdicts that are right.
struct candidate_file {
  std::string file, form;
  std::vector<std::string> right;  ///< "ok", "hack:timing", …: one, but for races
  bool hostile = false;
  bool legal = true;     ///< `ok` at any speed is right
  bool compiles = true;  ///< false: it attacks the compiler, for as long as that may take
  bool also_as_host_entry = false;
  std::vector<std::string> right_as_host;  ///< hostile: in the place of `right` when judged so
  /// Where `ok` is right only if it does not pay: an honest file of the same folder, and the most
  /// that this one's speed-up may be of that one's, x 100.
  std::string twin;
  std::int64_t pays_at_most_e2 = 0;
  env::evaluation_request request;
};

/// Whether --only names it.
bool is_asked_for(const gpu_bench_options& o, const std::string& name);

/// tests/honest/cuda by --suite, --form, --only; tests/hostile/cuda by --form, --only and the
/// screen, without what touches settings of the device. Exits with a message where a file is
/// missing.
std::vector<candidate_file> honest_files(const gpu_bench_options& o);
std::vector<candidate_file> hostile_files(const gpu_bench_options& o);

/// The same list to be judged as host-entry, without those that are no host code: `right` stands
/// for the host-entry form.
std::vector<candidate_file> as_host_entry(std::vector<candidate_file> list);

std::string short_verdict(const env::verdict& v);
bool is_right(const env::verdict& v, const std::vector<std::string>& right);

/// A constant more makes it a source that was never built. Lines stay where they are.
std::string marked_source(const std::string& source, const std::string& mark);

/// Opens an evaluator as the options say and warms it up; exits with a message where it cannot.
std::unique_ptr<env::cuda_evaluator> open_evaluator(const gpu_bench_options& o, int gpu,
                                                    double budget_s, double precision);
/// The first of --gpus, with --budget-s.
std::unique_ptr<env::cuda_evaluator> open_evaluator(const gpu_bench_options& o);

/// Builds candidates before their turn, a bounded number ahead. Those in `first` are begun at once,
/// by threads of their own.
class build_ahead {
 public:
  build_ahead(env::cuda_evaluator& with, const std::vector<env::evaluation_request>& list,
              int threads, std::vector<std::size_t> first = {});
  ~build_ahead();
  build_ahead(const build_ahead&) = delete;
  build_ahead& operator=(const build_ahead&) = delete;
  void now_at(std::size_t turn) { turn_ = turn; }

 private:
  void work();
  env::cuda_evaluator& evaluator_;
  const std::vector<env::evaluation_request>& list_;
  std::vector<char> taken_;
  std::atomic<std::size_t> next_{0}, turn_{0};
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

/// The modes; each prints and returns the exit code.
int bench_honest(const gpu_bench_options& o);
int bench_hostile(const gpu_bench_options& o);
int bench_self(const gpu_bench_options& o);
int bench_agreement(const gpu_bench_options& o);
int bench_mixed(const gpu_bench_options& o);
int bench_rate(const gpu_bench_options& o);
/// bench_rate for several GPUs: what they do together over what one does.
int bench_devices(const gpu_bench_options& o);

}  // namespace quern::tools
