// bench_gpu mixed: honest and hostile candidates at random, as a host of a run judges them; then
// what was said wrongly of honest ones, and what was left behind.
#include <cmath>
#include <cstdio>
#include <map>
#include <mutex>

#include <fmt/format.h>

#include "base/clock.hpp"
#include "base/random.hpp"
#include "env/device/gpu_probe.hpp"
#include "env/gpu/device_context.hpp"
#include "tools/benchmarks/bench_gpu_judge.hpp"
#include "tools/benchmarks/bench_gpu_leftovers.hpp"

namespace quern::tools {
namespace {

constexpr double hostile_share = 1.0 / 3;
constexpr double other_claim = 0.05;
/// Above such a share a run says on the terminal that it loses samples.
constexpr double most_noisy_percent = 5;
/// The driver's own pools differ by some.
constexpr std::int64_t device_slack = 64 << 20;
constexpr double settle_s = 10;
constexpr int evaluations_a_line = 25;

struct mixed_item {
  const candidate_file* file = nullptr;
  env::evaluation_request request;
};

class mixed_run {
 public:
  explicit mixed_run(const gpu_bench_options& o) : o_(o) {
    gpu_bench_options all = o;
    all.only = "";
    honest_ = honest_files(all);
    for (auto& f : as_host_entry(honest_files(all)))
      honest_.push_back(std::move(f));
    hostile_ = hostile_files(all);
    for (auto& f : as_host_entry(hostile_files(all)))
      hostile_.push_back(std::move(f));
    draw();
  }

  int run();

 private:
  void draw();
  void judge_part(std::size_t from, std::size_t to);
  void on_evaluator(std::size_t which);
  void take(std::size_t item, const judged_file& j, double ms);
  void judge(const candidate_file& f, const judged_file& j, const std::string& line);

  const gpu_bench_options& o_;
  std::vector<candidate_file> honest_, hostile_;
  std::vector<mixed_item> items_;
  std::vector<std::unique_ptr<env::cuda_evaluator>> evaluators_;
  std::unique_ptr<twin_speeds> twins_;
  build_ahead* ahead_ = nullptr;   ///< of the part
  std::size_t from_ = 0, to_ = 0;  ///< the part
  std::atomic<std::size_t> next_{0};
  std::mutex guard_;
  std::map<std::string, std::int64_t> first_claims_;  ///< of honest ones, by file and form
  std::map<hostile_outcome, int> outcomes_;
  std::map<std::string, int> kinds_;
  std::vector<std::string> wrong_, noisy_, accepted_, drifting_, quarantined_;
  int judged_ = 0, honest_seen_ = 0, hostile_seen_ = 0, compared_ = 0;
  base::steady_clock clock_;
  std::int64_t start_ = 0;
  std::string bus_id_;
};

void mixed_run::draw() {
  base::random_stream random(o_.seed, "mix");
  for (int i = 0; i < o_.count; ++i) {
    const auto& from = random.chance(hostile_share) ? hostile_ : honest_;
    mixed_item item;
    item.file = &from[random.below(from.size())];
    item.request = item.file->request;
    // Never the same text twice: a verdict from the cache would judge nothing.
    item.request.source = marked_source(item.request.source, fmt::format("mix_{}", i));
    item.request.seed = static_cast<std::uint64_t>(i);
    items_.push_back(std::move(item));
  }
}

/// By evaluators of its own, which end with it.
void mixed_run::judge_part(std::size_t from, std::size_t to) {
  for (int i = 0; i < o_.evaluators; ++i)
    evaluators_.push_back(open_evaluator(o_));
  if (!twins_) {
    std::vector<candidate_file> drawn;
    for (const auto& item : items_)
      drawn.push_back(*item.file);
    twins_ = std::make_unique<twin_speeds>(*evaluators_.front(), o_, drawn);
  }
  // Artefacts are found by whoever judges: one cache of all evaluators.
  std::vector<env::evaluation_request> requests;
  std::vector<std::size_t> slow;
  for (std::size_t i = from; i < to; ++i) {
    if (!items_[i].file->compiles) slow.push_back(requests.size());
    requests.push_back(items_[i].request);
  }
  next_ = from_ = from;
  to_ = to;
  {
    build_ahead ahead(*evaluators_.front(), requests, o_.threads, slow);
    ahead_ = &ahead;
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < evaluators_.size(); ++i)
      threads.emplace_back([this, i] { on_evaluator(i); });
    for (auto& t : threads)
      t.join();
  }
  evaluators_.clear();
}

void mixed_run::on_evaluator(std::size_t which) {
  for (std::size_t i = next_++; i < to_; i = next_++) {
    ahead_->now_at(i - from_);
    const auto begun = clock_.now_ns();
    const auto j = judge_file(*evaluators_[which], *items_[i].file, items_[i].request, *twins_);
    take(i, j, static_cast<double>(clock_.now_ns() - begun) * 1e-6);
  }
}

void mixed_run::take(std::size_t item, const judged_file& j, double ms) {
  const std::lock_guard lock(guard_);
  const auto& f = *items_[item].file;
  const auto line = fmt::format("{:4} {:<46} {:<11} {:6.0f} ms  {}{}  {}: {}", item, f.file, f.form,
                                ms, short_verdict(j.judged), times_text(j), name_of(j.outcome),
                                j.judged.detail.substr(0, 300));
  ++kinds_[(f.hostile ? "hostile " : "honest  ") + short_verdict(j.judged)];
  ++outcomes_[j.outcome];
  judge(f, j, line);
  if (++judged_ % evaluations_a_line != 0 && judged_ != static_cast<int>(items_.size())) return;
  const auto now = look_at_device(bus_id_);
  int open_files = 0;
  for (const auto& [what, count] : look_at_descriptors())
    open_files += count;
  fmt::print(
      "   {:4} of {}: {:.0f} s; wrong {}, accepted {}, noisy {}; {:.0f} MB of the device, {} files "
      "open\n",
      judged_, items_.size(), static_cast<double>(clock_.now_ns() - start_) * 1e-9, wrong_.size(),
      accepted_.size(), noisy_.size(), static_cast<double>(now.bytes.value_or(0)) / 1e6,
      open_files);
  std::fflush(stdout);
}

/// Under the guard.
void mixed_run::judge(const candidate_file& f, const judged_file& j, const std::string& line) {
  if (j.judged.kind == env::verdict_kind::infra_error &&
      j.judged.detail.find("quarantine") != std::string::npos)
    quarantined_.push_back(line);
  if (f.hostile) {
    ++hostile_seen_;
    if (j.outcome == hostile_outcome::accepted || j.outcome == hostile_outcome::no_twin)
      accepted_.push_back(line);
    if (f.legal && j.outcome != hostile_outcome::as_expected) wrong_.push_back(line);
    return;
  }
  ++honest_seen_;
  // Noise is no verdict; anything else but ok is a wrong one.
  if (j.judged.kind == env::verdict_kind::noisy)
    noisy_.push_back(line);
  else if (j.judged.kind != env::verdict_kind::ok)
    wrong_.push_back(line);
  if (j.judged.kind != env::verdict_kind::ok || !j.judged.speedup_e2) return;
  const auto claim = *j.judged.speedup_e2;
  const auto [first, fresh] = first_claims_.try_emplace(f.file + " " + f.form, claim);
  if (fresh) return;
  ++compared_;
  const double change =
      static_cast<double>(claim) / static_cast<double>(std::max<std::int64_t>(first->second, 1)) -
      1;
  if (std::abs(change) > other_claim)
    drifting_.push_back(fmt::format("{}  first x{:.2f}, now x{:.2f}", line,
                                    static_cast<double>(first->second) / 100,
                                    static_cast<double>(claim) / 100));
}

void print_list(const char* what, const std::vector<std::string>& lines, std::size_t most = 40) {
  if (lines.empty()) return;
  fmt::print("** {}:\n", what);
  for (std::size_t i = 0; i < std::min(lines.size(), most); ++i)
    fmt::print("     {}\n", lines[i]);
  if (lines.size() > most) fmt::print("     and {} more\n", lines.size() - most);
}

/// No evaluator may be open.
bool end_own_context(int gpu) {
  const auto ended = env::device_context::end_cuda_context(gpu);
  if (!ended)
    fmt::print("** GPU {}: the context of this process: {}\n", gpu, ended.error().message);
  return ended.has_value();
}

/// All that one process can have of a device, in bytes, by taking it. The driver keeps what managed
/// memory of candidates took in a pool of its own (64 chunks of 2 MiB at a time), which NVML counts
/// as used until the last process of the device ends or somebody needs it: asked for everything, it
/// gives the pool back.
std::uint64_t take_all(int gpu) {
  constexpr std::uint64_t largest = 4ULL << 30, smallest = 2ULL << 20;
  auto context = env::device_context::open(gpu);
  if (!context) {
    fmt::print("** GPU {}: its memory cannot be asked for: {}\n", gpu, context.error().message);
    return 0;
  }
  std::vector<env::device_allocation> pieces;
  std::uint64_t all = 0;
  for (std::uint64_t size = largest; size >= smallest; size /= 2)
    for (auto allocation = (*context)->allocate(size); allocation;
         allocation = (*context)->allocate(size)) {
      all += allocation->bytes();
      pieces.push_back(std::move(*allocation));
    }
  return all;
}

/// Ends of processes are waited for by Linux, memory is given back by the driver: not at once.
host_leftovers leftovers_once_settled(const host_snapshot& before, const std::string& bus_id,
                                      host_snapshot& after) {
  const base::steady_clock clock;
  const auto start = clock.now_ns();
  for (;;) {
    after = look_at_host(bus_id);
    auto left = left_behind(before, after);
    const bool clean = left.processes.empty() && left.files.empty() && left.descriptors.empty() &&
                       left.device_bytes <= device_slack;
    if (clean || static_cast<double>(clock.now_ns() - start) * 1e-9 > settle_s) return left;
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  }
}

int mixed_run::run() {
  const auto host = env::list_gpus();
  const auto gpu = static_cast<std::size_t>(o_.gpus.front());
  if (host && gpu < host->gpus.size()) bus_id_ = host->gpus[gpu].bus_id;
  // What the first evaluation of this process leaves (contexts, locks, the compilers' cache) is
  // there before anybody looks.
  (void)open_evaluator(o_)->evaluate(honest_.front().request);
  const auto all_before = take_all(o_.gpus.front());
  const auto first = look_at_host(bus_id_);
  bool ended = end_own_context(o_.gpus.front());
  const auto before = look_at_host(bus_id_);
  start_ = clock_.now_ns();
  const auto part = o_.settle_every > 0 ? static_cast<std::size_t>(o_.settle_every) : items_.size();
  for (std::size_t from = 0; from < items_.size(); from += part) {
    const std::size_t to = std::min(from + part, items_.size());
    judge_part(from, to);
    if (to == items_.size()) break;
    ended &= end_own_context(o_.gpus.front());
    host_snapshot now;
    const auto left = leftovers_once_settled(before, bus_id_, now);
    fmt::print("   {:4} of {}: all processes ended; {:.2f} MB of the device left behind\n", to,
               items_.size(), static_cast<double>(left.device_bytes) / 1e6);
    std::fflush(stdout);
  }
  const double seconds = static_cast<double>(clock_.now_ns() - start_) * 1e-9;
  const auto unasked = look_at_device(bus_id_);
  const auto all_after = take_all(o_.gpus.front());
  host_snapshot with_context;
  const auto left_with_context = leftovers_once_settled(first, bus_id_, with_context);
  // What stays without the context that the driver keeps for this process is nobody's.
  ended &= end_own_context(o_.gpus.front());
  host_snapshot after;
  const auto left = leftovers_once_settled(before, bus_id_, after);

  fmt::print("{} evaluations in {:.1f} s: {} honest, {} hostile, seed {}\n", items_.size(), seconds,
             honest_seen_, hostile_seen_, o_.seed);
  for (const auto& [kind, n] : kinds_)
    fmt::print("   {:<36} {}\n", kind, n);
  for (const auto& [outcome, n] : outcomes_)
    fmt::print("   {:<36} {}\n", name_of(outcome), n);
  print_list("wrong verdicts on honest ones", wrong_);
  print_list("honest ones that were noisy three times", noisy_);
  print_list("hostile ones that were accepted", accepted_);
  print_list("claims that differ from the first of the same kernel by more than 5 % (a warning)",
             drifting_);
  print_list("quarantine", quarantined_, 5);
  print_list("processes left behind", left.processes);
  print_list("new processes of others (not counted)", left.foreign_processes, 10);
  print_list("files left behind", left.files);
  print_list("files left open in this process", left.descriptors);
  fmt::print(
      "   device: {:.1f} MB used before; {:.1f} once all had ended, {:.1f} after somebody had "
      "asked for "
      "all of it, {:.1f} without this process's context; processes {} before, {} after\n",
      static_cast<double>(before.device.bytes.value_or(0)) / 1e6,
      static_cast<double>(unasked.bytes.value_or(0)) / 1e6,
      static_cast<double>(with_context.device.bytes.value_or(0)) / 1e6,
      static_cast<double>(after.device.bytes.value_or(0)) / 1e6,
      before.device.processes.value_or(0), after.device.processes.value_or(0));
  figure_table table;
  const auto count = [&](const char* name, std::size_t n, std::int64_t of) {
    table.at_most(name, static_cast<double>(n), 0, "", of);
  };
  count("wrong verdicts on honest candidates", wrong_.size(), honest_seen_);
  table.at_most("honest candidates that were noisy",
                honest_seen_ > 0 ? 100.0 * static_cast<double>(noisy_.size()) / honest_seen_ : 0,
                most_noisy_percent, "%", honest_seen_);
  count("hostile candidates that were accepted", accepted_.size(), hostile_seen_);
  count("evaluations that met a quarantine", quarantined_.size(),
        static_cast<std::int64_t>(items_.size()));
  count("processes left behind", left.processes.size(),
        static_cast<std::int64_t>(after.processes.size()));
  count("files left behind", left.files.size(), static_cast<std::int64_t>(after.files.size()) + 1);
  count("kinds of files left open", left.descriptors.size(),
        static_cast<std::int64_t>(after.descriptors.size()));
  count("contexts of this process that could not be ended", ended ? 0 : 1, 1);
  const auto memory = [&](const char* name, const host_leftovers& one) {
    table.at_most(name, static_cast<double>(std::max<std::int64_t>(one.device_bytes, 0)) / 1e6,
                  static_cast<double>(device_slack) / 1e6, "MB", after.device.bytes ? 1 : 0);
  };
  table.at_most("device memory that can no longer be had",
                static_cast<double>(all_before) / 1e6 - static_cast<double>(all_after) / 1e6,
                static_cast<double>(device_slack) / 1e6, "MB", all_before > 0 ? 1 : 0);
  memory("device memory left behind", left_with_context);
  memory("device memory left behind without a context", left);
  const int missed = table.print();
  fmt::print("   other claims than at first: {} of {} (a warning)\n", drifting_.size(), compared_);
  return missed == 0 ? 0 : 1;
}

}  // namespace

int bench_mixed(const gpu_bench_options& o) {
  return mixed_run(o).run();
}

}  // namespace quern::tools
