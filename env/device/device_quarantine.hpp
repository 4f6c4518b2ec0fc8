// Whether a device may be given work. What makes it doubtful is reported here; it goes into
// quarantine with a reason, and comes out by a self-test, tried after growing pauses.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "env/device/device_health.hpp"

namespace quern::env {

enum class quarantine_cause {
  memory,    ///< device memory was not given back
  context,   ///< an error that a new context does not cure
  hardware,  ///< the driver reports a fault of the device: lost, memory errors, XID
  failures   ///< evaluations fail here one after another, whatever the candidate
};
std::string_view name_of(quarantine_cause cause);

struct quarantine_entry {
  quarantine_cause cause = quarantine_cause::failures;
  std::string reason;  ///< one sentence for a person
  base::nanoseconds_t since = 0;

  friend bool operator==(const quarantine_entry&, const quarantine_entry&) = default;
};

/// Decides for one device. `now` is any monotone clock. Not thread-safe.
class device_quarantine {
 public:
  struct limits {
    /// Evaluations in a row that failed here, of two tasks at least, or twice as many of one: a
    /// task whose reference cannot run must not take a device away at once.
    int failures = 3;
    base::nanoseconds_t first_pause = 15'000'000'000;
    base::nanoseconds_t longest_pause = 1'800'000'000'000;
    /// So many evaluations without trouble make the next pause the first one again.
    int trusted_after = 50;
  };

  device_quarantine() = default;
  explicit device_quarantine(limits bounds) : limits_(bounds) {}

  /// The device may not be used. The first reason and its time stay until a self-test passes.
  void enter(quarantine_cause cause, std::string reason, base::nanoseconds_t now);
  /// An evaluation failed here for a reason that is not the candidate's.
  void failed(const std::string& task, const std::string& detail, base::nanoseconds_t now);
  /// One ended with a verdict about its candidate.
  void worked();
  /// What the driver says. The first report is the baseline: errors that a device had before are
  /// not held against it, rows that wait for a reset are.
  void faults(const device_faults& seen, base::nanoseconds_t now);

  /// Empty: it takes work.
  [[nodiscard]] const std::optional<quarantine_entry>& entry() const { return entry_; }
  /// It is time for a self-test.
  [[nodiscard]] bool test_due(base::nanoseconds_t now) const;
  /// How the self-test went; no problem: the device takes work again.
  void tested(const std::optional<std::string>& problem, base::nanoseconds_t now);

 private:
  limits limits_;
  std::optional<quarantine_entry> entry_;
  std::optional<std::uint64_t> ecc_errors_;
  int failures_ = 0;
  std::string failed_task_;  ///< of the first failure in a row
  bool several_tasks_ = false;
  int worked_ = 0;
  base::nanoseconds_t pause_ = 0;  ///< the one that runs, or ran last
  base::nanoseconds_t next_test_ = 0;
};

}  // namespace quern::env
