// What the ranks of a group say to each other besides their collectives: frames of a length (u32)
// and a payload (base/bytes.hpp) over a stream socket. Both ends are of one build and one user.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/file.hpp"
#include "base/status.hpp"
#include "policy/collectives/rank_watch.hpp"

namespace quern::policy {

enum class rendezvous_message : std::uint8_t {
  hello = 1,  ///< rank
  set,        ///< key, value
  ask,        ///< number of the question, key: answered when somebody has set it
  add,        ///< number of the question, key, amount: answered with the sum
  beat,       ///< rank_beat
  bye,        ///< the rank leaves in order
  answer,     ///< number of the question, value
  alive,      ///< the server is there; rank_beat of rank 0, which it lives in
  complete,   ///< all ranks have come
  verdict,    ///< rank_verdict: the group has failed
  end         ///< the server ends in order
};

inline constexpr std::size_t largest_frame = 4U << 20U;

/// `word`: beat or alive.
std::string encode_beat(const rank_beat& where, rendezvous_message word = rendezvous_message::beat);
std::string encode_verdict(const rank_verdict& verdict);
/// Of the payload after its first byte. Errors: corrupt.
base::expected<rank_beat> decode_beat(std::string_view bytes);
base::expected<rank_verdict> decode_verdict(std::string_view bytes);

/// Bytes as they arrive, cut into frames.
class frame_reader {
 public:
  /// Reads what is there without blocking, at most about a largest_frame ahead of `next`. False:
  /// the other end is gone.
  bool fill(int socket);
  /// The next whole payload. A frame above largest_frame makes the stream unreadable: `broken`.
  std::optional<std::string> next();
  [[nodiscard]] bool broken() const { return broken_; }
  /// Bytes that `next` has not given yet.
  [[nodiscard]] std::size_t held() const { return buffer_.size(); }

 private:
  std::string buffer_;
  bool broken_ = false;
};

/// False when the other end is gone or does not take it within `patience_ms`.
bool send_frame(int socket, std::string_view payload, int patience_ms);

/// "unix:/path" or "tcp://HOST:PORT"; to listen at port 0 is to take a free one. Errors name the
/// address.
base::expected<base::unique_fd> listen_at(const std::string& address);
/// Over TCP it waits a second at most.
base::expected<base::unique_fd> connect_to(const std::string& address);
/// The port that a tcp socket listens at.
base::expected<std::uint16_t> port_of(int socket);

}  // namespace quern::policy
