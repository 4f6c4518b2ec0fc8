// The ranks of a learner, from the inside of one of them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "actors/config/run_config.hpp"
#include "actors/decide/ids.hpp"
#include "actors/workers/own_address.hpp"
#include "base/clock.hpp"
#include "base/status.hpp"
#include "policy/collectives/communicator.hpp"
#include "policy/engine/sequence.hpp"

namespace quern::actors {

/// Knows what a rank is at, and ends its process where its own thread cannot: when another rank has
/// failed and the thread does not leave by itself, or when a rank that is alone takes too long. In
/// a group of several it is the rendezvous's watch that judges. Time in which the process stood
/// still does not count. Thread-safe.
class rank_guard {
 public:
  /// For `busy`: somebody else judges how long it takes.
  static constexpr std::chrono::nanoseconds without_limit = std::chrono::nanoseconds::max();

  /// `link` is null for one rank alone. `clock` outlives it.
  explicit rank_guard(std::shared_ptr<policy::rendezvous> link,
                      const base::clock& clock = own_clock());
  ~rank_guard();
  rank_guard(const rank_guard&) = delete;
  rank_guard& operator=(const rank_guard&) = delete;

  /// What it is at now, with which weights. In a group it must tell progress or wait in collectives
  /// as long as others wait for it, unless it is busy.
  void at(std::string_view phase, weights_version version);
  /// "backward, version 12".
  [[nodiscard]] std::string where() const;

  /// For a scope: it is busy with what tells no progress, for no longer than `least` and the time
  /// that `bytes` take (with_bytes). Then it is again at what it was at before, unless something
  /// was thrown in it: that is told of what it was busy with. Not nested.
  class busy {
   public:
    busy(std::shared_ptr<rank_guard> of, std::string_view phase, std::chrono::nanoseconds least,
         std::uint64_t bytes = 0);
    ~busy();
    busy(const busy&) = delete;
    busy& operator=(const busy&) = delete;

   private:
    const std::shared_ptr<rank_guard> guard_;
    const int unwinding_ = std::uncaught_exceptions();
  };

 private:
  static const base::clock& own_clock();
  void begin(std::string_view phase, nanoseconds_t limit);
  void end(bool thrown_out);
  void run();
  void leave_after(const policy::rank_verdict& verdict);
  bool stopped(std::chrono::nanoseconds within);

  const std::shared_ptr<policy::rendezvous> link_;
  mutable std::mutex mutex_;
  std::condition_variable news_;
  bool stopping_ = false;
  std::string phase_ = "rendezvous";
  weights_version version_ = 0;
  std::string doing_;  ///< while it is busy
  const base::clock& clock_;
  base::stood_still gap_;
  nanoseconds_t busy_since_ = 0, busy_limit_ = 0;
  std::thread thread_;
};

/// `link` and `ranks` are null for a learner of one rank, `guard` never is. The rendezvous outlives
/// the communicator.
struct rank_group {
  std::shared_ptr<policy::rendezvous> link;
  std::unique_ptr<policy::communicator> ranks;
  std::shared_ptr<rank_guard> guard;
};

/// Meets the other ranks at `address` (policy::rendezvous_options); Gloo on a CPU, NCCL on GPUs.
/// Errors: unavailable, naming the rank that is missing.
base::expected<rank_group> join_ranks(const std::string& address, const run_config& config,
                                      std::int32_t rank, const own_address& here,
                                      at::Device device);

/// What this rank computes of a batch that all ranks have.
std::vector<policy::training_sequence> share_of_rank(std::vector<policy::training_sequence> all,
                                                     const policy::communicator& group);

/// Whether an error is that of another rank: this one must start anew, the run goes on.
bool group_failed(const base::error& problem, const run_config& config);

/// Another rank failed: says so and ends this process at once with defaults::group_failed_code,
/// whatever its threads are in; who started it starts all ranks again from the last checkpoint.
[[noreturn]] void leave_group(const base::error& problem);

}  // namespace quern::actors
