// bench_pytorch mixed: honest and hostile candidates at random, as a host of a run judges them;
// then what was said wrongly of honest ones, and what was left behind.
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <map>
#include <thread>

#include <fmt/format.h>
#include <unistd.h>

#include "base/random.hpp"
#include "base/text.hpp"
#include "env/device/gpu_probe.hpp"
#include "env/gpu/device_context.hpp"
#include "env/sandbox/cgroup.hpp"
#include "tools/benchmarks/bench_gpu_figures.hpp"
#include "tools/benchmarks/bench_gpu_leftovers.hpp"
#include "tools/benchmarks/bench_pytorch/hostile_list.hpp"

namespace quern::tools {
namespace {

namespace fs = std::filesystem;

constexpr double share_of_hostile = 1.0 / 3;
constexpr double most_noisy_honest = 5;  ///< percent
constexpr double most_undecided = 5;     ///< percent of hostile ones
/// The driver's own pools differ by some.
constexpr std::int64_t slack_of_device = 64 << 20;
constexpr double settling_s = 10;
/// A candidate that does the reference's work claims more than that too rarely to be met here.
constexpr std::int64_t most_by_chance_e2 = 103;

struct drawn_module {
  const honest_module* honest = nullptr;  ///< one of the two
  const hostile_module* hostile = nullptr;
};

struct mixed_tally {
  std::map<std::string, int> kinds;
  std::vector<std::string> wrong, noisy, accepted, undecided;
  int honest = 0, hostile = 0;
};

class mixed_modules {
 public:
  explicit mixed_modules(const pytorch_bench_options& o) : o_(o), part_(o) {}
  base::expected<bool> run();

 private:
  base::status draw();
  void take(std::size_t place, const env::verdict& v, double seconds);
  base::expected<bool> judge_all();
  bool end_cuda_context();
  [[nodiscard]] host_leftovers settled_leftovers(const host_snapshot& before,
                                                 host_snapshot& after) const;
  /// Control groups that carry this process's number.
  [[nodiscard]] std::vector<std::string> own_groups() const;
  bool print_all(const host_leftovers& left, const host_snapshot& after,
                 const std::vector<std::string>& groups, bool ended);

  const pytorch_bench_options& o_;
  bench_part part_;
  std::vector<honest_module> honest_;
  std::vector<hostile_module> hostile_;
  std::vector<drawn_module> drawn_;
  std::vector<env::evaluation_request> requests_;
  mixed_tally tally_;
  std::string bus_id_;
  int judged_ = 0;
};

base::status mixed_modules::draw() {
  QUERN_TRY(honest_, read_honest_modules(o_.source));
  std::erase_if(honest_, [&](const honest_module& one) { return !o_.gpu && !one.on_cores; });
  QUERN_TRY(hostile_, read_hostile_of_device(o_));
  // A gap that is known would be told as what it is in each run.
  std::erase_if(hostile_, [](const hostile_module& one) { return one.is_known_gap; });
  QUERN_TRY(const auto subjects, read_hostile_subjects(o_));
  base::random_stream random(o_.seed, "mixed modules");
  for (int i = 0; i < o_.count; ++i) {
    drawn_module one;
    env::evaluation_request request;
    const auto trial = o_.seed * 1000000 + static_cast<std::uint64_t>(i);
    if (random.chance(share_of_hostile)) {
      one.hostile = &hostile_[random.below(hostile_.size())];
      request = hostile_request(*one.hostile, subjects, trial);
    } else {
      one.honest = &honest_[random.below(honest_.size())];
      request.subject = one.honest->subject;
      request.source = one.honest->source + fmt::format("\ntrial_of_quern = {}\n", trial);
      request.seed = trial;
    }
    drawn_.push_back(one);
    requests_.push_back(std::move(request));
  }
  return {};
}

void mixed_modules::take(std::size_t place, const env::verdict& v, double seconds) {
  const drawn_module& one = drawn_[place];
  const std::string& name = one.honest != nullptr ? one.honest->name : one.hostile->name;
  const std::string line =
      fmt::format("{:4} {:<44} {:5.1f} s  {} {}  {}", place, name, seconds, kind_text(v),
                  speed_text(v), base::one_line(v.detail).substr(0, 300));
  ++judged_;
  ++tally_.kinds[(one.honest != nullptr ? "honest  " : "hostile ") + kind_text(v)];
  if (one.honest != nullptr) {
    ++tally_.honest;
    const auto right =
        one.honest->is_supported ? env::verdict_kind::ok : env::verdict_kind::unsupported;
    if (v.kind == env::verdict_kind::noisy)
      tally_.noisy.push_back(line);
    else if (v.kind != right)
      tally_.wrong.push_back(line);
  } else {
    ++tally_.hostile;
    const trial_end end = end_of_trial(*one.hostile, v, o_.gpu.has_value());
    // One claim above 1.00 may be chance; bench_pytorch hostile asks again.
    const bool pays = end == trial_end::claims && *v.speedup_e2 > most_by_chance_e2;
    if (end == trial_end::accepted || pays) tally_.accepted.push_back(line);
    if (end == trial_end::undecided) tally_.undecided.push_back(line);
  }
  if (judged_ % 25 == 0)
    fmt::print("   {:4} judged in {:.0f} s; wrong {}, accepted {}, noisy {}\n", judged_,
               part_.seconds(), tally_.wrong.size(), tally_.accepted.size(), tally_.noisy.size());
}

/// By an evaluator of its own, which ends with it.
base::expected<bool> mixed_modules::judge_all() {
  QUERN_TRY(const auto judge, open_module_judge(o_));
  return judge_in_turn(
      {judge.get()}, requests_, part_.places(requests_.size()), o_, part_,
      [&](std::size_t place, const env::verdict& v, double seconds) { take(place, v, seconds); });
}

bool mixed_modules::end_cuda_context() {
  if (!o_.gpu) return true;
  const auto ended = env::device_context::end_cuda_context(*o_.gpu);
  if (!ended) fmt::print("** the context of this process: {}\n", ended.error().message);
  return ended.has_value();
}

/// Ends of processes are waited for by the kernel, memory is given back by the driver: not at once.
host_leftovers mixed_modules::settled_leftovers(const host_snapshot& before,
                                                host_snapshot& after) const {
  const double begun = part_.seconds();
  for (;;) {
    after = look_at_host(bus_id_);
    auto left = left_behind(before, after);
    const bool clean = left.processes.empty() && left.files.empty() && left.descriptors.empty() &&
                       left.device_bytes <= slack_of_device && own_groups().empty();
    if (clean || part_.seconds() - begun > settling_s) return left;
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  }
}

std::vector<std::string> mixed_modules::own_groups() const {
  std::string why;
  const auto place = env::find_cgroup_place(why);
  const std::string mine = fmt::format("quern-{}-", ::getpid());
  std::vector<std::string> found;
  for (const fs::path& folder : {place.memory, place.pids}) {
    if (folder.empty()) continue;
    std::error_code error;
    for (const auto& item : fs::directory_iterator(folder, error))
      if (item.path().filename().string().starts_with(mine)) found.push_back(item.path().string());
  }
  return found;
}

void print_some(const char* what, const std::vector<std::string>& lines) {
  constexpr std::size_t most = 30;
  if (lines.empty()) return;
  fmt::print("** {}:\n", what);
  for (std::size_t i = 0; i < std::min(lines.size(), most); ++i)
    fmt::print("     {}\n", lines[i]);
  if (lines.size() > most) fmt::print("     and {} more\n", lines.size() - most);
}

bool mixed_modules::print_all(const host_leftovers& left, const host_snapshot& after,
                              const std::vector<std::string>& groups, bool ended) {
  fmt::print("{} evaluations in {:.0f} s: {} honest, {} hostile, seed {}, part {} of {}\n", judged_,
             part_.seconds(), tally_.honest, tally_.hostile, o_.seed, o_.part, o_.parts);
  for (const auto& [kind, count] : tally_.kinds)
    fmt::print("   {:<44} {}\n", kind, count);
  // A Python whose parents have ended: a candidate's, or a zygote.
  std::vector<std::string> pythons;
  for (const std::string& one : left.foreign_processes)
    if (one.find(" python") != std::string::npos && one.find(" < ") == one.rfind(" < "))
      pythons.push_back(one);
  print_some("wrong verdicts on honest ones", tally_.wrong);
  print_some("honest ones that were noisy", tally_.noisy);
  print_some("hostile ones that were accepted", tally_.accepted);
  print_some("hostile ones without a verdict", tally_.undecided);
  print_some("processes left behind", left.processes);
  print_some("new processes of others (counted are Pythons without parents)",
             left.foreign_processes);
  print_some("files left behind", left.files);
  print_some("files left open in this process", left.descriptors);
  print_some("control groups left behind", groups);
  figure_table table;
  const auto none = [&](const char* name, std::size_t count, std::size_t of) {
    table.at_most(name, static_cast<double>(count), 0, "", static_cast<std::int64_t>(of));
  };
  const auto honest = static_cast<std::size_t>(tally_.honest);
  none("wrong verdicts on honest candidates", tally_.wrong.size(), honest);
  table.at_most("honest candidates that were noisy",
                100.0 * static_cast<double>(tally_.noisy.size()) / std::max(1, tally_.honest),
                most_noisy_honest, "%", tally_.honest);
  const auto hostile = static_cast<std::size_t>(tally_.hostile);
  none("hostile candidates that were accepted", tally_.accepted.size(),
       hostile - tally_.undecided.size());
  table.at_most("hostile candidates without a verdict",
                100.0 * static_cast<double>(tally_.undecided.size()) /
                    std::max<double>(1, static_cast<double>(hostile)),
                most_undecided, "%", tally_.hostile);
  none("processes left behind", left.processes.size() + pythons.size(), after.processes.size());
  none("files left behind", left.files.size(), after.files.size() + 1);
  none("kinds of files left open", left.descriptors.size(), after.descriptors.size());
  none("control groups left behind", groups.size(), 1);
  none("contexts of this process that could not be ended", ended ? 0 : 1, 1);
  if (o_.gpu)
    table.at_most("device memory left behind",
                  static_cast<double>(std::max<std::int64_t>(left.device_bytes, 0)) / 1e6,
                  static_cast<double>(slack_of_device) / 1e6, "MB", after.device.bytes ? 1 : 0);
  return table.print() == 0;
}

base::expected<bool> mixed_modules::run() {
  QUERN_CHECK(draw());
  if (o_.gpu) {
    const auto host = env::list_gpus();
    if (host && static_cast<std::size_t>(*o_.gpu) < host->gpus.size())
      bus_id_ = host->gpus[static_cast<std::size_t>(*o_.gpu)].bus_id;
  }
  // What the first evaluation of this process leaves is there before anybody looks.
  {
    QUERN_TRY(const auto judge, open_module_judge(o_));
    env::evaluation_request first;
    first.subject = honest_.front().subject;
    first.source = honest_.front().source;
    first.verify_only = true;
    (void)judge->evaluate(first);
  }
  bool ended = end_cuda_context();
  const auto before = look_at_host(bus_id_);
  QUERN_TRY(const bool whole, judge_all());
  ended &= end_cuda_context();
  host_snapshot after;
  const auto left = settled_leftovers(before, after);
  return print_all(left, after, own_groups(), ended) && whole;
}

}  // namespace

int bench_mixed_modules(const pytorch_bench_options& o) {
  const auto met = mixed_modules(o).run();
  return !met ? bench_failed(met.error()) : *met ? 0 : 1;
}

}  // namespace quern::tools
