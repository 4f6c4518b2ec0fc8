// A process as a CAF node: settings that both ends must share, and the way to control.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

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

/// This process as a node, with the actors that it has to end. One thread.
class node {
 public:
  node();
  /// Ends the actors if that was not done, and waits until nothing is left of them, at most
  /// defaults::node_end: CAF 0.17 was seen to wait for ever for the thread of a detached actor that
  /// has terminated (actor-framework issue 1196 fits; 0.18 has another design of these threads).
  /// Then its system is left behind, with a warning. Handles of actors that live longer make it
  /// wait, too.
  ~node();
  node(const node&) = delete;
  node& operator=(const node&) = delete;

  [[nodiscard]] caf::actor_system& system() { return parts_->system; }
  /// An actor that does not end by itself: `end_actors` tells it to.
  template <class Handle>
  void owns(const Handle& actor) {
    owned_.push_back(caf::actor_cast<caf::actor>(actor));
  }
  /// Tells the owned actors to end and waits until every actor has terminated.
  void end_actors();

 private:
  struct parts {
    node_config config;
    caf::actor_system system{config};
  };
  std::unique_ptr<parts> parts_;
  std::vector<caf::actor> owned_;
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

/// Lets processes of the run connect to `control` at a free port of `address`, which is returned.
/// Errors: io, with CAF's reason.
base::expected<std::uint16_t> listen_for_processes(caf::actor_system& system,
                                                   const replay_ref& control,
                                                   const std::string& address);

/// What control and its processes must agree on.
base::hash128 config_hash(const std::string& config_yaml);

}  // namespace quern::actors
