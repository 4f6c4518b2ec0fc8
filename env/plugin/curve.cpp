// The ZAP handler.
#include "env/plugin/curve.hpp"

#include <array>

#include <sys/eventfd.h>
#include <unistd.h>
#include <zmq.h>

#include "base/log.hpp"
#include "base/thread.hpp"
#include "env/plugin/time_outs.hpp"

namespace quern::env {

using base::errc;
using base::fail;

namespace {

constexpr const char* zap_endpoint = "inproc://zeromq.zap.01";
constexpr std::size_t key_bytes = 32;
constexpr const char* proof_id = "proof";  // of a question that ask_zap puts

std::string to_z85(const std::string& raw) {
  std::array<char, 41> text{};
  if (raw.size() != key_bytes) return {};
  zmq_z85_encode(text.data(), reinterpret_cast<const std::uint8_t*>(raw.data()), raw.size());
  return text.data();
}

}  // namespace

base::expected<std::string> ask_zap(zmq_context& context, const std::string& public_key,
                                    long timeout_ms) {
  std::array<std::uint8_t, key_bytes> raw{};
  if (public_key.size() != 40 || zmq_z85_decode(raw.data(), public_key.c_str()) == nullptr) {
    return fail(errc::invalid_argument, "'{}' is not a CURVE key: 40 characters of Z85",
                public_key);
  }
  QUERN_TRY(auto socket, zmq_socket::open(context, socket_kind::req));
  QUERN_CHECK(socket.connect(zap_endpoint));
  const frames question = {
      "1.0", proof_id, "quern", "127.0.0.1", "", "CURVE", std::string(raw.begin(), raw.end())};
  QUERN_TRY(const auto sent, socket.send({}, question));
  if (sent != send_outcome::sent || !wait_for(socket, -1, timeout_ms).socket) {
    return fail(errc::timeout, "the ZAP handler has not answered within {} ms", timeout_ms);
  }
  QUERN_TRY(const auto reply, socket.receive());
  if (!reply || reply->parts.size() < 3)
    return fail(errc::internal, "the ZAP handler's answer is cut");
  return reply->parts[2];
}

base::expected<std::unique_ptr<zap_handler>> zap_handler::start(zmq_context& context,
                                                                std::set<std::string> allowed) {
  QUERN_TRY(auto socket, zmq_socket::open(context, socket_kind::rep));
  QUERN_CHECK(socket.bind(zap_endpoint));
  base::unique_fd stop(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop) return base::fail_errno("making an eventfd");
  const std::string known = allowed.empty() ? std::string() : *allowed.begin();
  std::unique_ptr<zap_handler> handler(
      new zap_handler(std::move(socket), std::move(stop), std::move(allowed)));
  QUERN_TRY(handler->thread_,
            base::start_thread("the key check", [raw = handler.get()] { raw->serve(); }));
  QUERN_TRY(const auto unlisted, make_curve_keys());
  const auto closed = ask_zap(context, unlisted.public_key, proof_ms);
  if (!closed || *closed != "400") {
    return fail(errc::unavailable,
                "the key check does not refuse an unlisted key ({}); not binding",
                closed ? *closed : closed.error().message);
  }
  if (!known.empty()) {
    const auto open = ask_zap(context, known, proof_ms);
    if (!open || *open != "200") {
      return fail(errc::unavailable, "the key check does not admit key {} ({}); not binding", known,
                  open ? *open : open.error().message);
    }
  }
  handler->admitted_ = 0;
  handler->refused_ = 0;
  return handler;
}

zap_handler::~zap_handler() {
  const std::uint64_t one = 1;
  (void)!write(stop_.get(), &one, sizeof one);
  if (thread_.joinable()) thread_.join();
}

frames zap_handler::answer(const frames& request) {
  const std::string id = request.size() > 1 ? request[1] : "";
  const bool curve = request.size() == 7 && request[0] == "1.0" && request[5] == "CURVE";
  const std::string key = curve ? to_z85(request[6]) : "";
  if (curve && allowed_.contains(key)) {
    ++admitted_;
    return {"1.0", id, "200", "OK", key, ""};
  }
  ++refused_;
  // A bound, since whoever connects chooses the key.
  constexpr std::size_t most_told = 100;
  if (curve && request[1] != proof_id && told_.size() < most_told && told_.insert(key).second)
    base::log_warn("gateway",
                   "a host at {} with the public key {} is refused: env.hosts does not list it; "
                   "where it is one of yours, add it there, then pause and resume the run",
                   request[3], key);
  return {"1.0", id, "400", "this key is not on the list", "", ""};
}

void zap_handler::serve() {
  while (true) {
    const auto ready = wait_for(socket_, stop_.get(), -1);
    if (ready.event) return;
    if (!ready.socket) continue;
    auto request = socket_.receive();
    if (!request) return;  // the context ends
    if (*request) (void)socket_.send({}, answer((*request)->parts));
  }
}

}  // namespace quern::env
