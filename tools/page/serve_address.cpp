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

bool is_token_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_';
}

}  // namespace

base::expected<serve_address> parse_serve_address(std::string_view text) {
  return base::parse_listen_address(text, {"127.0.0.1", usual_page_port});
}

bool page_gate::admits(std::string_view authorization, std::string_view query_token,
                       std::string_view host) const {
  if (!token.empty()) {
    constexpr std::string_view bearer = "Bearer ";
    if (authorization.starts_with(bearer))
      return is_same(authorization.substr(bearer.size()), token);
    return is_same(query_token, token);
  }
  return !own_names || base::names_this_machine(host);
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
