// Times of a task's own reference, without a candidate: what tables of baselines are made of.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"

namespace quern::env {

struct task;

/// How PyTorch runs a reference: as it is, by torch.compile with inductor in one of its modes, or
/// by torch.compile with the backend `cudagraphs`.
enum class reference_mode {
  eager,
  compile,
  reduce_overhead,
  max_autotune,
  max_autotune_no_cudagraphs,
  cudagraphs
};

inline constexpr int reference_mode_count = 6;

/// As torch.compile spells its modes: "eager", "compile" (its default), "reduce-overhead", ...
std::string_view name_of(reference_mode mode);
std::optional<reference_mode> parse_reference_mode(std::string_view name);

/// How many calls a reference is timed by.
struct reference_trials {
  int warm_up = 5;  ///< calls before, which do not count
  int most = 100;
  int least = 3;         ///< made however long they take
  double budget_s = 60;  ///< from the first warm-up on; beyond it no trial begins but the least
};

/// Decides which call comes next. Pure: seconds come from whoever calls.
class trial_book {
 public:
  enum class next {
    warm_up,
    trial,
    done,
    too_busy  ///< others had the device in so many trials that there are not enough
  };

  explicit trial_book(const reference_trials& rule) : rule_(rule) {}

  /// `elapsed_s`: since the first call began. Warm-ups may take half of the budget, one is made
  /// always; trials that are too few by then may take four times the budget.
  [[nodiscard]] next after(double elapsed_s) const;
  void warmed_up() { ++warm_; }
  /// `disturbed`: somebody else had the device for most of it; it does not count.
  void add(std::int64_t ns, bool disturbed);
  [[nodiscard]] const std::vector<std::int64_t>& times_ns() const { return times_ns_; }

 private:
  reference_trials rule_;
  int warm_ = 0, dropped_ = 0;
  std::vector<std::int64_t> times_ns_;
};

/// Times references of one lane on one device of this machine. Used from one thread.
class reference_timer {
 public:
  virtual ~reference_timer() = default;

  /// Error (unavailable): why references cannot run in this mode on this device.
  [[nodiscard]] virtual base::status check_mode(reference_mode mode) const = 0;
  /// The device as PyTorch names it: "cpu", "cuda:0".
  [[nodiscard]] virtual std::string device() const = 0;
  /// Times under one device class and with one text of settings (versions) can stand in one table.
  [[nodiscard]] virtual std::string device_class() const = 0;
  [[nodiscard]] virtual std::string settings() const = 0;

  /// Nanoseconds of each counted call, in the order made, on one content; at least one. Errors:
  /// exhausted: what the task needs is not to be had on this device class; invalid_argument: the
  /// reference fails; anything else is of this host.
  virtual base::expected<std::vector<std::int64_t>> time(const task& what, reference_mode mode,
                                                         const reference_trials& rule) = 0;
};

}  // namespace quern::env
