// Names of the messages, and which protocol version two sides can speak.
#include "env/plugin/message.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace quern::env {

std::string offer_text(const std::vector<std::string>& lanes,
                       const std::vector<host_device>& devices) {
  std::string text;
  for (const auto& device : devices)
    text += fmt::format(
        "{}{} ({}, {}{} jobs at a time)", text.empty() ? "" : ", ", device.id, device.device_class,
        device.lanes.empty() ? "" : fmt::format("lanes {}, ", fmt::join(device.lanes, ", ")),
        device.slots);
  return fmt::format("lanes {}; devices {}", fmt::join(lanes, ", "), text);
}

std::string_view type_of(const message& what) {
  constexpr std::array<std::string_view, std::variant_size_v<message>> names = {
      "HELLO",   "WELCOME",     "REFUSED", "CREDIT", "JOB",       "NEED", "TASK",
      "VERDICT", "VERDICT_ACK", "FAILED",  "CANCEL", "HEARTBEAT", "BYE",  "ERROR"};
  return names[what.index()];
}

base::expected<std::int64_t> common_protocol(std::int64_t their_min, std::int64_t their_max) {
  const auto best = std::min(their_max, newest_protocol);
  if (their_min > their_max || best < std::max(their_min, oldest_protocol)) {
    return base::fail(base::errc::version,
                      "the host speaks host protocol {} to {}, this gateway {} to {}; {}",
                      their_min, their_max, oldest_protocol, newest_protocol,
                      their_max < oldest_protocol ? "update the host" : "update the run's Quern");
  }
  return best;
}

}  // namespace quern::env
