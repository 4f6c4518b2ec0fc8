// What a rendezvous (rendezvous.hpp) shares with its thread. For rendezvous.cpp alone.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include <fmt/format.h>
#include <poll.h>

#include "base/bytes.hpp"
#include "base/clock.hpp"
#include "policy/collectives/rendezvous.hpp"
#include "policy/collectives/rendezvous_server.hpp"
#include "policy/collectives/rendezvous_wire.hpp"

namespace quern::policy {

struct rendezvous::state {
  ~state() {
    if (where.directory) where.directory->remove(name_of_rendezvous(where.address));
  }

  /// Of rank 0: ranks can connect as soon as this returns.
  base::status serve() {
    if (!where.directory) {
      QUERN_TRY(server, rendezvous_server::start(where.address, where.ranks, where.limits));
      return {};
    }
    QUERN_TRY(base::unique_fd listening, listen_at("tcp://" + where.directory->host() + ":0"));
    QUERN_TRY(const std::uint16_t port, port_of(listening.get()));
    server = rendezvous_server::start(std::move(listening), where.ranks, where.limits);
    where.directory->add(name_of_rendezvous(where.address), port);
    return {};
  }

  base::expected<base::unique_fd> reach() const {
    QUERN_TRY(const std::string place, find_rendezvous(where.address));
    return connect_to(place);
  }

  rendezvous_options where;
  std::unique_ptr<rendezvous_server> server;  ///< of rank 0
  base::unique_fd socket;
  base::steady_clock clock;

  mutable std::mutex mutex;
  mutable std::condition_variable news;
  rank_beat beat;
  rank_beat server_last;   ///< of rank 0
  std::string collective;  ///< the last one entered
  base::nanoseconds_t busy_since = 0, busy_limit = 0;
  std::int32_t paused = 0;       ///< threads that wait for what others tell
  std::uint64_t unfinished = 0;  ///< collectives that were begun and have no known end
  bool complete = false;
  bool ended = false;  ///< rank 0 has left in order
  std::optional<rank_verdict> verdict;
  std::uint64_t asked = 0;                                        ///< questions so far
  std::map<std::uint64_t, std::optional<std::string>> questions;  ///< open, or answered just now
  std::int32_t asking = 0;  ///< threads that wait for an answer

  std::mutex sending;
  std::atomic<bool> stopping = false;
  std::thread thread;

  static constexpr int patience_ms = 1000;
  static constexpr base::nanoseconds_t longest_sleep = 1'000'000'000;

  bool send(std::string_view payload) {
    const std::lock_guard lock(sending);
    return send_frame(socket.get(), payload, patience_ms);
  }

  void failed(rank_verdict what) {
    if (!verdict) verdict = std::move(what);
    news.notify_all();
  }

  void obey(std::string_view payload) {
    base::byte_reader in(payload);
    switch (static_cast<rendezvous_message>(in.u8().value_or(0))) {
      case rendezvous_message::answer: {
        const auto number = in.u64();
        const auto value = in.text();
        if (!number || !value) break;
        if (const auto open = questions.find(*number); open != questions.end())
          open->second = std::string(*value);
        break;
      }
      case rendezvous_message::alive:
        if (auto told = decode_beat(payload.substr(1))) server_last = std::move(*told);
        break;
      case rendezvous_message::complete:
        complete = true;
        break;
      case rendezvous_message::end:
        ended = true;
        break;
      case rendezvous_message::verdict:
        if (auto told = decode_verdict(payload.substr(1))) failed(std::move(*told));
        break;
      default:
        break;
    }
    news.notify_all();
  }

  [[nodiscard]] rank_beat told() const {
    rank_beat now = beat;
    now.unfinished = unfinished > 0;
    if (now.waiting) {
      now.phase += (now.connecting ? ", connecting for " : ", waiting in ") + collective;
    } else if (busy_limit > 0) {
      now.busy_for = clock.now_ns() - busy_since;
      now.busy_limit = paused > 0 ? without_limit : busy_limit;
    }
    return now;
  }

  void wait_in_collective(bool now, bool connecting, std::string_view what) {
    const std::lock_guard lock(mutex);
    if (!what.empty()) collective = what;
    beat.waiting = now;
    beat.connecting = now && connecting;
    ++beat.progress;
    busy_since = clock.now_ns();
  }

  [[nodiscard]] std::string here(std::string_view doing) const {
    return fmt::format("rank {} of {}{}{} in {}, version {}", where.rank, where.ranks,
                       doing.empty() ? "" : ", ", doing, beat.phase, beat.version);
  }

  /// Signs of life out, news in, until the end.
  void run() {
    const base::nanoseconds_t interval = beat_interval(where.limits);
    base::nanoseconds_t heard = clock.now_ns(), spoke = 0;
    base::stood_still gap(heard);
    frame_reader reader;
    bool open = true;
    while (!stopping) {
      pollfd watched{socket.get(), POLLIN, 0};
      ::poll(&watched, open ? 1 : 0, static_cast<int>(interval / 1'000'000));
      const base::nanoseconds_t now = clock.now_ns();
      std::string own;
      {
        const std::lock_guard lock(mutex);
        busy_since += gap.until(now, busy_since);
        if (open) open = reader.fill(socket.get());
        while (const auto payload = reader.next()) {
          heard = now;
          obey(*payload);
        }
        open = open && !reader.broken();
        if (ended && (beat.waiting || asking > 0))
          failed({0, rank_fault::left, 0, server_last});
        else if (!open && !ended)
          failed({0, rank_fault::gone, 0, server_last});
        else if (!ended && now - heard >= where.limits.silence)
          failed({0, rank_fault::silent, now - heard, server_last});
        own = encode_beat(told());
      }
      if (open && now - spoke >= interval) {
        spoke = now;
        open = send(own);
      }
    }
  }

  /// Under the lock: until `done`, a failure or `deadline`.
  template <class Condition>
  bool wait_for_news(std::unique_lock<std::mutex>& lock, Condition done,
                     base::nanoseconds_t deadline = without_limit) {
    ++asking;
    while (!verdict && !done() && clock.now_ns() < deadline)
      news.wait_for(lock, std::chrono::nanoseconds(std::min<base::nanoseconds_t>(
                              deadline - clock.now_ns(), longest_sleep)));
    --asking;
    return done();
  }

  /// Nothing: neither an answer nor a failure came before the deadline.
  base::expected<std::optional<std::string>> ask(base::byte_writer& out, std::uint64_t number,
                                                 std::string_view doing, const rendezvous& self,
                                                 base::nanoseconds_t deadline = without_limit) {
    send(out.take());  // a link that broke is told by the thread
    std::unique_lock lock(mutex);
    wait_for_news(
        lock, [&] { return questions.at(number).has_value(); }, deadline);
    auto answer = std::move(questions.extract(number).mapped());
    const auto what = verdict;
    lock.unlock();
    if (!answer && what) return tl::make_unexpected(self.error_of(what, doing, ""));
    return answer;
  }

  base::expected<std::optional<std::string>> look_up(const std::string& key, const rendezvous& self,
                                                     base::nanoseconds_t deadline);

  std::uint64_t next_question() {
    const std::lock_guard lock(mutex);
    questions[++asked] = std::nullopt;
    return asked;
  }

  /// While it waits for others, a rank is not held to what its own work may take.
  class pause {
   public:
    explicit pause(state& of) : state_(of) {
      const std::lock_guard lock(state_.mutex);
      ++state_.paused;
    }
    ~pause() {
      const std::lock_guard lock(state_.mutex);
      --state_.paused;
      state_.busy_since = state_.clock.now_ns();
      ++state_.beat.progress;
    }
    pause(const pause&) = delete;
    pause& operator=(const pause&) = delete;

   private:
    state& state_;
  };
};

}  // namespace quern::policy
