// A process as a CAF node: settings that both ends must share, and the way to control.
#pragma once

#include <cstdint>
#include <string>

#include "actors/protocol.hpp"
#include "base/hash.hpp"
#include "base/status.hpp"

namespace quern::actors {

/// Heartbeats on, the scheduler for few coarse messages, every message type registered. CAF's own
/// command line is not read.
class node_config : public caf::actor_system_config {
 public:
  node_config();
};

/// Where control listens.
struct control_address {
  std::string host;
  std::uint16_t port = 0;
};

/// "host:port"; an error names the text.
base::expected<control_address> parse_address(const std::string& text);

/// The replay actor of control. Errors: unavailable, with CAF's reason.
base::expected<replay_ref> connect_to_control(caf::actor_system& system,
                                              const control_address& where);

/// What control and its processes must agree on.
base::hash128 config_hash(const std::string& config_yaml);

}  // namespace quern::actors
