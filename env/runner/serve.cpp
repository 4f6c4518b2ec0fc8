// The loop of every runner.
#include "env/runner/serve.hpp"

#include <array>
#include <cstdio>
#include <cstring>

#include <unistd.h>

#include "env/runner/channel.hpp"

namespace quern::env::runner {
namespace {

template <class... Values>
reply refused(const header& head, const char* form, Values... values) {
  std::array<char, 160> text{};
  std::snprintf(text.data(), text.size(), form, values...);
  return make_reply(head.ticket, outcome::failed, 0, text.data());
}

const command_handler* handler_of(const command_server& server, command what) {
  for (const auto& one : server.handlers)
    if (one.command_id == what) return &one;
  return nullptr;
}

/// A handler is called only with what the rule of its command says.
reply answer(command_server& server, const header& head, std::span<const std::byte> body,
             int descriptor) {
  if (head.ticket <= server.ticket)
    return refused(head, "unusable message: ticket %llu came after %llu",
                   static_cast<unsigned long long>(head.ticket),
                   static_cast<unsigned long long>(server.ticket));
  server.ticket = head.ticket;
  if (server.refuses != nullptr) {
    outcome how = outcome::failed;
    if (const char* why = server.refuses(server.runner, head.command_id, how); why != nullptr)
      return make_reply(head.ticket, how, 0, why);
  }
  const auto number = static_cast<unsigned>(head.command_id);
  const command_handler* handler = handler_of(server, head.command_id);
  if (handler == nullptr)
    return refused(head, "unusable message: this process has no command %u", number);
  const command_rule& rule = rule_of(head.command_id);
  if (body.size() < rule.least_bytes || body.size() > rule.most_bytes)
    return refused(head, "unusable message: command %u has %zu to %zu bytes, %zu came", number,
                   rule.least_bytes, rule.most_bytes, body.size());
  if (descriptor == unusable_descriptor)
    return refused(head, "unusable message: command %u came with descriptors that did not arrive",
                   number);
  if (descriptor < 0 && rule.descriptor == descriptor_rule::needed)
    return refused(head, "unusable message: command %u came without its descriptor", number);
  if (descriptor >= 0 && rule.descriptor == descriptor_rule::none)
    return refused(head, "unusable message: command %u came with a descriptor", number);
  return handler->answer(server.runner, {head.ticket, body, descriptor});
}

}  // namespace

reply question::done(std::uint64_t value) const {
  return make_reply(ticket, outcome::done, value, nullptr);
}

reply question::failed(const char* why) const {
  return make_reply(ticket, outcome::failed, 0, why);
}

int serve_commands(command_server& server, int socket, std::span<std::byte> buffer) {
  header head;
  for (std::int64_t awake_ns = 0;;) {
    int descriptor = no_descriptor;
    const std::size_t got = receive(socket, buffer, descriptor, awake_ns);
    if (got < sizeof head) return status_without_socket();
    std::memcpy(&head, buffer.data(), sizeof head);
    const auto body = std::span<const std::byte>(buffer).subspan(sizeof head, got - sizeof head);
    const reply answered = answer(server, head, body, descriptor);
    if (descriptor >= 0) close(descriptor);
    if (!send_reply(socket, answered)) return status_without_socket();
    awake_ns =
        server.awake_behind != nullptr ? server.awake_behind(head.command_id, body.size()) : 0;
  }
}

}  // namespace quern::env::runner
