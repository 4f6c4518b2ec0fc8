// Where a process tells at which ports its rendezvous are, so that nobody has to choose ports: one
// socket for all of them, whose address is known before the first of them begins.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "base/file.hpp"
#include "base/status.hpp"

namespace quern::policy {

/// Thread-safe. A thread of its own answers; it believes whoever asks, and tells a port at most.
class rendezvous_directory {
 public:
  /// Listens at a free port of `host`, a name or an address of this machine. Errors name it.
  static base::expected<std::shared_ptr<rendezvous_directory>> open(const std::string& host);
  ~rendezvous_directory();
  rendezvous_directory(const rendezvous_directory&) = delete;
  rendezvous_directory& operator=(const rendezvous_directory&) = delete;

  /// "tcp://HOST:PORT"; the rendezvous NAME is at "tcp://HOST:PORT/NAME".
  [[nodiscard]] const std::string& address() const { return address_; }
  [[nodiscard]] const std::string& host() const { return host_; }
  /// The rendezvous is at this port of the host from now on.
  void add(const std::string& name, std::uint16_t port);
  void remove(const std::string& name);

 private:
  rendezvous_directory(std::string host, base::unique_fd listening, base::unique_fd stop,
                       std::uint16_t port);
  void run();
  void answer_one();

  const std::string host_;
  const std::string address_;
  const base::unique_fd listening_;
  const base::unique_fd stop_;
  std::mutex mutex_;
  std::map<std::string, std::uint16_t> ports_;
  std::thread thread_;
};

/// Where the rendezvous "tcp://HOST:PORT/NAME" is: "tcp://HOST:PORT" without a name; what has none
/// is given back as it is. Errors: unavailable, when nobody answers or the rendezvous has not
/// begun.
base::expected<std::string> find_rendezvous(const std::string& address);

/// NAME of such an address; empty: it has none.
std::string name_of_rendezvous(const std::string& address);

}  // namespace quern::policy
