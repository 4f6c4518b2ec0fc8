// The way into a run, for an actor that processes introduce themselves to: who was let in, and who
// waits for a welcome because it is not known yet where the groups of a run on several hosts meet.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "actors/decide/reception.hpp"
#include "actors/protocol.hpp"

namespace quern::actors {

/// Of one actor, on its thread.
class process_admission {
 public:
  process_admission() = default;
  explicit process_admission(reception who) : who_(std::move(who)) {}

  /// Why a process is not let in, for it and for the log; nothing: it is, as `from.start`.
  std::optional<caf::error> refuse(const hello& from, std::string_view role,
                                   const caf::actor_addr& address);
  /// The number of its start; nothing: it was not let in.
  [[nodiscard]] std::optional<std::int32_t> start_of(const caf::actor_addr& who) const;
  /// It is gone; as `start_of`.
  std::optional<std::int32_t> forget(const caf::actor_addr& who);
  /// Whether the message that `self` handles is of an actor of its own process or of one that was
  /// let in. Nobody else's is of any account.
  template <class Self>
  [[nodiscard]] bool known(const Self& self) const {
    const auto& sender = self->current_sender();
    return sender && (sender->node() == self->node() || starts_.contains(sender->address()));
  }

  /// Where groups meet: "unix:/FOLDER", "tcp://HOST:PORT"; empty: not known.
  [[nodiscard]] const std::string& place() const { return place_; }
  /// Known from now on, or not any more: who waits as a learner is forgotten then.
  void rendezvous_at(const std::string& place);
  /// Answers the hello that `self` handles with what `make` returns, once the place is known.
  template <class Self>
  caf::result<welcome> answer(const Self& self, const caf::actor_addr& who, bool learner,
                              std::function<welcome()> make) {
    if (!place_.empty()) return make();
    auto promise = self->template make_response_promise<welcome>();
    waiting_[who] = {learner,
                     [promise, make = std::move(make)]() mutable { promise.deliver(make()); }};
    return promise;
  }

 private:
  struct waiting_process {
    bool learner = false;
    std::function<void()> welcome;
  };
  reception who_;
  std::map<caf::actor_addr, std::int32_t> starts_;
  std::string place_;
  std::map<caf::actor_addr, waiting_process> waiting_;
};

}  // namespace quern::actors
