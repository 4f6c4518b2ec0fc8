#include "tools/page/serve_address.hpp"

#include <algorithm>

#include "base/endpoint.hpp"
#include "base/text.hpp"

namespace quern::tools {
namespace {

/// As long as the right one takes, whatever the wrong one is.
bool is_same(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned char difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    difference = static_cast<unsigned char>(difference | (a[i] ^ b[i]));
  return difference == 0;
}

bool is_own_name(std::string_view host) {
  if (host == "localhost" || host == "::1") return true;
  // An address: 127.example.org is a name of others.
  return host.starts_with("127.") && host.find_first_not_of("0123456789.") == host.npos;
}

/// Of "HOST:PORT", "[HOST]:PORT" or without a port.
std::string_view host_in(std::string_view text) {
  if (text.starts_with('[')) return text.substr(1, text.find(']') - 1);
  return text.substr(0, text.find(':'));
}

bool is_token_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_';
}

}  // namespace

bool serve_address::is_local() const {
  return is_own_name(host);
}

base::expected<serve_address> parse_serve_address(std::string_view text) {
  serve_address made;
  if (text.empty()) return made;
  const auto wrong = [&](std::string_view why) {
    return base::fail(base::errc::invalid_argument,
                      "'{}' is no address to serve at: {}; HOST, :PORT, HOST:PORT and [IPV6]:PORT "
                      "are allowed",
                      text, why);
  };
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
  const auto port = base::parse_port(rest);
  if (!port) return wrong(port.error().message);
  made.port = *port;
  return made;
}

bool page_gate::admits(std::string_view authorization, std::string_view query_token,
                       std::string_view host) const {
  if (!token.empty()) {
    constexpr std::string_view bearer = "Bearer ";
    if (authorization.starts_with(bearer))
      return is_same(authorization.substr(bearer.size()), token);
    return is_same(query_token, token);
  }
  return !own_names || is_own_name(host_in(host));
}

base::expected<page_gate> gate_of(const serve_address& address, std::string_view token) {
  const std::string_view bare = base::trim(token);
  if (bare.empty() && !address.is_local())
    return base::fail(base::errc::invalid_argument,
                      "others reach {}: name a file with a token of at least {} letters and digits "
                      "by --token-file, or serve at 127.0.0.1 and come by ssh -L",
                      address.host, least_token);
  if (!bare.empty() && bare.size() < least_token)
    return base::fail(base::errc::invalid_argument,
                      "the token has {} characters, at least {} are needed: such as those of "
                      "openssl rand -hex 16",
                      bare.size(), least_token);
  if (!std::all_of(bare.begin(), bare.end(), is_token_character))
    return base::fail(base::errc::invalid_argument,
                      "the token may have letters, digits, '-' and '_': such as that of openssl "
                      "rand -hex 16");
  return page_gate{std::string(bare), true};
}

}  // namespace quern::tools
