#include "actors/process_admission.hpp"

#include "base/log.hpp"

namespace quern::actors {

std::optional<caf::error> process_admission::refuse(const hello& from, std::string_view role,
                                                    const caf::actor_addr& address) {
  const auto admitted = who_.admit(from);
  if (!admitted) {
    base::log_error("control", "a {} is refused: {}", role, admitted.error().message);
    return caf::make_error(caf::sec::runtime_error, admitted.error().message);
  }
  starts_[address] = from.start;
  return std::nullopt;
}

std::optional<std::int32_t> process_admission::start_of(const caf::actor_addr& who) const {
  const auto known = starts_.find(who);
  return known == starts_.end() ? std::nullopt : std::optional(known->second);
}

std::optional<std::int32_t> process_admission::forget(const caf::actor_addr& who) {
  waiting_.erase(who);
  const auto known = starts_.extract(who);
  return known ? std::optional(known.mapped()) : std::nullopt;
}

void process_admission::rendezvous_at(const std::string& place) {
  place_ = place;
  if (place.empty()) {
    std::erase_if(waiting_, [](const auto& entry) { return entry.second.learner; });
    return;
  }
  for (auto& [who, waits] : std::exchange(waiting_, {}))
    waits.welcome();
}

}  // namespace quern::actors
