// The runner's end of the socket: one message with at most one descriptor in, one reply out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "env/runner/protocol.hpp"

namespace quern::env::runner {

/// Exit status of a runner for which receive() or send_reply() was of no use, by errno behind it:
/// 0 when the evaluator is gone, lost_socket_status when the socket is.
int status_without_socket();

inline constexpr int no_descriptor = -1;
/// More than one came, or this process has no room for another.
inline constexpr int unusable_descriptor = -2;

/// Receives one message into `buffer`; the descriptor that came with it is in `fd` and belongs to
/// the caller (else no_descriptor or unusable_descriptor). Returns its size; 0 when the evaluator
/// is gone or the message is longer than `buffer`. For `awake_ns` it looks again and again before
/// it sleeps: who sleeps wakes late.
std::size_t receive(int socket, std::span<std::byte> buffer, int& fd, std::int64_t awake_ns = 0);

/// Sends a reply; false when the evaluator is gone. Async-signal-safe.
bool send_reply(int socket, const reply& what);

/// A reply with text, cut to what fits.
reply make_reply(std::uint64_t ticket, outcome how, std::uint64_t value, const char* text);

}  // namespace quern::env::runner
