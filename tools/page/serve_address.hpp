// Where a page is served, and who may ask for it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/endpoint.hpp"
#include "base/status.hpp"

namespace quern::tools {

inline constexpr std::uint16_t usual_page_port = 8321;
/// Shorter tokens can be guessed.
inline constexpr std::size_t least_token = 16;

using serve_address = base::listen_address;

/// "", "HOST", ":PORT", "HOST:PORT", "[IPV6]:PORT"; what is missing is 127.0.0.1 and
/// usual_page_port. Error: invalid_argument, with the text and what is allowed.
base::expected<serve_address> parse_serve_address(std::string_view text);

/// Who may see the page. A plain value.
struct page_gate {
  std::string token;      ///< empty: no token is asked for
  bool own_names = true;  ///< only requests that name this machine as localhost

  /// `authorization`, `query_token` and `host`: of the request, empty where it has none. With a
  /// token: it has it, as "Bearer TOKEN" or in the query. Without one: it asks for a name of this
  /// machine. A page of others that a browser shows could else have its own name lead here and
  /// read along.
  [[nodiscard]] bool admits(std::string_view authorization, std::string_view query_token,
                            std::string_view host) const;
};

/// For an address and the text of a token file (empty: none was named). Errors: an address that
/// others reach without a token, a token that is too short or has other characters than letters,
/// digits, '-' and '_'.
base::expected<page_gate> gate_of(const serve_address& address, std::string_view token);

}  // namespace quern::tools
