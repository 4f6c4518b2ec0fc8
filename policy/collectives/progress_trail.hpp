// How far the device of a rank is in what the host has given it. A host queues work far ahead of a
// GPU: told at once, its phases would be those of the queue, and of a kernel that hangs the others
// would read the phase after it. So each thing told stands behind a mark in the device's queue and
// goes to the rendezvous once the device has come there.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "policy/collectives/rendezvous.hpp"

namespace quern::policy {

/// Thread-safe. Phases that are told to the rendezvous itself, past the trail, are for times when
/// nothing is queued. With marks it has a thread, since the host may wait for the device anywhere.
class progress_trail {
 public:
  /// Whether the device has come here; asked from any thread, must not wait. Empty: at once, that
  /// is, as soon as everything before it is told.
  using mark = std::function<bool()>;

  /// `link` must outlive it.
  explicit progress_trail(rendezvous& link) : link_(link) {}
  ~progress_trail();
  progress_trail(const progress_trail&) = delete;
  progress_trail& operator=(const progress_trail&) = delete;

  /// As rendezvous's functions of these names.
  void at(std::string_view phase, std::int64_t version, mark reached);
  void progress(mark reached);
  /// Returns the number of the collective, from 1.
  std::uint64_t enter(std::string_view what, mark reached);

  /// The host waits for the end of collective `number`; not nested. The rank counts as waiting once
  /// its device has come to it: before, it computes, or hangs in what it computes.
  void begin_wait(std::uint64_t number, std::string_view what);
  void end_wait();
  /// Tells what was reached since.
  void look();

 private:
  struct step {
    enum class kind : std::uint8_t { phase, progress, collective } step_kind = kind::progress;
    std::string text;
    std::int64_t version = 0;
    mark reached;
  };
  void add(step one);
  void tell_reached();
  void run();

  rendezvous& link_;
  std::mutex mutex_;
  std::condition_variable news_;
  std::deque<step> ahead_;  ///< queued, not reached yet
  std::uint64_t begun_ = 0, entered_ = 0;
  std::uint64_t awaited_ = 0;  ///< 0: the host waits for none
  std::string awaited_name_;
  bool waiting_ = false;  ///< as the rendezvous was told
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace quern::policy
