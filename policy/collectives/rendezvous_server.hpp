// The one place where the ranks of a group meet: a thread in rank 0's process that keeps small
// values for all (addresses, ids), hears every rank's signs of life and tells everybody when one
// has failed.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "base/file.hpp"
#include "base/status.hpp"
#include "policy/collectives/rank_watch.hpp"

namespace quern::policy {

/// How often signs of life are given: a tenth of the silence that counts as death, within 20 and
/// 500 ms.
base::nanoseconds_t beat_interval(const watch_limits& limits);

class rendezvous_server {
 public:
  /// Listens at once, so that ranks can connect as soon as this returns.
  static base::expected<std::unique_ptr<rendezvous_server>> start(const std::string& address,
                                                                  std::int32_t ranks,
                                                                  const watch_limits& limits);
  /// On a socket that listens already.
  static std::unique_ptr<rendezvous_server> start(base::unique_fd listening, std::int32_t ranks,
                                                  const watch_limits& limits);
  /// Tells those who are still there that it ends.
  ~rendezvous_server();
  rendezvous_server(const rendezvous_server&) = delete;
  rendezvous_server& operator=(const rendezvous_server&) = delete;

 private:
  class event_loop;
  explicit rendezvous_server(std::unique_ptr<event_loop> work);
  std::unique_ptr<event_loop> event_loop_;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace quern::policy
