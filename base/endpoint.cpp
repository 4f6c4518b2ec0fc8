#include "base/endpoint.hpp"

#include <algorithm>
#include <charconv>

namespace quern::base {
namespace {

constexpr std::string_view tcp_scheme = "tcp://";

bool is_digits(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

expected<std::uint16_t> parse_port(std::string_view text) {
  std::uint16_t port = 0;
  const char* const last = text.data() + text.size();
  const auto [end, code] = std::from_chars(text.data(), last, port);
  if (is_digits(text) && code == std::errc() && end == last && port != 0) return port;
  return fail(errc::invalid_argument, "port '{}' is not a number from 1 to 65535", text);
}

status check_tcp_endpoint(std::string_view text, endpoint_use use) {
  const bool listening = use == endpoint_use::listen;
  const auto refuse = [&](std::string_view why) {
    return fail(errc::invalid_argument, "'{}' is not tcp://{}:PORT: {}", text,
                listening ? "ADDRESS" : "HOST", why);
  };
  if (!text.starts_with(tcp_scheme)) return refuse("it does not begin with tcp://");
  const std::string_view place = text.substr(tcp_scheme.size());
  const std::size_t colon = place.rfind(':');
  if (colon == std::string_view::npos) return refuse("no port is named, from 1 to 65535");
  const std::string_view host = place.substr(0, colon), port = place.substr(colon + 1);
  if (host.empty() || (host == "*" && !listening))
    return refuse(listening ? "no address is named" : "name the machine");
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (host.find(':') != std::string_view::npos && !bracketed)
    return refuse("an address of IPv6 stands in brackets: tcp://[ADDRESS]:PORT");
  if (listening && (port == "*" || port == "0")) return {};
  if (const auto number = parse_port(port); !number) return refuse(number.error().message);
  return {};
}

}  // namespace quern::base
