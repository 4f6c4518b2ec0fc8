#include "base/endpoint.hpp"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

#include <netdb.h>
#include <sys/socket.h>

#include "base/file.hpp"

namespace quern::base {
namespace {

constexpr std::string_view tcp_scheme = "tcp://";

bool is_digits(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool is_own_name(std::string_view host) {
  if (host == "localhost" || host == "::1") return true;
  // An address: 127.example.org is a name of others.
  return host.starts_with("127.") && host.find_first_not_of("0123456789.") == host.npos;
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

bool listen_address::is_local() const {
  return is_own_name(host);
}

expected<listen_address> parse_listen_address(std::string_view text, listen_address usual) {
  const auto wrong = [&](std::string_view why) {
    return fail(errc::invalid_argument,
                "'{}' is no address to serve at: {}; HOST, :PORT, HOST:PORT and [IPV6]:PORT are "
                "allowed",
                text, why);
  };
  listen_address made = std::move(usual);
  if (text.empty()) return made;
  std::string_view rest = text;
  if (rest.starts_with('[')) {
    const std::size_t end = rest.find(']');
    if (end == std::string_view::npos) return wrong("']' is missing");
    made.host = std::string(rest.substr(1, end - 1));
    rest.remove_prefix(end + 1);
    if (!rest.empty() && !rest.starts_with(':')) return wrong("a port begins with ':'");
  } else {
    if (std::count(rest.begin(), rest.end(), ':') > 1) return wrong("IPv6 stands in brackets");
    const std::size_t end = std::min(rest.find(':'), rest.size());
    if (end == rest.size() &&
        std::ranges::all_of(rest, [](unsigned char c) { return std::isdigit(c) != 0; }))
      return wrong("a port alone is written ':PORT'");
    if (end > 0) made.host = std::string(rest.substr(0, end));
    rest.remove_prefix(end);
  }
  if (made.host.empty()) return wrong("the host is empty");
  if (rest.empty()) return made;
  rest.remove_prefix(1);
  if (rest == "0") {
    made.port = 0;
    return made;
  }
  const auto port = parse_port(rest);
  if (!port) return wrong(port.error().message);
  made.port = *port;
  return made;
}

bool names_this_machine(std::string_view host_and_port) {
  if (host_and_port.starts_with('['))
    return is_own_name(host_and_port.substr(1, host_and_port.find(']') - 1));
  return is_own_name(host_and_port.substr(0, host_and_port.find(':')));
}

status can_listen(const listen_address& address) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_PASSIVE;
  addrinfo* list = nullptr;
  const int code =
      ::getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &wanted, &list);
  if (code != 0) return fail(errc::unavailable, "{}", ::gai_strerror(code));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(list, ::freeaddrinfo);
  int problem = 0;
  for (const addrinfo* one = list; one != nullptr; one = one->ai_next) {
    const unique_fd made(::socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int yes = 1;
    if (made) ::setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (made && ::bind(made.get(), one->ai_addr, one->ai_addrlen) == 0 &&
        ::listen(made.get(), 1) == 0)
      return {};
    problem = errno;
  }
  return fail(errc::unavailable, "{}", std::strerror(problem));
}

}  // namespace quern::base
