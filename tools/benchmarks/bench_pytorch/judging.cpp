// Parts, evaluators, and lists of candidates judged one behind the other.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <span>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/json.hpp"
#include "base/text.hpp"
#include "env/lanes/pytorch/gpu/device_module_calls.hpp"
#include "env/lanes/pytorch/gpu/pytorch_device_evaluator.hpp"
#include "env/lanes/pytorch/pytorch_evaluator.hpp"
#include "tools/bench/bench_run.hpp"
#include "tools/benchmarks/bench_pytorch/bench_pytorch.hpp"

namespace quern::tools {
namespace {

/// Of its seconds, for what has begun, and for the figures.
constexpr double reserve_s = 55;
constexpr int most_compilers = 12;

void append_line(const std::string& file, const base::json& what) {
  std::ofstream(file, std::ios::app) << base::dump(what) << "\n";
}

}  // namespace

std::vector<std::size_t> bench_part::places(std::size_t count) const {
  std::vector<std::size_t> mine;
  for (auto at = static_cast<std::size_t>(part_ - 1); at < count;
       at += static_cast<std::size_t>(parts_))
    mine.push_back(at);
  return mine;
}

double bench_part::seconds() const {
  return static_cast<double>(clock_.now_ns() - begun_) * 1e-9;
}

bool bench_part::is_over(double seconds_needed) const {
  return seconds_left() < reserve_s + seconds_needed;
}

double bench_part::seconds_left() const {
  return limit_s_ - seconds();
}

bool is_asked_for(const std::string& name, const std::string& only) {
  if (only.empty()) return true;
  const auto parts = base::split(only, ',');
  return std::any_of(parts.begin(), parts.end(),
                     [&](std::string_view part) { return name.find(part) != std::string::npos; });
}

base::status check_only(const std::string& only, const std::vector<std::string>& names) {
  if (only.empty()) return {};
  for (const std::string_view word : base::split(only, ','))
    if (word.empty() || std::ranges::none_of(names, [&](const std::string& name) {
          return name.find(word) != std::string::npos;
        }))
      return base::fail(
          base::errc::invalid_argument,
          "--only {}: no candidate's name contains '{}'; say parts of names with "
          "commas between. The {} names begin with: {}",
          only, word, names.size(),
          fmt::join(std::span(names).first(std::min<std::size_t>(8, names.size())), ", "));
  return {};
}

base::expected<std::unique_ptr<env::candidate_judge>> open_module_judge(
    const pytorch_bench_options& o) {
  env::pytorch_evaluator_options opening;
  opening.time_budget_s = o.budget_s;
  opening.precision = o.precision;
  opening.sandbox_required = o.sandbox == "required";
  opening.confirm_at_once = true;
  if (!o.gpu) {
    QUERN_TRY(auto judge, env::pytorch_evaluator::open(std::move(opening)));
    return judge;
  }
  opening.gpu = *o.gpu;
  opening.on_gpu = true;
  env::pytorch_device_options of_device(std::move(opening));
  if (o.window_us > 0) of_device.window_ns = 1e3 * o.window_us;
  if (!o.windows.empty()) {
    if (!std::ofstream(o.windows))
      return base::fail(base::errc::io,
                        "--windows: {} cannot be written: name a file in a folder that exists",
                        o.windows);
    of_device.after_window = [file = o.windows](bool candidate, bool of_calls,
                                                const env::device_window& took) {
      append_line(file, {{"side", candidate ? "candidate" : "reference"},
                         {"of", of_calls ? "calls" : "deliveries"},
                         {"begun_ns", took.begun_ns},
                         {"wake_ns", std::llround(took.wake_ns)},
                         {"tail_ns", std::llround(took.tail_ns)},
                         {"ns", took.each.calls},
                         {"look_ns", took.each.looks}});
    };
  }
  QUERN_TRY(auto judge, env::pytorch_device_evaluator::open(std::move(of_device)));
  return judge;
}

std::string speed_text(const env::verdict& v) {
  if (!v.time || v.time->ref_ns.empty() || !v.speedup_e2) return {};
  return fmt::format("{:.2f}x of {:.0f} us", static_cast<double>(*v.speedup_e2) / 100,
                     static_cast<double>(v.time->ref_ns.front()) / 1000);
}

std::string kind_text(const env::verdict& v) {
  return std::string(env::name_of(v.kind)) + (v.reason.empty() ? "" : ":" + v.reason);
}

bool claims_gain(const env::verdict& v) {
  return v.kind == env::verdict_kind::ok && v.speedup_e2.value_or(0) > 100;
}

bool judge_in_turn(const std::vector<env::candidate_judge*>& with,
                   const std::vector<env::evaluation_request>& requests,
                   const std::vector<std::size_t>& places, const pytorch_bench_options& o,
                   const bench_part& part,
                   const std::function<void(std::size_t, const env::verdict&, double)>& done) {
  bench_run_options how;
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  const int compilers = o.compilers > 0 ? o.compilers : std::clamp(cores - 2, 1, most_compilers);
  how.compilers = std::max(1, compilers / static_cast<int>(with.size()));
  how.tries = o.tries;
  how.recover_within = 60'000'000'000;
  const std::atomic<bool> stop = false;
  std::size_t judged = 0;
  double before = part.seconds();
  const auto given_up =
      run_bench(with, requests, places, how, stop,
                [&](std::size_t place, const env::verdict& v, std::size_t) {
                  const double now = part.seconds();
                  if (!o.windows.empty())
                    append_line(o.windows, {{"place", place},
                                            {"task", requests[place].subject->name},
                                            {"verdict", kind_text(v)},
                                            {"detail", v.detail}});
                  done(place, v, now - before);
                  before = now;
                  ++judged;
                  return !part.is_over();
                });
  for (const std::string& why : given_up)
    fmt::print("** the device was given up: {}\n", why);
  if (judged == places.size()) return true;
  fmt::print(
      "** {} of {} candidates of this part were not judged: say --part K/N with a larger N\n",
      places.size() - judged, places.size());
  return false;
}

int bench_failed(const base::error& e) {
  std::fprintf(stderr, "bench_pytorch: %s\n", e.message.c_str());
  return 2;
}

}  // namespace quern::tools
