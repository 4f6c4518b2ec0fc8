// Socket, workers and the wire between them.
#include "env/plugin/host_loop.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "env/plugin/connection_watch.hpp"
#include "env/plugin/time_outs.hpp"
#include "env/plugin/worker_threads.hpp"

namespace quern::env {

using base::errc;
using base::fail;
using base::nanoseconds_t;

namespace {

constexpr const char* component = "host";
constexpr int ready_to_stop = 2;
constexpr auto look_again = std::chrono::seconds(1);  // at a device that takes no work

std::uint64_t fresh_nonce() {
  std::random_device source;
  return (static_cast<std::uint64_t>(source()) << 32U) | source();
}

}  // namespace

struct host_loop::state {
  struct work {
    host_job job;
    std::shared_ptr<std::atomic<bool>> cancelled = std::make_shared<std::atomic<bool>>(false);
  };

  /// A device's thread: jobs in the order in which they came.
  struct worker {
    std::deque<work> queue;
    std::optional<std::string> out;  // why the device takes no work
  };

  host_options options;
  evaluate_function evaluate;
  prepare_function prepare;
  device_state_function device_state;
  host_session session;
  connection_story story;
  base::unique_fd wake;
  zmq_context context;
  std::optional<zmq_socket> socket;
  std::optional<connection_watch> watch;  // after the socket: it goes first
  base::steady_clock clock;
  std::atomic<int> wish = 0;  // 1: drain, 2: stop

  std::mutex mutex;
  std::condition_variable changed;
  bool ending = false;
  std::map<std::int64_t, worker> workers;
  std::deque<host_job> to_prepare;
  std::vector<std::pair<std::uint64_t, host_result>> results;
  std::vector<std::pair<std::int64_t, std::optional<std::string>>> device_news;
  std::map<std::uint64_t, std::shared_ptr<std::atomic<bool>>> flags;  // I/O thread only
  host_statistics counts;
  bool drain_said = false;
  worker_threads threads;  // of the devices, and those that prepare; they use all that is above

  state(host_options o, evaluate_function e, prepare_function p, device_state_function d)
      : options(std::move(o)),
        evaluate(std::move(e)),
        prepare(std::move(p)),
        device_state(std::move(d)),
        session(options.profile, fresh_nonce()),
        story(options.endpoint, options.keys ? options.keys->own.public_key : ""),
        wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  void signal() const {
    const std::uint64_t one = 1;
    (void)!write(wake.get(), &one, sizeof one);
  }

  base::status connect() {
    QUERN_TRY(auto fresh, zmq_socket::open(context, socket_kind::dealer));
    if (options.keys) {
      QUERN_CHECK(fresh.be_curve_client(options.keys->own, options.keys->gateway));
    }
    watch.reset();
    QUERN_TRY(auto events, connection_watch::start(context, fresh));
    QUERN_CHECK(fresh.connect(options.endpoint));
    socket = std::move(fresh);
    watch.emplace(std::move(events));
    return {};
  }

  void watch_connection() {
    watch->read(story);
    if (session.session() != 0) return;
    if (const auto news = story.news()) base::log_warn(component, "not connected yet: {}", *news);
  }

  void work_on(std::int64_t device) {
    auto at_first = state_of(device);
    std::unique_lock lock(mutex);
    auto& mine = workers.at(device);
    note_state(device, std::move(at_first));
    while (true) {
      const auto awake = [&] { return ending || !mine.queue.empty(); };
      if (mine.out) {
        changed.wait_for(lock, look_again, awake);
      } else {
        changed.wait(lock, awake);
      }
      if (ending) return;
      if (mine.out) {
        give_back(mine);
        lock.unlock();
        auto now = state_of(device);
        lock.lock();
        note_state(device, std::move(now));
        continue;
      }
      auto next = std::move(mine.queue.front());
      mine.queue.pop_front();
      lock.unlock();
      host_result result;
      if (*next.cancelled) {
        result = {true, "cancelled"};
      } else if (clock.now_ns() >= next.job.deadline) {
        result = {true, "the deadline passed before the evaluation began"};
      } else {
        try {
          result = evaluate(next.job, *next.cancelled);
        } catch (const std::exception& problem) {
          result = {true, problem.what()};
        }
      }
      auto now = state_of(device);
      lock.lock();
      // Before the result: that would ask for another job.
      note_state(device, std::move(now));
      results.emplace_back(next.job.job.lease, std::move(result));
      if (mine.out) give_back(mine);
      signal();
    }
  }

  std::optional<std::string> state_of(std::int64_t device) const {
    if (!device_state) return std::nullopt;
    try {
      return device_state(device);
    } catch (const std::exception& problem) {
      return problem.what();
    }
  }

  /// Under the lock.
  void note_state(std::int64_t device, std::optional<std::string> now) {
    auto& mine = workers.at(device);
    if (mine.out == now) return;
    mine.out = now;
    device_news.emplace_back(device, std::move(now));
    signal();
  }

  /// Under the lock: what waits for a device that takes no work.
  void give_back(worker& of) {
    for (const auto& next : of.queue)
      results.emplace_back(next.job.job.lease, host_result{true, *of.out, true});
    if (!of.queue.empty()) signal();
    of.queue.clear();
  }

  void prepare_ahead() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] { return ending || !to_prepare.empty(); });
      if (ending) return;
      const auto job = std::move(to_prepare.front());
      to_prepare.pop_front();
      lock.unlock();
      prepare(job);
      lock.lock();
    }
  }

  void begin_workers() {
    for (const auto& device : options.profile.devices)
      workers[device.id];
    for (const auto& [id, each] : workers)
      threads.start([this, device = id] { work_on(device); });
    for (int i = 0; prepare && i < options.preparers; ++i)
      threads.start([this] { prepare_ahead(); });
  }

  /// `in_order`: else the caller has an error to tell, so that this never ends the program.
  void end_workers(bool in_order) {
    {
      const std::lock_guard lock(mutex);
      ending = true;
      for (auto& [lease, flag] : flags)
        *flag = true;
    }
    changed.notify_all();
    ending_rules rules = options.ending;
    if (!in_order) rules.give_up = nullptr;
    threads.join(rules);
  }

  base::status carry_out(host_actions actions) {
    if (actions.joined)
      base::log_info(component, "{} at {}", session.joined_text(), options.endpoint);
    if (actions.reconnect) {
      ++counts.reconnections;
      base::log_warn(component, "no sign of the gateway at {}; connecting again", options.endpoint);
      QUERN_CHECK(connect());
    }
    for (const auto& out : actions.send) {
      const auto parts = encode(out);
      if (!parts) {  // a verdict beyond the frame limit: say so instead
        if (const auto* verdict = std::get_if<verdict_message>(&out)) {
          QUERN_TRY(const auto instead, encode(failed_message{verdict->session, verdict->lease,
                                                              parts.error().message}));
          QUERN_TRY(const auto outcome, socket->send({}, instead));
          (void)outcome;
        }
        continue;
      }
      QUERN_TRY(const auto outcome, socket->send({}, *parts));
      (void)outcome;  // what a full queue refuses is repeated or replaced
    }
    for (auto& job : actions.start) {
      ++counts.jobs;
      work next{std::move(job)};
      flags[next.job.job.lease] = next.cancelled;
      const std::lock_guard lock(mutex);
      if (prepare) to_prepare.push_back(next.job);
      workers.at(next.job.job.device).queue.push_back(std::move(next));
      changed.notify_all();
    }
    for (const auto lease : actions.cancel) {
      ++counts.cancelled;
      if (const auto flag = flags.find(lease); flag != flags.end()) *flag->second = true;
    }
    if (actions.end) return tl::make_unexpected(*actions.end);
    return {};
  }

  base::status hand_in_results() {
    std::vector<std::pair<std::uint64_t, host_result>> ready;
    std::vector<std::pair<std::int64_t, std::optional<std::string>>> news;
    {
      const std::lock_guard lock(mutex);
      ready.swap(results);
      news.swap(device_news);
    }
    for (auto& [device, why] : news) {
      if (why) {
        base::log_error(component, "device {} takes no work: {}", device, *why);
      } else {
        base::log_info(component, "device {} takes work again", device);
      }
      QUERN_CHECK(carry_out(session.device_state(device, std::move(why), clock.now_ns())));
    }
    for (auto& [lease, result] : ready) {
      ++(result.failed ? counts.failures : counts.verdicts);
      if (result.returned) ++counts.returned;
      flags.erase(lease);
      auto actions = session.finished(lease, std::move(result), clock.now_ns());
      finished = finished || actions.done;
      QUERN_CHECK(carry_out(std::move(actions)));
    }
    return {};
  }

  base::status take_message(const received& in) {
    const auto what = decode(in.parts);
    if (!what) {
      ++counts.ignored_frames;
      base::log_warn(component, "ignoring a message of the gateway: {}", what.error().message);
      if (what.error().code != errc::not_found) return {};
      QUERN_TRY(const auto parts, encode(error_message{"unknown_type", what.error().message}));
      QUERN_TRY(const auto outcome, socket->send({}, parts));
      (void)outcome;
      return {};
    }
    heard = clock.now_ns();
    auto actions = session.on_message(*what, heard);
    finished = finished || actions.done;
    return carry_out(std::move(actions));
  }

  bool finished = false;
  nanoseconds_t heard = 0;

  base::status serve() {
    heard = clock.now_ns();
    while (!finished && wish != ready_to_stop) {
      if (wish == 1 && !drain_said) {
        drain_said = true;
        auto actions = session.drain(clock.now_ns());
        finished = finished || actions.done;
        QUERN_CHECK(carry_out(std::move(actions)));
        continue;
      }
      watch_connection();
      auto now = clock.now_ns();
      if (options.patience_ns > 0 && now - heard >= options.patience_ns) {
        return fail(errc::unavailable, "no run has answered for {}: {}",
                    base::human_duration(options.patience_ns), story.cause());
      }
      if (now >= session.next_wakeup()) QUERN_CHECK(carry_out(session.on_time(now)));
      // What one message brings may be sent before the next is read; the socket is emptied first.
      bool any = false;
      for (int batch = 0; batch < 256 && !finished; ++batch) {
        QUERN_TRY(const auto in, socket->receive());
        if (!in) break;
        any = true;
        QUERN_CHECK(take_message(*in));
      }
      QUERN_CHECK(hand_in_results());
      if (any || finished) continue;
      const auto wait = std::max<nanoseconds_t>(0, session.next_wakeup() - clock.now_ns());
      const auto ready = wait_for(*socket, wake.get(), static_cast<long>(wait / 1'000'000 + 1));
      if (ready.event) {
        std::uint64_t count = 0;
        (void)!read(wake.get(), &count, sizeof count);
      }
    }
    if (finished) return {};
    // Before the workers end, which may take as long as an evaluation: what is done is handed in,
    // the rest is for others from now on.
    QUERN_CHECK(hand_in_results());
    return carry_out(session.leave());
  }
};

base::expected<std::unique_ptr<host_loop>> host_loop::make(host_options options,
                                                           evaluate_function evaluate,
                                                           prepare_function prepare,
                                                           device_state_function state_of) {
  const auto& profile = options.profile;
  if (profile.devices.empty() || profile.lanes.empty()) {
    return fail(errc::invalid_argument, "an evaluator host needs at least one device and one lane");
  }
  if (options.endpoint.starts_with("tcp://") && !options.keys) {
    return fail(errc::invalid_argument,
                "{} needs CURVE keys: pass the host's key file and the gateway's public key",
                options.endpoint);
  }
  auto inner = std::make_unique<state>(std::move(options), std::move(evaluate), std::move(prepare),
                                       std::move(state_of));
  if (!inner->wake) return base::fail_errno("making an eventfd");
  QUERN_CHECK(inner->connect());
  return std::unique_ptr<host_loop>(new host_loop(std::move(inner)));
}

host_loop::host_loop(std::unique_ptr<state> s) : state_(std::move(s)) {}
host_loop::~host_loop() = default;

base::status host_loop::run() {
  state_->begin_workers();
  auto result = state_->serve();
  // First: what was said last is on its way, whatever the workers are at.
  if (result) state_->socket->linger(goodbye_ms);
  state_->watch.reset();
  state_->socket.reset();
  state_->end_workers(result.has_value());
  return result;
}

void host_loop::drain() {
  int none = 0;
  state_->wish.compare_exchange_strong(none, 1);
  state_->signal();
}

void host_loop::stop() {
  state_->wish = ready_to_stop;
  state_->signal();
}

host_statistics host_loop::statistics() const {
  return state_->counts;
}

}  // namespace quern::env
