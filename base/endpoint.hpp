// Places on a network as people write them: "tcp://HOST:PORT".
#pragma once

#include <cstdint>
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

}  // namespace quern::base
