// Places on a network as people write them: "tcp://HOST:PORT".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.hpp"

namespace quern::base {

/// A port number from 1 to 65535, digits only. Error: invalid_argument, with the text and the
/// range. Libraries keep the low 16 bits of a larger number and listen somewhere else.
expected<std::uint16_t> parse_port(std::string_view text);

enum class endpoint_use {
  listen,  ///< "*" for the host is every address, "*" or 0 for the port is any free one
  connect
};

/// Whether `text` is "tcp://HOST:PORT" with something in each place; an address of IPv6 stands in
/// brackets. Names are not looked up. Error: invalid_argument, with the text and what is wrong.
status check_tcp_endpoint(std::string_view text, endpoint_use use);

/// Where HTTP is served.
struct listen_address {
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;  ///< 0: any free one
  /// Whether only processes of this machine reach it.
  [[nodiscard]] bool is_local() const;
};

/// "", "HOST", ":PORT", "HOST:PORT", "[IPV6]:PORT"; what is missing is as in `usual`. Names are not
/// looked up. Error: invalid_argument, with the text and what is allowed.
expected<listen_address> parse_listen_address(std::string_view text, listen_address usual);

/// Whether the host of a request ("HOST", "HOST:PORT", "[IPV6]:PORT") is a name of this machine's
/// own: localhost, or an address that never leaves it.
bool names_this_machine(std::string_view host_and_port);

/// Whether something can listen there now: binds for a moment. Error: unavailable, with the
/// system's reason.
status can_listen(const listen_address& address);

}  // namespace quern::base
