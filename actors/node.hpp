// A process as a CAF node: settings that both ends must share, and the way to control.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
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
///
/// CAF 0.17.6 can wait for ever when a system with a middleman ends. A local actor that another
/// node knows is monitored by the BASP broker. It counts as terminated before it tells its
/// monitors. If the middleman stops in between, the news, which holds a reference to the actor,
/// goes into the broker's mailbox: that is never closed (abstract_broker::cleanup passes over
/// scheduled_actor::cleanup), nobody reads it any more, and the multiplexer's pipe keeps the
/// broker. So the actor is never destroyed and the thread of a detached one never ends. Hence a
/// node waits for the last of an actor's monitors to be told before its system ends.
class node {
  /// Actors whose monitors have not all been told yet. Thread-safe; functors of actors share it.
  class farewells {
   public:
    void expect();
    void said();
    bool all_said_within(std::chrono::seconds patience);

   private:
    std::mutex mutex_;
    std::condition_variable changed_;
    int awaited_ = 0;
  };

 public:
  node();
  /// Ends the actors if that was not done, then `end`.
  ~node();
  node(const node&) = delete;
  node& operator=(const node&) = delete;

  [[nodiscard]] caf::actor_system& system() { return parts_->system; }
  /// An actor that does not end by itself: `end_actors` tells it to. To be called before another
  /// node can know the actor.
  template <class Handle>
  void owns(const Handle& actor) {
    owned_.push_back(caf::actor_cast<caf::actor>(actor));
    owned_.back()->attach_functor(farewell());
  }
  /// For an actor that ends by itself: the first functor that it attaches to itself. Attachables
  /// are called in reverse order, so that this call is the last thing that others see of the actor.
  [[nodiscard]] auto farewell() {
    farewells_->expect();
    return [all = farewells_] { all->said(); };
  }
  /// Tells the owned actors to end and waits until every actor has terminated.
  void end_actors();
  /// Ends the actors and the system; whether nothing is left of them. Handles of actors that live
  /// longer make it wait. After defaults::node_end the system is left behind, with a warning: its
  /// threads wait, harm nobody and end with the process. No further call may follow.
  bool end();

 private:
  struct parts {
    node_config config;
    caf::actor_system system{config};
  };
  std::unique_ptr<parts> parts_;
  std::shared_ptr<farewells> farewells_ = std::make_shared<farewells>();
  std::vector<caf::actor> owned_;
};

/// Where control listens.
struct control_address {
  std::string host;
  std::uint16_t port = 0;
};

/// "host:port"; an error names the text.
base::expected<control_address> parse_address(const std::string& text);

/// The orchestrator actor of control. Errors: unavailable, with CAF's reason.
base::expected<orchestrator_ref> connect_to_control(caf::actor_system& system,
                                                    const control_address& where);

/// Lets processes of the run connect to `control` at a free port of `address`, which is returned.
/// Errors: io, with CAF's reason.
base::expected<std::uint16_t> listen_for_processes(caf::actor_system& system,
                                                   const orchestrator_ref& control,
                                                   const std::string& address);

/// What control and its processes must agree on.
base::hash128 config_hash(const std::string& config_yaml);

}  // namespace quern::actors
