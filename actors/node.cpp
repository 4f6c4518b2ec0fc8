#include "actors/node.hpp"

#include <future>
#include <thread>

#include "actors/defaults.hpp"
#include "base/endpoint.hpp"
#include "base/log.hpp"

namespace quern::actors {

node_config::node_config() {
  add_message_types<caf::id_block::quern>();
  add_message_types<caf::id_block::quern_refs>();
  load<caf::io::middleman>();
  set("middleman.heartbeat-interval", caf::timespan(defaults::node_heartbeat));
  set("middleman.connection-timeout", caf::timespan(defaults::node_silence));
  // Idle workers of the default policy sleep up to 10 ms before they look again.
  set("scheduler.policy", caf::atom("sharing"));
  set("scheduler.max-threads", std::size_t{2});
}

node::node() : parts_(std::make_unique<parts>()) {}

void node::farewells::expect() {
  const std::lock_guard lock(mutex_);
  ++awaited_;
}

void node::farewells::said() {
  const std::lock_guard lock(mutex_);
  if (--awaited_ == 0) changed_.notify_all();
}

bool node::farewells::all_said_within(std::chrono::seconds patience) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, patience, [&] { return awaited_ == 0; });
}

void node::end_actors() {
  for (auto last = owned_.rbegin(); last != owned_.rend(); ++last)
    caf::anon_send_exit(*last, caf::exit_reason::user_shutdown);
  owned_.clear();
  parts_->system.await_all_actors_done();
  if (!farewells_->all_said_within(defaults::node_end))
    base::log_warn("node", "an actor that has ended has not told its monitors after {} s",
                   std::chrono::seconds(defaults::node_end).count());
}

bool node::end() {
  end_actors();
  // A thread that has worked with the system keeps its logger alive, and its end waits for that.
  caf::logger::set_current_actor_system(nullptr);
  const auto gone = std::make_shared<std::promise<void>>();
  auto wait = gone->get_future();
  std::thread ending([gone, last = std::move(parts_)]() mutable {
    last.reset();
    gone->set_value();
  });
  if (wait.wait_for(defaults::node_end) == std::future_status::ready) {
    ending.join();
    return true;
  }
  ending.detach();
  base::log_warn("node", "the actors of this process are not gone after {} s: left behind",
                 std::chrono::seconds(defaults::node_end).count());
  return false;
}

node::~node() {
  if (parts_) end();
}

base::expected<control_address> parse_address(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0)
    return base::fail(base::errc::invalid_argument, "'{}' is not HOST:PORT", text);
  const auto port = base::parse_port(std::string_view(text).substr(colon + 1));
  if (!port)
    return base::fail(base::errc::invalid_argument, "'{}' is not HOST:PORT: {}", text,
                      port.error().message);
  return control_address{text.substr(0, colon), *port};
}

base::expected<orchestrator_ref> connect_to_control(caf::actor_system& system,
                                                    const control_address& where) {
  auto found = system.middleman().remote_actor<orchestrator_ref>(where.host, where.port);
  if (found) return std::move(*found);
  return base::fail(base::errc::unavailable, "no control process of this build at {}:{}: {}",
                    where.host, where.port, system.render(found.error()));
}

base::expected<std::uint16_t> listen_for_processes(caf::actor_system& system,
                                                   const orchestrator_ref& control,
                                                   const std::string& address) {
  const auto port = system.middleman().publish(control, 0, address.c_str());
  if (port) return *port;
  return base::fail(base::errc::io, "cannot listen on {}: {}", address,
                    system.render(port.error()));
}

base::hash128 config_hash(const std::string& config_yaml) {
  return base::xxh128(config_yaml);
}

}  // namespace quern::actors
