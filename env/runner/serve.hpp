// The loop of every runner: a command comes, is held against its rule, and is answered by the
// handler that the runner has for it. No exceptions, no allocation; what is wrong with a message is
// refused before a handler sees it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "env/runner/command_rules.hpp"
#include "env/runner/protocol.hpp"

namespace quern::env::runner {

/// A command as its handler gets it: with a body and a descriptor as its rule says.
struct question {
  std::uint64_t ticket = 0;
  std::span<const std::byte> body;
  int descriptor = -1;  ///< -1: none came. The loop's, which closes it before it answers.

  [[nodiscard]] reply done(std::uint64_t value = 0) const;
  /// `why` is for people, and cut to what fits.
  [[nodiscard]] reply failed(const char* why) const;
  /// A command that cannot be obeyed as things stand: not one that an evaluator sends.
  [[nodiscard]] reply unusable() const { return failed("unusable message"); }
};

struct command_handler {
  command command_id = command::map;
  reply (*answer)(void* runner, const question& asked) = nullptr;
};

namespace of_member {

template <command What, auto Method>
struct handler;

template <command What, class Runner, class Body,
          reply (Runner::*Method)(const question&, const Body&)>
struct handler<What, Method> {
  static_assert(rule_of(What).least_bytes == sizeof(Body));
  static_assert(rule_of(What).most_bytes == sizeof(Body));
  static reply answer(void* runner, const question& asked) {
    return (static_cast<Runner*>(runner)->*Method)(
        asked, *reinterpret_cast<const Body*>(asked.body.data()));
  }
};

template <command What, class Runner, reply (Runner::*Method)(const question&)>
struct handler<What, Method> {
  static reply answer(void* runner, const question& asked) {
    return (static_cast<Runner*>(runner)->*Method)(asked);
  }
};

}  // namespace of_member

/// A member function that takes the question, and the body where it is of one size.
template <command What, auto Method>
constexpr command_handler handled_by() {
  return {What, &of_member::handler<What, Method>::answer};
}

/// Bytes of the longest message that such a runner takes.
constexpr std::size_t longest_message(std::span<const command_handler> handlers) {
  std::size_t most = 0;
  for (const auto& one : handlers)
    most = std::max(most, rule_of(one.command_id).most_bytes);
  return sizeof(header) + most;
}

/// One runner: its commands, the most frequent first, and what is the same for all of them.
struct command_server {
  std::span<const command_handler> handlers;
  void* runner = nullptr;
  /// Asked before the command is held against its rule: why the runner cannot take it as things
  /// stand, or null. `how`: outcome of the reply, which is `failed` unless it is set. Null: the
  /// runner takes all commands.
  const char* (*refuses)(const void* runner, command what, outcome& how) = nullptr;
  /// For how long, ns, the loop polls for the next command before it sleeps. Null: it sleeps at
  /// once.
  std::int64_t (*awake_behind)(command what, std::size_t body_bytes) = nullptr;
  /// Of the command that is being answered, or was last; what a handler of signals answers.
  std::uint64_t ticket = 0;
};

/// Answers commands on `socket` until the evaluator is gone, or until what comes is no message: cut
/// off because it is longer than `buffer`, or shorter than a header. The status to exit with
/// (status_without_socket). `buffer`: longest_message() bytes, aligned as bodies are.
int serve_commands(command_server& server, int socket, std::span<std::byte> buffer);

}  // namespace quern::env::runner
