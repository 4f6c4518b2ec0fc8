// Where new weights arrive while a generator goes on, and from which they are installed between two
// of its steps.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "actors/messages.hpp"
#include "base/clock.hpp"
#include "base/status.hpp"
#include "policy/engine/generator.hpp"

namespace quern::actors {

/// Between the generator's thread and the one that fetches. Room for one version: it belongs to the
/// fetcher from `begin` on, and to the generator from `arrived` on.
class weight_inbox {
 public:
  // The generator's thread.

  /// The next version may be written to `room`, until `install` has given it free.
  void begin(policy::parameter_arena room);
  /// What may be installed from now on, beside what was announced before.
  void announce(const weights_ready& ready);
  /// Whether `install` has something to do.
  [[nodiscard]] bool due() const;
  /// Between two steps of `engine`: installs what has arrived if it was announced; whether it did.
  /// What is newer waits for its announcement; what never was announced, or is not what was while a
  /// newer version is announced (its file has been replaced), makes room for the next.
  /// Errors: corrupt, when it is not what the newest announcement says; why it could not be
  /// fetched. The engine keeps the version that it has.
  base::expected<bool> install(policy::generator& engine);

  // The fetching thread.

  /// None: `stop` was called.
  std::optional<policy::parameter_arena> wait_for_room();
  /// The newest announcement above `than`; none: `stop` was called, or `patience` is over.
  std::optional<weights_ready> wait_for_newer(
      weights_version than, base::nanoseconds_t patience = weight_inbox::without_end);
  /// The room holds this version now; `hash` of what it holds.
  void arrived(weights_version version, const base::hash128& hash);
  /// This version, which was announced, cannot be had: an error of `install`.
  void failed(weights_version version, base::error problem);

  /// Any thread: nobody waits from now on.
  void stop();

  static constexpr base::nanoseconds_t without_end = INT64_MAX;

 private:
  struct arrival {
    weights_version version = 0;
    base::hash128 hash;
    std::optional<base::error> problem;
  };
  void put(arrival what);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<policy::parameter_arena> room_;
  std::optional<arrival> arrived_;
  /// What may still come. A slow fetcher has older versions than the newest, and they are good.
  std::map<weights_version, weights_ready> announced_;
  bool stopping_ = false;
};

/// Whatever fills an inbox, on a thread of its own.
class weight_fetcher {
 public:
  /// Called on the fetching thread. Empty: something has arrived, so look at `install`; else why
  /// nothing will any more.
  using news = std::function<void(const std::string& problem)>;

  virtual ~weight_fetcher() = default;
  weight_fetcher(const weight_fetcher&) = delete;
  weight_fetcher& operator=(const weight_fetcher&) = delete;

  [[nodiscard]] weight_inbox& inbox() { return inbox_; }

 protected:
  weight_fetcher() = default;

 private:
  weight_inbox inbox_;
};

}  // namespace quern::actors
