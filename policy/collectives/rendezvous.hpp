// A rank's link to the rendezvous place of its group: finds the others, keeps small values in
// common, gives signs of life and learns which rank has failed.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.hpp"
#include "policy/collectives/rank_watch.hpp"
#include "policy/collectives/rendezvous_directory.hpp"

namespace quern::policy {

struct rendezvous_options {
  /// "unix:/PATH" on one host; otherwise "tcp://HOST:PORT" of rank 0, or "tcp://HOST:PORT/NAME" in
  /// the directory of its process.
  std::string address;
  std::int32_t rank = 0;   ///< 0 serves
  std::int32_t ranks = 1;  ///< all are needed
  watch_limits limits;     ///< equal on all ranks
  /// By which the other ranks reach this one, where a transport has connections of its own.
  std::string host = "127.0.0.1";
  /// Of rank 0, for an address with a NAME: the rendezvous takes a free port and is found there.
  std::shared_ptr<rendezvous_directory> directory = nullptr;
};

/// Thread-safe. One thread of its own gives the signs of life, so that a long computation is not
/// taken for death; that it goes on is told by `progress`.
class rendezvous {
 public:
  /// Waits until every rank is here. Errors: unavailable, naming the rank that is missing.
  static base::expected<std::shared_ptr<rendezvous>> join(const rendezvous_options& where);
  /// Says good-bye.
  ~rendezvous();
  rendezvous(const rendezvous&) = delete;
  rendezvous& operator=(const rendezvous&) = delete;

  [[nodiscard]] std::int32_t rank() const;
  [[nodiscard]] std::int32_t ranks() const;
  [[nodiscard]] const std::string& host() const;

  /// A value for all. Keys are written once by convention.
  base::status set(const std::string& key, const std::string& value);
  /// Waits until some rank has set it; ends early when the group fails. Meanwhile this rank is not
  /// held to its own limits.
  base::expected<std::string> get(const std::string& key);
  /// The same, no longer than `patience`, for the rank `from`, -1 where it is not known which one
  /// sets it. Error: unavailable, naming the rank.
  base::expected<std::string> get(const std::string& key, std::int32_t from,
                                  base::nanoseconds_t patience);
  /// Says that this rank has come to `place`, a name that is used once, and waits for the others as
  /// `get` does. Error: unavailable, naming all that have not come.
  base::status gather(std::string_view place, base::nanoseconds_t patience);
  base::expected<std::int64_t> add(const std::string& key, std::int64_t amount);

  /// What this rank does now, and with which weights: part of every error.
  void at(std::string_view phase, std::int64_t version);
  /// The computation goes on. Cheap; call it at least once a second or so.
  void progress();
  /// What it does, and with which weights, as people are told.
  [[nodiscard]] std::string where() const;
  /// Until it is told otherwise, this rank does something that tells no progress (loading,
  /// writing): it cannot stall, only be gone or silent, or be at it for longer than `limit`.
  void busy(std::string_view phase, base::nanoseconds_t limit);
  /// The same for any time, in whatever phase it is; false: no longer.
  void busy(bool now);
  /// The host has begun a collective, which its device enters later; the host has seen the end of
  /// one. Without these a collective counts as begun when it is entered.
  void begin();
  void finish();
  /// A collective was entered.
  void enter(std::string_view what);
  /// This thread begins or ends to wait for one: for the last that was entered, or for `what`.
  void waiting(bool now, std::string_view what = {});
  /// The same while connections are made for it, which has a limit of its own.
  void connecting(bool now);

  /// The first failure; it stays.
  [[nodiscard]] std::optional<rank_verdict> failure() const;
  /// Waits up to `patience` for one.
  [[nodiscard]] std::optional<rank_verdict> wait_failure(base::nanoseconds_t patience) const;
  /// The failure as an error of this rank: rank, phase, version, the peer and what is wrong with
  /// it. `doing`: the collective, may be empty; `cause`: what the transport said, may be empty.
  [[nodiscard]] base::error error_of(const std::optional<rank_verdict>& verdict,
                                     std::string_view doing, std::string_view cause) const;
  [[nodiscard]] const watch_limits& limits() const;
  /// Breaks the link without a good-bye, as the end of the process would: whatever either end waits
  /// for fails.
  void cut();

 private:
  struct state;
  explicit rendezvous(std::unique_ptr<state> parts);
  std::unique_ptr<state> state_;
};

}  // namespace quern::policy
