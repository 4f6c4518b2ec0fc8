// The thread that owns the ROUTER.
#include "actors/gateway.hpp"

#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include <sys/eventfd.h>
#include <unistd.h>

#include "base/log.hpp"
#include "base/thread.hpp"
#include "env/plugin/curve.hpp"
#include "env/plugin/time_outs.hpp"

namespace quern::actors {

using base::errc;
using base::fail;

namespace {

constexpr const char* component = "gateway";
constexpr nanoseconds_t millisecond = 1'000'000;
constexpr int frames_a_turn = 256;  // then the outbox gets its turn
constexpr int goodbye_ms = 200;

}  // namespace

struct gateway::state {
  gateway_options options;
  gateway_events& events;
  const base::clock& time;
  session_book sessions;
  base::unique_fd wake;
  env::zmq_context context;
  std::unique_ptr<env::zap_handler> zap;
  std::vector<env::zmq_socket>
      sockets;  // a ROUTER without CURVE for ipc://, one with it for tcp://
  std::vector<std::string> bound;
  nanoseconds_t next_heartbeat = 0;
  std::map<session_id, std::map<std::int64_t, std::string>> quarantined;  // as last told

  std::mutex mutex;
  std::deque<std::pair<session_id, env::message>> outbox;
  bool wake_pending = false;
  std::atomic<bool> ending = false;
  std::atomic<std::thread::id> own_thread;
  std::thread thread;

  mutable std::mutex counting;
  gateway_statistics counts;

  state(gateway_options o, gateway_events& e, const base::clock& t)
      : options(std::move(o)),
        events(e),
        time(t),
        sessions(options.incarnation,
                 {env::missed_heartbeats * options.heartbeat_ms * millisecond, options.most_hosts}),
        wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  void count(std::int64_t gateway_statistics::*what) {
    const std::lock_guard lock(counting);
    ++(counts.*what);
  }

  base::status open_sockets();
  void post(session_id session, env::message what);
  void serve();
  void empty_outbox();
  void on_time();
  void send(const peer& to, const env::message& what);
  void send_to(session_id session, const env::message& what);
  void end_session(session_id session, const std::string& why,
                   void (gateway_events::*tell)(session_id, const std::string&));
  void lose(session_id session, const std::string& why) {
    end_session(session, why, &gateway_events::host_lost);
  }
  void take(const peer& from, const env::frames& parts);
  void greet(const peer& from, const env::hello_message& hello);
  void hear_of_devices(const env::heartbeat_message& beat);
  void route(const peer& from, const env::message& what);
};

base::status gateway::state::open_sockets() {
  if (options.endpoints.empty()) {
    return fail(errc::invalid_argument, "a gateway needs at least one endpoint to bind to");
  }
  const auto is_ipc = [](const std::string& endpoint) { return endpoint.starts_with("ipc://"); };
  for (const bool open : {true, false}) {
    std::vector<std::string> mine;
    for (const auto& endpoint : options.endpoints) {
      if (is_ipc(endpoint) == open) mine.push_back(endpoint);
    }
    if (mine.empty()) continue;
    QUERN_TRY(auto socket, env::zmq_socket::open(context, env::socket_kind::router));
    if (!open) {
      if (!options.keys) {
        return fail(
            errc::invalid_argument,
            "{} would let anybody in: give the gateway CURVE keys and the hosts' keys, or use "
            "ipc://",
            mine.front());
      }
      QUERN_TRY(zap, env::zap_handler::start(context, options.keys->hosts));
      QUERN_CHECK(socket.be_curve_server(options.keys->own));
    }
    for (const auto& endpoint : mine) {
      QUERN_CHECK(socket.bind(endpoint));
      bound.push_back(socket.endpoint());
    }
    sockets.push_back(std::move(socket));
  }
  return {};
}

void gateway::state::post(session_id session, env::message what) {
  bool first = false;
  {
    const std::lock_guard lock(mutex);
    outbox.emplace_back(session, std::move(what));
    first = !std::exchange(wake_pending, true);
  }
  // The gateway's own thread looks into the outbox before it waits.
  if (first && std::this_thread::get_id() != own_thread.load()) {
    const std::uint64_t one = 1;
    (void)!write(wake.get(), &one, sizeof one);
  }
}

void gateway::state::send(const peer& to, const env::message& what) {
  const auto parts = env::encode(what);
  if (!parts) {
    base::log_error(component, "cannot send {}: {}", type_of(what), parts.error().message);
    return;
  }
  auto& socket = sockets[static_cast<std::size_t>(to.route.front())];
  const auto outcome = socket.send(to.route.substr(1), *parts);
  count(outcome && *outcome == env::send_outcome::sent ? &gateway_statistics::frames_out
                                                       : &gateway_statistics::unreachable);
}

void gateway::state::send_to(session_id session, const env::message& what) {
  // What does not arrive is noticed by silence or by the lease's deadline, never by this thread.
  if (const auto* alive = sessions.find(session)) send(alive->at, what);
}

void gateway::state::end_session(session_id session, const std::string& why,
                                 void (gateway_events::*tell)(session_id, const std::string&)) {
  base::log_info(component, "host session {:016x} is over: {}", session, why);
  quarantined.erase(session);
  (events.*tell)(session, why);
}

void gateway::state::greet(const peer& from, const env::hello_message& hello) {
  const auto refuse_hello = [&](std::string code, std::string text, std::string hint) {
    count(&gateway_statistics::refused_hellos);
    send(from, env::refused_message{std::move(code), std::move(text), std::move(hint)});
  };
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  for (const auto& [field, value] : {std::pair("pid", hello.pid), std::pair("start", hello.start)})
    if (value < 0 || value > most)
      return refuse_hello("number",
                          fmt::format("{} is {}, 0 to {} is possible", field, value, most),
                          "leave it out: it is for the one who started the host");
  const auto version = env::common_protocol(hello.proto_min, hello.proto_max);
  if (!version) {
    return refuse_hello("protocol", version.error().message, "use the same release on both sides");
  }
  const auto greeting = sessions.hello(from, hello.nonce, time.now_ns());
  if (!greeting) {
    return refuse_hello("sessions", greeting.error().message, "try again when a host has left");
  }
  if (greeting->ended) lose(*greeting->ended, "the host started again");
  send(from, env::welcome_message{greeting->session, hello.nonce, *version, options.lease_ms,
                                  options.heartbeat_ms, options.run});
  if (!greeting->fresh) return;
  base::log_info(component, "evaluator host {} (process {}, session {:016x}) has joined: {}",
                 hello.name.empty() ? "without a name" : hello.name, hello.pid, greeting->session,
                 env::offer_text(hello.lanes, hello.devices));
  events.host_joined(greeting->session, hello);
}

void gateway::state::hear_of_devices(const env::heartbeat_message& beat) {
  std::map<std::int64_t, std::string> now;
  for (const auto& device : beat.quarantined)
    now[device.device] = device.reason;
  auto& before = quarantined[beat.session];
  if (before == now) return;
  before = std::move(now);
  events.quarantined(beat.session, beat.quarantined);
}

void gateway::state::route(const peer& from, const env::message& what) {
  const auto living = [&](session_id session) {
    if (sessions.accept(session, from, time.now_ns())) return true;
    count(&gateway_statistics::stale_frames);
    send(from, env::error_message{"unknown_session", "this session is over; say HELLO"});
    return false;
  };
  if (const auto* hello = std::get_if<env::hello_message>(&what)) {
    greet(from, *hello);
  } else if (const auto* asked = std::get_if<env::credit_message>(&what)) {
    if (living(asked->session)) events.credit(asked->session, asked->device, asked->n);
  } else if (const auto* verdict = std::get_if<env::verdict_message>(&what)) {
    if (!living(verdict->session)) return;
    sessions.answered(verdict->session, verdict->lease);
    events.verdict(verdict->session, verdict->lease, verdict->verdict);
  } else if (const auto* failure = std::get_if<env::failed_message>(&what)) {
    if (!living(failure->session)) return;
    sessions.answered(failure->session, failure->lease);
    if (failure->returned != 0) {
      events.returned(failure->session, failure->lease, failure->reason);
    } else {
      events.failed(failure->session, failure->lease, failure->reason);
    }
  } else if (const auto* need = std::get_if<env::need_message>(&what)) {
    if (!living(need->session)) return;
    if (auto text = events.task_text(need->task_hash)) {
      send(from, env::task_message{need->task_hash, std::move(*text)});
    } else {
      send(from, env::error_message{"unknown_task", base::to_hex(need->task_hash)});
    }
  } else if (const auto* beat = std::get_if<env::heartbeat_message>(&what)) {
    if (living(beat->session)) hear_of_devices(*beat);
  } else if (const auto* bye = std::get_if<env::bye_message>(&what)) {
    if (!living(bye->session)) return;
    if (bye->drain != 0) return events.host_draining(bye->session);
    sessions.end(bye->session);
    end_session(bye->session, "the host said goodbye", &gateway_events::host_left);
  } else if (const auto* problem = std::get_if<env::error_message>(&what)) {
    base::log_warn(component, "a host reports {}: {}", problem->code, problem->text);
  } else {
    count(&gateway_statistics::bad_frames);
    send(from,
         env::error_message{"unexpected", fmt::format("{} is not for gateways", type_of(what))});
  }
}

void gateway::state::take(const peer& from, const env::frames& parts) {
  count(&gateway_statistics::frames_in);
  const auto what = env::decode(parts);
  if (what) return route(from, *what);
  const bool unknown = what.error().code == errc::not_found;
  count(unknown ? &gateway_statistics::unknown_types : &gateway_statistics::bad_frames);
  if (what.error().code == errc::version) {
    send(from, env::refused_message{"protocol", what.error().message, "use host protocol 1"});
  } else {
    send(from, env::error_message{unknown ? "unknown_type" : "bad_frame", what.error().message});
  }
}

void gateway::state::empty_outbox() {
  std::deque<std::pair<session_id, env::message>> posted;
  {
    const std::lock_guard lock(mutex);
    posted.swap(outbox);
    wake_pending = false;
  }
  for (const auto& [session, what] : posted) {
    if (session == 0) {
      for (const auto each : sessions.alive())
        send_to(each, env::bye_message{each, 1});
      continue;
    }
    send_to(session, what);
    if (const auto* over = std::get_if<env::cancel_message>(&what)) {
      sessions.cancel(session, {over->lease, over->device});
    }
    if (std::holds_alternative<env::refused_message>(what) && sessions.end(session)) {
      count(&gateway_statistics::refused_hellos);
      lose(session, "refused");
    }
  }
}

void gateway::state::on_time() {
  const auto now = time.now_ns();
  for (const auto session : sessions.expire(now))
    lose(session, "silent for too long");
  if (now < next_heartbeat) return;
  next_heartbeat = now + options.heartbeat_ms * millisecond;
  for (const auto session : sessions.alive()) {
    send_to(session, env::heartbeat_message{session});
    for (const auto& [lease, device] : sessions.find(session)->cancelled) {
      send_to(session, env::cancel_message{session, lease, device});
    }
  }
}

void gateway::state::serve() {
  own_thread = std::this_thread::get_id();
  while (!ending) {
    bool busy = false;
    for (std::size_t i = 0; i < sockets.size(); ++i) {
      for (int n = 0; n < frames_a_turn; ++n) {
        auto in = sockets[i].receive();
        if (!in || !*in) break;
        busy = true;
        take({std::string(1, static_cast<char>(i)) + (*in)->route, (*in)->user}, (*in)->parts);
      }
    }
    empty_outbox();
    on_time();
    if (busy) continue;
    {
      const std::lock_guard lock(mutex);
      if (!outbox.empty()) continue;
    }
    auto until = next_heartbeat;
    if (const auto expiry = sessions.next_expiry()) until = std::min(until, *expiry);
    const auto wait = std::max<nanoseconds_t>(0, until - time.now_ns());
    const auto ready =
        env::wait_for(sockets, wake.get(), static_cast<long>(wait / millisecond + 1));
    if (ready.event) {
      std::uint64_t woken = 0;
      (void)!read(wake.get(), &woken, sizeof woken);
    }
  }
  empty_outbox();
  for (const auto session : sessions.alive())
    send_to(session, env::bye_message{session, 0});
}

base::expected<std::unique_ptr<gateway>> gateway::start(gateway_options options,
                                                        gateway_events& events,
                                                        const base::clock& time) {
  auto inner = std::make_unique<state>(std::move(options), events, time);
  if (!inner->wake) return base::fail_errno("making an eventfd");
  QUERN_CHECK(inner->open_sockets());
  QUERN_TRY(inner->thread,
            base::start_thread("the gateway", [raw = inner.get()] { raw->serve(); }));
  return std::unique_ptr<gateway>(new gateway(std::move(inner)));
}

gateway::gateway(std::unique_ptr<state> s) : state_(std::move(s)) {}

gateway::~gateway() {
  state_->ending = true;
  const std::uint64_t one = 1;
  (void)!write(state_->wake.get(), &one, sizeof one);
  state_->thread.join();
  for (auto& socket : state_->sockets)
    socket.linger(goodbye_ms);
}

void gateway::send_job(env::job_message job) {
  const auto session = job.session;
  state_->post(session, std::move(job));
}

void gateway::acknowledge(session_id session, lease_id lease, bool accepted) {
  state_->post(session, env::verdict_ack_message{lease, accepted ? 1 : 0});
}

void gateway::cancel(session_id session, lease_id lease, std::int64_t device) {
  state_->post(session, env::cancel_message{session, lease, device});
}

void gateway::refuse(session_id session, std::string code, std::string text, std::string hint) {
  state_->post(session, env::refused_message{std::move(code), std::move(text), std::move(hint)});
}

void gateway::drain_hosts() {
  // Sessions belong to the gateway's thread: session 0 stands for all of them.
  state_->post(0, env::bye_message{0, 1});
}

std::vector<std::string> gateway::endpoints() const {
  return state_->bound;
}

gateway_statistics gateway::statistics() const {
  const std::lock_guard lock(state_->counting);
  auto counts = state_->counts;
  if (state_->zap) counts.refused_keys = state_->zap->refused();
  return counts;
}

}  // namespace quern::actors
