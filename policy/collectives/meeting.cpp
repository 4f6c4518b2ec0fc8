#include "policy/collectives/meeting.hpp"

#include <atomic>
#include <charconv>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include <poll.h>
#include <sys/socket.h>

#include "base/bytes.hpp"
#include "policy/collectives/meeting_server.hpp"
#include "policy/collectives/meeting_wire.hpp"

namespace quern::policy {
namespace {

using base::errc;
using base::fail;

constexpr int link_patience_ms = 1000;
constexpr auto reach_again = std::chrono::milliseconds(20);
/// A directory is one for all meetings of its process, and each question is a connection.
constexpr auto ask_again = std::chrono::milliseconds(200);

}  // namespace

struct meeting::state {
  ~state() {
    if (where.directory) where.directory->remove(name_of_meeting(where.address));
  }

  /// Of rank 0: ranks can connect as soon as this returns.
  base::status serve() {
    if (!where.directory) {
      QUERN_TRY(server, meeting_server::start(where.address, where.ranks, where.limits));
      return {};
    }
    QUERN_TRY(base::unique_fd listening, listen_at("tcp://" + where.directory->host() + ":0"));
    QUERN_TRY(const std::uint16_t port, port_of(listening.get()));
    server = meeting_server::start(std::move(listening), where.ranks, where.limits);
    where.directory->add(name_of_meeting(where.address), port);
    return {};
  }

  base::expected<base::unique_fd> reach() const {
    QUERN_TRY(const std::string place, find_meeting(where.address));
    return connect_to(place);
  }

  meeting_place where;
  std::unique_ptr<meeting_server> server;  ///< of rank 0
  base::unique_fd socket;
  base::steady_clock clock;

  mutable std::mutex mutex;
  mutable std::condition_variable news;
  rank_beat beat;
  rank_beat server_last;   ///< of rank 0
  std::string collective;  ///< the last one entered
  bool busy = false;
  bool complete = false;
  bool ended = false;  ///< rank 0 has left in order
  std::optional<rank_verdict> verdict;
  std::uint64_t questions = 0;
  std::map<std::uint64_t, std::string> answers;
  std::int32_t asking = 0;  ///< threads that wait for an answer

  std::mutex sending;
  std::atomic<bool> stopping = false;
  std::thread thread;

  bool send(std::string_view payload) {
    const std::lock_guard lock(sending);
    return send_frame(socket.get(), payload, link_patience_ms);
  }

  void failed(rank_verdict what) {
    if (!verdict) verdict = std::move(what);
    news.notify_all();
  }

  void obey(std::string_view payload) {
    base::byte_reader in(payload);
    switch (static_cast<meeting_word>(in.u8().value_or(0))) {
      case meeting_word::answer: {
        const auto number = in.u64();
        const auto value = in.text();
        if (number && value) answers[*number] = *value;
        break;
      }
      case meeting_word::alive:
        if (auto told = decode_beat(payload.substr(1))) server_last = std::move(*told);
        break;
      case meeting_word::complete:
        complete = true;
        break;
      case meeting_word::end:
        ended = true;
        break;
      case meeting_word::verdict:
        if (auto told = decode_verdict(payload.substr(1))) failed(std::move(*told));
        break;
      default:
        break;
    }
    news.notify_all();
  }

  [[nodiscard]] rank_beat told() const {
    rank_beat now = beat;
    if (now.waiting) now.phase += ", waiting in " + collective;
    return now;
  }

  /// Signs of life out, news in, until the end.
  void run() {
    const base::nanoseconds_t interval = beat_interval(where.limits);
    base::nanoseconds_t heard = clock.now_ns(), spoke = 0;
    frame_reader reader;
    bool open = true;
    while (!stopping) {
      pollfd watched{socket.get(), POLLIN, 0};
      ::poll(&watched, open ? 1 : 0, static_cast<int>(interval / 1'000'000));
      const base::nanoseconds_t now = clock.now_ns();
      std::string own;
      {
        const std::lock_guard lock(mutex);
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
        if (busy && !beat.waiting) ++beat.progress;
        own = encode_beat(told());
      }
      if (open && now - spoke >= interval) {
        spoke = now;
        open = send(own);
      }
    }
  }

  /// Under the lock: until `done` or a failure.
  template <class Condition>
  bool wait_for_news(std::unique_lock<std::mutex>& lock, Condition done) {
    ++asking;
    news.wait(lock, [&] { return verdict || done(); });
    --asking;
    return done();
  }

  base::expected<std::string> ask(base::byte_writer& out, std::uint64_t number,
                                  std::string_view doing, const meeting& self) {
    std::unique_lock lock(mutex);
    lock.unlock();
    send(out.take());  // a link that broke is told by the thread
    lock.lock();
    if (!wait_for_news(lock, [&] { return answers.contains(number); })) {
      const auto what = verdict;
      lock.unlock();
      return tl::make_unexpected(self.error_of(what, doing, ""));
    }
    return std::move(answers.extract(number).mapped());
  }

  std::uint64_t next_question() {
    const std::lock_guard lock(mutex);
    return ++questions;
  }
};

base::expected<std::shared_ptr<meeting>> meeting::join(const meeting_place& where) {
  if (where.ranks < 1 || where.rank < 0 || where.rank >= where.ranks)
    return fail(errc::invalid_argument, "rank {} of {} ranks: a rank is 0 .. ranks - 1", where.rank,
                where.ranks);
  auto s = std::make_unique<state>();
  s->where = where;
  s->beat.phase = "meeting";
  if (where.rank == 0) QUERN_CHECK(s->serve());
  const auto pause = name_of_meeting(where.address).empty() ? reach_again : ask_again;
  const base::nanoseconds_t deadline = s->clock.now_ns() + where.limits.arrival;
  while (!s->socket) {
    auto reached = s->reach();
    if (reached) {
      s->socket = std::move(*reached);
    } else if (reached.error().code == errc::invalid_argument || s->clock.now_ns() >= deadline) {
      return fail(errc::unavailable, "rank {} of {}: rank 0 is not at the meeting place: {}",
                  where.rank, where.ranks, reached.error().message);
    } else {
      std::this_thread::sleep_for(pause);
    }
  }
  base::byte_writer hello;
  hello.u8(static_cast<std::uint8_t>(meeting_word::hello));
  hello.u32(static_cast<std::uint32_t>(where.rank));
  s->send(hello.take());
  std::shared_ptr<meeting> made(new meeting(std::move(s)));
  state& own = *made->state_;
  own.thread = std::thread([&own] { own.run(); });
  std::unique_lock lock(own.mutex);
  if (own.wait_for_news(lock, [&] { return own.complete; })) return made;
  const auto verdict = own.verdict;
  lock.unlock();
  return tl::make_unexpected(made->error_of(verdict, "meeting", ""));
}

meeting::meeting(std::unique_ptr<state> parts) : state_(std::move(parts)) {}

meeting::~meeting() {
  state_->stopping = true;
  if (state_->thread.joinable()) state_->thread.join();
  state_->send(std::string(1, static_cast<char>(meeting_word::bye)));
}

std::int32_t meeting::rank() const {
  return state_->where.rank;
}
std::int32_t meeting::ranks() const {
  return state_->where.ranks;
}
const std::string& meeting::host() const {
  return state_->where.host;
}
const watch_limits& meeting::limits() const {
  return state_->where.limits;
}

void meeting::cut() {
  ::shutdown(state_->socket.get(), SHUT_RDWR);
}

base::status meeting::set(const std::string& key, const std::string& value) {
  base::byte_writer out;
  out.u8(static_cast<std::uint8_t>(meeting_word::set));
  out.text(key);
  out.text(value);
  if (out.buffer().size() > largest_frame)
    return fail(errc::invalid_argument, "value {} has {} bytes, the limit is {}", key, value.size(),
                largest_frame);
  if (state_->send(out.take())) return {};
  return tl::make_unexpected(
      error_of(wait_failure(state_->where.limits.silence), "set " + key, ""));
}

base::expected<std::string> meeting::get(const std::string& key) {
  const std::uint64_t number = state_->next_question();
  base::byte_writer out;
  out.u8(static_cast<std::uint8_t>(meeting_word::ask));
  out.u64(number);
  out.text(key);
  return state_->ask(out, number, "get " + key, *this);
}

base::expected<std::int64_t> meeting::add(const std::string& key, std::int64_t amount) {
  const std::uint64_t number = state_->next_question();
  base::byte_writer out;
  out.u8(static_cast<std::uint8_t>(meeting_word::add));
  out.u64(number);
  out.text(key);
  out.i64(amount);
  QUERN_TRY(const std::string text, state_->ask(out, number, "add " + key, *this));
  std::int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size())
    return fail(errc::corrupt, "value {} is '{}', not a number", key, text);
  return value;
}

void meeting::at(std::string_view phase, std::int64_t version) {
  const std::lock_guard lock(state_->mutex);
  state_->beat.phase = phase;
  state_->beat.version = version;
  ++state_->beat.progress;
}

void meeting::progress() {
  const std::lock_guard lock(state_->mutex);
  ++state_->beat.progress;
}

void meeting::busy(bool now) {
  const std::lock_guard lock(state_->mutex);
  state_->busy = now;
}

void meeting::enter(std::string_view what) {
  const std::lock_guard lock(state_->mutex);
  state_->collective = what;
  ++state_->beat.sequence;
}

void meeting::waiting(bool now) {
  const std::lock_guard lock(state_->mutex);
  state_->beat.waiting = now;
  ++state_->beat.progress;
}

std::optional<rank_verdict> meeting::failure() const {
  const std::lock_guard lock(state_->mutex);
  return state_->verdict;
}

std::optional<rank_verdict> meeting::wait_failure(base::nanoseconds_t patience) const {
  std::unique_lock lock(state_->mutex);
  state_->news.wait_for(lock, std::chrono::nanoseconds(patience),
                        [&] { return state_->verdict.has_value(); });
  return state_->verdict;
}

base::error meeting::error_of(const std::optional<rank_verdict>& verdict, std::string_view doing,
                              std::string_view cause) const {
  const std::lock_guard lock(state_->mutex);
  const rank_beat& here = state_->beat;
  std::string what = verdict ? verdict->text() : std::string("no rank is known to have failed");
  if (!cause.empty()) what += fmt::format(" (transport: {})", cause);
  return {errc::unavailable,
          fmt::format("rank {} of {}, {} in {}, version {}: {}", state_->where.rank,
                      state_->where.ranks, doing, here.phase, here.version, what)};
}

}  // namespace quern::policy
