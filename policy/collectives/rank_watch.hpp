// Decides from the signs of life of a group of ranks whether one of them has failed, and which.
// Every rank tells, several times a second, where it is: which collective it has entered, whether
// it waits there, and a counter that moves while it computes. A plain class without a clock or a
// socket of its own; rendezvous_server.hpp feeds it.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"

namespace quern::policy {

struct watch_limits {
  base::nanoseconds_t arrival = 60'000'000'000;  ///< from the first rank to the last
  base::nanoseconds_t silence = 5'000'000'000;   ///< without a sign of life: frozen or cut off
  /// One rank waits in a collective for so long, while another has neither entered it nor moved. A
  /// host that hangs in its driver, because its device is in a collective, cannot say that it
  /// waits: a rank with an unfinished collective counts as waiting once it has not moved for so
  /// long.
  base::nanoseconds_t stall = 8'000'000'000;
  /// What all ranks have entered may take so long where connections are made first.
  base::nanoseconds_t connect = 120'000'000'000;
};

/// Of something that may take any time.
inline constexpr base::nanoseconds_t without_limit =
    std::numeric_limits<base::nanoseconds_t>::max();

/// Where a rank is.
struct rank_beat {
  std::uint64_t sequence = 0;  ///< collectives entered so far
  std::uint64_t progress = 0;  ///< moves while the rank computes
  std::int64_t version = 0;    ///< of the weights that it works with
  bool waiting = false;        ///< for a collective, with nothing else to do
  std::string phase;           ///< "backward", "reduce_scatter layer.3"
  bool connecting = false;     ///< it waits, and connections are being made for it
  /// It does something that tells no progress, for so long by now, and that may take so long; a
  /// limit of 0: it does not.
  base::nanoseconds_t busy_for = 0, busy_limit = 0;
  /// Collectives that its host has begun so far; its device enters them later (`sequence`).
  std::uint64_t begun = 0;
  /// Of these, one or more has no end yet that the host knows of.
  bool unfinished = false;
  bool operator==(const rank_beat&) const = default;
};

enum class rank_fault : std::uint8_t {
  absent,   ///< never came
  gone,     ///< its connection broke: the process or its host died
  left,     ///< said good-bye while others wait for it
  silent,   ///< connected, but gives no sign of life: stopped, or its host is frozen
  stalled,  ///< gives signs of life, but computes nothing and does not come to the collective
  stuck,    ///< all ranks are in the same collective, and it does not end; `rank` is the lowest
  overdue   ///< does something that tells no progress, for longer than that may take
};
std::string_view to_string(rank_fault fault);

struct rank_verdict {
  std::int32_t rank = 0;
  rank_fault fault = rank_fault::gone;
  base::nanoseconds_t age = 0;  ///< for how long, as far as that applies
  rank_beat last;               ///< where the rank was, by its last sign of life
  /// "rank 2 gives no sign of life for 5.0 s (last seen in forward, version 12)".
  [[nodiscard]] std::string text() const;
  bool operator==(const rank_verdict&) const = default;
};

/// Times are of any one monotone clock. Not thread-safe.
class rank_watch {
 public:
  rank_watch(std::int32_t ranks, const watch_limits& limits, base::nanoseconds_t now);

  void joined(std::int32_t rank, base::nanoseconds_t now);
  void beat(std::int32_t rank, const rank_beat& where, base::nanoseconds_t now);
  /// In order: no failure, unless others wait for it.
  void left(std::int32_t rank);
  /// The connection ended without a good-bye.
  void gone(std::int32_t rank);

  [[nodiscard]] bool complete() const;
  [[nodiscard]] const rank_beat& last_of(std::int32_t rank) const {
    return ranks_[static_cast<std::size_t>(rank)].last;
  }
  /// The first failure found; it stays. Call it after all news that have arrived were given, or a
  /// watcher that was itself held up blames the others.
  const std::optional<rank_verdict>& judge(base::nanoseconds_t now);

 private:
  enum class presence : std::uint8_t { awaited, here, left, gone };
  struct entry {
    presence state = presence::awaited;
    rank_beat last;
    base::nanoseconds_t heard = 0, moved = 0, waiting_since = 0;
  };
  [[nodiscard]] rank_verdict blame(std::size_t rank, rank_fault fault,
                                   base::nanoseconds_t age) const;
  [[nodiscard]] std::optional<rank_verdict> by_presence(base::nanoseconds_t now) const;
  [[nodiscard]] std::optional<rank_verdict> by_limits() const;
  [[nodiscard]] std::optional<rank_verdict> by_progress(base::nanoseconds_t now) const;
  [[nodiscard]] std::optional<rank_verdict> by_stillness(base::nanoseconds_t now) const;

  std::vector<entry> ranks_;
  watch_limits limits_;
  base::nanoseconds_t start_;
  std::optional<rank_verdict> verdict_;
};

}  // namespace quern::policy
