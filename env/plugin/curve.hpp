// Who may connect over tcp://: the ZAP handler that libzmq asks about every CURVE key. Without one,
// CURVE encrypts but lets every key in, so a gateway starts this first and proves that it answers.
#pragma once

#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <thread>

#include "base/file.hpp"
#include "base/status.hpp"
#include "env/plugin/zmq_socket.hpp"

namespace quern::env {

/// Answers for all sockets of one context until destroyed; at most one a context. A key that is let
/// in becomes the `user` of what its connections send; the first refusal of a key is logged.
class zap_handler {
 public:
  /// `allowed`: Z85 public keys. Binds, starts the thread and asks it about a key that is not
  /// allowed and, if there is one, one that is; a wrong or missing answer within a second is an
  /// error (unavailable), and the caller must not bind.
  static base::expected<std::unique_ptr<zap_handler>> start(zmq_context& context,
                                                            std::set<std::string> allowed);
  ~zap_handler();

  [[nodiscard]] std::int64_t admitted() const { return admitted_; }
  [[nodiscard]] std::int64_t refused() const { return refused_; }

 private:
  zap_handler(zmq_socket socket, base::unique_fd stop, std::set<std::string> allowed)
      : socket_(std::move(socket)), stop_(std::move(stop)), allowed_(std::move(allowed)) {}
  void serve();
  frames answer(const frames& request);

  zmq_socket socket_;
  base::unique_fd stop_;
  std::set<std::string> allowed_;
  std::set<std::string> told_;  ///< keys whose refusal was logged
  std::atomic<std::int64_t> admitted_ = 0;
  std::atomic<std::int64_t> refused_ = 0;
  std::thread thread_;
};

/// One question as libzmq asks it (ZeroMQ RFC 27), for the proof and for tests: the status code
/// that the handler of this context gives ("200", "400"), or timeout.
base::expected<std::string> ask_zap(zmq_context& context, const std::string& public_key,
                                    long timeout_ms);

}  // namespace quern::env
