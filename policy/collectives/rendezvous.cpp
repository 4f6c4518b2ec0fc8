#include "policy/collectives/rendezvous.hpp"

#include <algorithm>
#include <charconv>
#include <mutex>
#include <thread>

#include <sys/socket.h>

#include "base/bytes.hpp"
#include "base/thread.hpp"
#include "policy/collectives/rendezvous_state.hpp"

namespace quern::policy {
namespace {

using base::errc;
using base::fail;

constexpr auto reach_again = std::chrono::milliseconds(20);
/// A directory is one for all rendezvous of its process, and each question is a connection.
constexpr auto ask_again = std::chrono::milliseconds(200);
/// When nobody is waited for any more: long enough for an answer to what is known.
constexpr base::nanoseconds_t last_look = 200'000'000;

}  // namespace

base::expected<std::shared_ptr<rendezvous>> rendezvous::join(const rendezvous_options& where) {
  if (where.ranks < 1 || where.rank < 0 || where.rank >= where.ranks)
    return fail(errc::invalid_argument, "rank {} of {} ranks: a rank is 0 .. ranks - 1", where.rank,
                where.ranks);
  auto s = std::make_unique<state>();
  s->where = where;
  s->beat.phase = "rendezvous";
  if (where.rank == 0) QUERN_CHECK(s->serve());
  const auto pause = name_of_rendezvous(where.address).empty() ? reach_again : ask_again;
  const base::nanoseconds_t deadline = s->clock.now_ns() + where.limits.arrival;
  while (!s->socket) {
    auto reached = s->reach();
    if (reached) {
      s->socket = std::move(*reached);
    } else if (reached.error().code == errc::invalid_argument || s->clock.now_ns() >= deadline) {
      return fail(errc::unavailable, "rank {} of {}: rank 0 is not at the rendezvous place: {}",
                  where.rank, where.ranks, reached.error().message);
    } else {
      std::this_thread::sleep_for(pause);
    }
  }
  base::byte_writer hello;
  hello.u8(static_cast<std::uint8_t>(rendezvous_message::hello));
  hello.u32(static_cast<std::uint32_t>(where.rank));
  s->send(hello.take());
  std::shared_ptr<rendezvous> made(new rendezvous(std::move(s)));
  state& own = *made->state_;
  own.thread = std::thread([&own] {
    base::name_this_thread("rendezvous");
    own.run();
  });
  std::unique_lock lock(own.mutex);
  if (own.wait_for_news(lock, [&] { return own.complete; })) return made;
  const auto verdict = own.verdict;
  lock.unlock();
  return tl::make_unexpected(made->error_of(verdict, "rendezvous", ""));
}

rendezvous::rendezvous(std::unique_ptr<state> parts) : state_(std::move(parts)) {}

rendezvous::~rendezvous() {
  state_->stopping = true;
  if (state_->thread.joinable()) state_->thread.join();
  state_->send(std::string(1, static_cast<char>(rendezvous_message::bye)));
}

std::int32_t rendezvous::rank() const {
  return state_->where.rank;
}
std::int32_t rendezvous::ranks() const {
  return state_->where.ranks;
}
const std::string& rendezvous::host() const {
  return state_->where.host;
}
const watch_limits& rendezvous::limits() const {
  return state_->where.limits;
}

void rendezvous::cut() {
  ::shutdown(state_->socket.get(), SHUT_RDWR);
}

base::status rendezvous::set(const std::string& key, const std::string& value) {
  base::byte_writer out;
  out.u8(static_cast<std::uint8_t>(rendezvous_message::set));
  out.text(key);
  out.text(value);
  if (out.buffer().size() > largest_frame)
    return fail(errc::invalid_argument, "value {} has {} bytes, the limit is {}", key, value.size(),
                largest_frame);
  if (state_->send(out.take())) return {};
  return tl::make_unexpected(
      error_of(wait_failure(state_->where.limits.silence), "set " + key, ""));
}

base::expected<std::optional<std::string>> rendezvous::state::look_up(
    const std::string& key, const rendezvous& self, base::nanoseconds_t deadline) {
  const std::uint64_t number = next_question();
  base::byte_writer out;
  out.u8(static_cast<std::uint8_t>(rendezvous_message::ask));
  out.u64(number);
  out.text(key);
  return ask(out, number, "get " + key, self, deadline);
}

base::expected<std::string> rendezvous::get(const std::string& key) {
  const state::pause now(*state_);
  QUERN_TRY(auto value, state_->look_up(key, *this, without_limit));
  return std::move(value).value();
}

base::expected<std::string> rendezvous::get(const std::string& key, std::int32_t from,
                                            base::nanoseconds_t patience) {
  const state::pause now(*state_);
  QUERN_TRY(auto value, state_->look_up(key, *this, state_->clock.now_ns() + patience));
  if (value) return std::move(*value);
  const std::lock_guard lock(state_->mutex);
  return fail(errc::unavailable, "{}: {} has not told it within {:.1f} s",
              state_->here("get " + key), from < 0 ? "a rank" : fmt::format("rank {}", from),
              static_cast<double>(patience) / 1e9);
}

base::status rendezvous::gather(std::string_view place, base::nanoseconds_t patience) {
  const state::pause now(*state_);
  const auto key = [&](std::int32_t of) { return fmt::format("{}/{}", place, of); };
  QUERN_CHECK(set(key(rank()), "here"));
  const base::nanoseconds_t deadline = state_->clock.now_ns() + patience;
  std::string missing;
  for (std::int32_t other = 0; other < ranks(); ++other) {
    const base::nanoseconds_t until = std::max(deadline, state_->clock.now_ns() + last_look);
    QUERN_TRY(const auto come, state_->look_up(key(other), *this, until));
    if (!come) missing += fmt::format("{}rank {}", missing.empty() ? "" : ", ", other);
  }
  if (missing.empty()) return {};
  const std::lock_guard lock(state_->mutex);
  return fail(errc::unavailable, "{}: {} not there within {:.1f} s", state_->here(place), missing,
              static_cast<double>(patience) / 1e9);
}

base::expected<std::int64_t> rendezvous::add(const std::string& key, std::int64_t amount) {
  const std::uint64_t number = state_->next_question();
  base::byte_writer out;
  out.u8(static_cast<std::uint8_t>(rendezvous_message::add));
  out.u64(number);
  out.text(key);
  out.i64(amount);
  QUERN_TRY(const auto told, state_->ask(out, number, "add " + key, *this));
  const std::string text = told.value_or("");
  std::int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size())
    return fail(errc::corrupt, "value {} is '{}', not a number", key, text);
  return value;
}

void rendezvous::at(std::string_view phase, std::int64_t version) {
  const std::lock_guard lock(state_->mutex);
  state_->beat.phase = phase;
  state_->beat.version = version;
  ++state_->beat.progress;
}

void rendezvous::progress() {
  const std::lock_guard lock(state_->mutex);
  ++state_->beat.progress;
}

std::string rendezvous::where() const {
  const std::lock_guard lock(state_->mutex);
  return fmt::format("{}, version {}", state_->beat.phase, state_->beat.version);
}

void rendezvous::busy(std::string_view phase, base::nanoseconds_t limit) {
  const std::lock_guard lock(state_->mutex);
  state_->beat.phase = phase;
  ++state_->beat.progress;
  state_->busy_since = state_->clock.now_ns();
  state_->busy_limit = limit;
}

void rendezvous::busy(bool now) {
  const std::lock_guard lock(state_->mutex);
  ++state_->beat.progress;
  state_->busy_since = state_->clock.now_ns();
  state_->busy_limit = now ? without_limit : 0;
}

void rendezvous::enter(std::string_view what) {
  const std::lock_guard lock(state_->mutex);
  state_->collective = what;
  ++state_->beat.sequence;
  state_->beat.begun = std::max(state_->beat.begun, state_->beat.sequence);
}

void rendezvous::begin() {
  const std::lock_guard lock(state_->mutex);
  ++state_->beat.begun;
  ++state_->unfinished;
}

void rendezvous::finish() {
  const std::lock_guard lock(state_->mutex);
  if (state_->unfinished > 0) --state_->unfinished;
}

void rendezvous::waiting(bool now, std::string_view what) {
  state_->wait_in_collective(now, false, what);
}

void rendezvous::connecting(bool now) {
  state_->wait_in_collective(now, true, {});
}

std::optional<rank_verdict> rendezvous::failure() const {
  const std::lock_guard lock(state_->mutex);
  return state_->verdict;
}

std::optional<rank_verdict> rendezvous::wait_failure(base::nanoseconds_t patience) const {
  std::unique_lock lock(state_->mutex);
  state_->news.wait_for(lock, std::chrono::nanoseconds(patience),
                        [&] { return state_->verdict.has_value(); });
  return state_->verdict;
}

base::error rendezvous::error_of(const std::optional<rank_verdict>& verdict, std::string_view doing,
                                 std::string_view cause) const {
  const std::lock_guard lock(state_->mutex);
  std::string what = verdict ? verdict->text() : std::string("no rank is known to have failed");
  if (!cause.empty()) what += fmt::format(" (transport: {})", cause);
  return {errc::unavailable, fmt::format("{}: {}", state_->here(doing), what)};
}

}  // namespace quern::policy
