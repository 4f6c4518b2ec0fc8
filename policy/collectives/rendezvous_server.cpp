#include "policy/collectives/rendezvous_server.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/bytes.hpp"
#include "base/thread.hpp"
#include "policy/collectives/rendezvous_wire.hpp"

namespace quern::policy {
namespace {

/// A rank that does not take a few bytes for so long is dealt with by its silence.
constexpr int send_patience_ms = 50;

std::string word_alone(rendezvous_message word) {
  return {static_cast<char>(word)};
}

std::string answer_of(std::uint64_t question, std::string_view value) {
  base::byte_writer out;
  out.u8(static_cast<std::uint8_t>(rendezvous_message::answer));
  out.u64(question);
  out.text(value);
  return out.take();
}

}  // namespace

base::nanoseconds_t beat_interval(const watch_limits& limits) {
  return std::clamp<base::nanoseconds_t>(limits.silence / 10, 20'000'000, 500'000'000);
}

/// What the thread owns.
class rendezvous_server::event_loop {
 public:
  event_loop(base::unique_fd listening, std::int32_t ranks, const watch_limits& limits)
      : listening_(std::move(listening)),
        ranks_(ranks),
        interval_(beat_interval(limits)),
        hello_patience_(limits.silence),
        watch_(ranks, limits, clock_.now_ns()) {}

  void run(const std::atomic<bool>& stopping) {
    while (!stopping) {
      wait();
      accept_one();
      // All news first: a server that was itself held up must not take them for silence.
      for (std::size_t i = 0; i < connections_.size(); ++i)
        hear(connections_[i]);
      drop_silent_connections();
      std::erase_if(connections_, [](const connection& one) { return one.over; });
      judge();
      if (const base::nanoseconds_t now = clock_.now_ns(); now - spoke_ >= interval_) {
        spoke_ = now;
        tell_all(encode_beat(watch_.last_of(0), rendezvous_message::alive));
      }
    }
    tell_all(word_alone(rendezvous_message::end));
  }

 private:
  struct connection {
    base::unique_fd socket;
    frame_reader reader;
    std::int32_t rank = -1;
    base::nanoseconds_t came = 0;
    bool over = false;
  };
  struct question {
    std::int32_t rank = 0;
    std::uint64_t number = 0;
  };

  void wait() {
    std::vector<pollfd> watched{{listening_.get(), POLLIN, 0}};
    for (const connection& one : connections_)
      watched.push_back({one.socket.get(), POLLIN, 0});
    ::poll(watched.data(), watched.size(), static_cast<int>(interval_ / 1'000'000));
    news_ = (watched[0].revents & POLLIN) != 0;
  }

  void accept_one() {
    if (!news_) return;
    connection one;
    one.socket.reset(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!one.socket) return;
    const int yes = 1;
    ::setsockopt(one.socket.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    one.came = clock_.now_ns();
    connections_.push_back(std::move(one));
  }

  /// A rank says hello as soon as it is connected: who is silent for longer than a rank may be is
  /// none.
  void drop_silent_connections() {
    const base::nanoseconds_t now = clock_.now_ns();
    for (connection& one : connections_)
      one.over |= one.rank < 0 && now - one.came >= hello_patience_;
  }

  void hear(connection& one) {
    const bool open = one.reader.fill(one.socket.get());
    while (auto payload = one.reader.next())
      if (!obey(one, *payload)) one.over = true;
    if (open && !one.reader.broken() && !one.over) return;
    one.over = true;
    if (one.rank >= 0) watch_.gone(one.rank);
  }

  bool obey(connection& one, std::string_view payload) {
    base::byte_reader in(payload);
    const auto word = static_cast<rendezvous_message>(in.u8().value_or(0));
    if (word == rendezvous_message::hello) return welcome(one, in);
    if (one.rank < 0) return false;
    switch (word) {
      case rendezvous_message::set: {
        const auto key = in.text(), value = in.text();
        if (!key || !value) return false;
        keep(std::string(*key), std::string(*value));
        return true;
      }
      case rendezvous_message::ask: {
        const auto number = in.u64();
        const auto key = in.text();
        if (!number || !key) return false;
        if (const auto known = values_.find(std::string(*key)); known != values_.end())
          return send_frame(one.socket.get(), answer_of(*number, known->second), send_patience_ms);
        questions_[std::string(*key)].push_back({one.rank, *number});
        return true;
      }
      case rendezvous_message::add: {
        const auto number = in.u64();
        const auto key = in.text();
        const auto amount = in.i64();
        if (!number || !key || !amount) return false;
        const std::string name(*key);
        const std::int64_t before =
            values_.contains(name) ? std::atoll(values_.at(name).c_str()) : 0;
        keep(name, std::to_string(before + *amount));
        return send_frame(one.socket.get(), answer_of(*number, values_.at(name)), send_patience_ms);
      }
      case rendezvous_message::beat: {
        const auto where = decode_beat(payload.substr(1));
        if (where) watch_.beat(one.rank, *where, clock_.now_ns());
        return where.has_value();
      }
      case rendezvous_message::bye:
        watch_.left(one.rank);
        one.rank = -1;
        return false;
      default:
        return false;
    }
  }

  /// A rank that is there already is not welcomed twice: the second is not admitted.
  bool welcome(connection& one, base::byte_reader& in) {
    const auto rank = static_cast<std::int32_t>(in.u32().value_or(~0U));
    const bool taken = std::any_of(connections_.begin(), connections_.end(),
                                   [&](const connection& other) { return other.rank == rank; });
    if (rank < 0 || rank >= ranks_ || taken || one.rank >= 0) return false;
    one.rank = rank;
    watch_.joined(rank, clock_.now_ns());
    if (watch_.complete()) tell_all(word_alone(rendezvous_message::complete));
    return true;
  }

  void keep(const std::string& key, std::string value) {
    values_[key] = std::move(value);
    const auto asked = questions_.extract(key);
    if (asked.empty()) return;
    for (const question& one : asked.mapped())
      for (const connection& other : connections_)
        if (other.rank == one.rank)
          send_frame(other.socket.get(), answer_of(one.number, values_.at(key)), send_patience_ms);
  }

  void judge() {
    if (told_) return;
    const auto& verdict = watch_.judge(clock_.now_ns());
    if (!verdict) return;
    told_ = true;
    tell_all(encode_verdict(*verdict));
  }

  void tell_all(const std::string& payload) {
    for (const connection& one : connections_)
      if (one.rank >= 0) send_frame(one.socket.get(), payload, send_patience_ms);
  }

  base::steady_clock clock_;
  base::unique_fd listening_;
  std::int32_t ranks_;
  base::nanoseconds_t interval_;
  base::nanoseconds_t hello_patience_;
  rank_watch watch_;
  std::vector<connection> connections_;
  std::map<std::string, std::string> values_;
  std::map<std::string, std::vector<question>> questions_;
  base::nanoseconds_t spoke_ = 0;
  bool news_ = false;
  bool told_ = false;
};

base::expected<std::unique_ptr<rendezvous_server>> rendezvous_server::start(
    const std::string& address, std::int32_t ranks, const watch_limits& limits) {
  QUERN_TRY(base::unique_fd listening, listen_at(address));
  return start(std::move(listening), ranks, limits);
}

std::unique_ptr<rendezvous_server> rendezvous_server::start(base::unique_fd listening,
                                                            std::int32_t ranks,
                                                            const watch_limits& limits) {
  return std::unique_ptr<rendezvous_server>(
      new rendezvous_server(std::make_unique<event_loop>(std::move(listening), ranks, limits)));
}

rendezvous_server::rendezvous_server(std::unique_ptr<event_loop> work)
    : event_loop_(std::move(work)) {
  thread_ = std::thread([this] {
    base::name_this_thread("rendezvous server");
    event_loop_->run(stopping_);
  });
}

rendezvous_server::~rendezvous_server() {
  stopping_ = true;
  thread_.join();
}

}  // namespace quern::policy
