// Groups of ranks as processes of their own (rank_program.cpp), and what they leave in their
// folder.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <signal.h>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/subprocess.hpp"
#include "support/test.hpp"

namespace quern::test {

namespace fs = std::filesystem;
using base::operator""_s;

using words = std::vector<std::string>;

inline constexpr int group_failed = 3;

/// The processes of one group.
class rank_processes {
 public:
  rank_processes(const std::string& deed, int ranks, fs::path folder, const words& more = {})
      : folder_(std::move(folder)) {
    fs::create_directories(folder_);
    for (int rank = 0; rank < ranks; ++rank) {
      std::vector<std::string> argv = {(program_dir() / "quern_rank_deed").string(), deed,
                                       std::to_string(rank), std::to_string(ranks),
                                       folder_.string()};
      argv.insert(argv.end(), more.begin(), more.end());
      // On GPUs each process sees one, as in a run.
      auto child = base::subprocess::start(
          {.argv = argv,
           .environment = {"NCCL_NVLS_ENABLE=0", fmt::format("CUDA_VISIBLE_DEVICES={}", rank)},
           .log = log_of(rank)});
      REQUIRE(child);
      children_.push_back(std::move(*child));
    }
  }

  void finish() {
    for (std::size_t i = 0; i < children_.size(); ++i) {
      const auto end = children_[i].wait(60_s);
      CAPTURE(said_by(static_cast<int>(i)));
      REQUIRE(end);
      CHECK(end->code == 0);
      CHECK(end->signal == 0);
    }
  }
  bool any_ended() {
    return std::any_of(children_.begin(), children_.end(),
                       [](base::subprocess& child) { return child.poll().has_value(); });
  }
  base::subprocess& rank(int which) { return children_[static_cast<std::size_t>(which)]; }
  [[nodiscard]] std::string said_by(int which) const {
    return base::read_file(log_of(which)).value_or("");
  }
  [[nodiscard]] std::size_t size() const { return children_.size(); }

 private:
  [[nodiscard]] fs::path log_of(int which) const { return folder_ / fmt::format("log{}", which); }
  fs::path folder_;
  std::vector<base::subprocess> children_;
};

inline std::vector<double> numbers(const fs::path& file) {
  const std::string bytes = base::read_file(file).value_or("");
  REQUIRE(!bytes.empty());
  std::vector<double> values(bytes.size() / sizeof(double));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(double));
  return values;
}

/// Largest difference of two sets of values, as a part of the largest value of the first.
inline double difference(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double largest = 0, scale = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(a[i] - b[i]));
    scale = std::max(scale, std::abs(a[i]));
  }
  REQUIRE(scale > 0);
  return largest / scale;
}

/// Divided by the largest: clipping divides gradients where they are by one kernel and as they are
/// read by another.
inline std::vector<double> direction(std::vector<double> values) {
  double largest = 0;
  for (const double x : values)
    largest = std::max(largest, std::abs(x));
  for (double& x : values)
    x /= largest;
  return values;
}

struct outcome {
  std::vector<double> gradients, weights;
  base::json metrics;
};

inline outcome train(const fs::path& folder, int ranks, const words& more = {}) {
  rank_processes group("train", ranks, folder, more);
  group.finish();
  return {numbers(folder / "gradients"), numbers(folder / "weights"),
          base::parse_json(base::read_file(folder / "metrics").value_or("")).value()};
}

inline double metric(const outcome& of, std::size_t step, const char* name) {
  return of.metrics[step][name].get<double>();
}

/// In float64, so that what is left is the order of additions and nothing else.
inline constexpr double summation = 1e-12;

template <class Condition>
bool wait_until(base::nanoseconds_t patience, Condition condition) {
  const base::steady_clock clock;
  const base::nanoseconds_t deadline = clock.now_ns() + patience;
  while (clock.now_ns() < deadline) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return condition();
}

/// The group is at work; then `harm`; every other rank ends with the error, and says it.
inline void check_failure(const fs::path& folder, int ranks, const words& more, int victim,
                          std::string_view what, const std::function<void(rank_processes&)>& harm) {
  rank_processes group("run", ranks, folder, more);
  REQUIRE(wait_until(60_s, [&] { return fs::exists(folder / "step") || group.any_ended(); }));
  harm(group);
  const base::steady_clock clock;
  const base::nanoseconds_t since = clock.now_ns();
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank == victim) continue;
    const auto end = group.rank(rank).wait(60_s);
    const std::string said = group.said_by(rank);
    CAPTURE(rank);
    CAPTURE(said);
    REQUIRE(end);
    CHECK(end->signal == 0);
    CHECK(end->code == group_failed);
    for (const std::string& part :
         {fmt::format("rank {} of {}", rank, ranks), fmt::format("rank {} ", victim),
          std::string(what), std::string("version ")})
      CHECK(contains(said, part));
  }
  fmt::print("{}: all others ended after {:.2f} s; rank {}: {}", what,
             static_cast<double>(clock.now_ns() - since) / 1e9, victim == 0 ? 1 : 0,
             group.said_by(victim == 0 ? 1 : 0));
}

}  // namespace quern::test
