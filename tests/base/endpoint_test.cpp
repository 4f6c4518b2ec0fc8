// Endpoints: a port beyond 65535 is refused, since libraries would listen at its low 16 bits.
#include "base/endpoint.hpp"

#include "support/test.hpp"

using namespace quern;
using base::check_tcp_endpoint;
using base::endpoint_use;

TEST_CASE("a port is a number from 1 to 65535") {
  CHECK(base::parse_port("1") == 1);
  CHECK(base::parse_port("65535") == 65535);
  for (const char* text : {"", "0", "65536", "99999", "-1", "+5", "5x", " 5", "0x10"}) {
    CAPTURE(text);
    const auto refused = base::parse_port(text);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == base::errc::invalid_argument);
    CHECK(test::contains(refused.error().message, "1 to 65535"));
  }
}

TEST_CASE("an endpoint names a host and a port, each side has its own wildcards") {
  for (const char* text : {"tcp://127.0.0.1:5000", "tcp://lab-3:1", "tcp://[::1]:65535"}) {
    CAPTURE(text);
    CHECK(check_tcp_endpoint(text, endpoint_use::listen));
    CHECK(check_tcp_endpoint(text, endpoint_use::connect));
  }
  for (const char* text : {"tcp://*:5000", "tcp://127.0.0.1:*", "tcp://127.0.0.1:0"}) {
    CAPTURE(text);
    CHECK(check_tcp_endpoint(text, endpoint_use::listen));
    CHECK_FALSE(check_tcp_endpoint(text, endpoint_use::connect));
  }
  for (const char* text :
       {"", "foo", "ipc:///x", "tcp://", "tcp://host", "tcp://:5", "tcp://host:", "tcp://host:x",
        "tcp://host:65536", "tcp://127.0.0.1:99999", "tcp://::1:5000"}) {
    CAPTURE(text);
    CHECK_FALSE(check_tcp_endpoint(text, endpoint_use::listen));
    CHECK_FALSE(check_tcp_endpoint(text, endpoint_use::connect));
  }
  const auto refused = check_tcp_endpoint("tcp://127.0.0.1:99999", endpoint_use::listen);
  CHECK(test::contains(refused.error().message, "tcp://127.0.0.1:99999"));
  CHECK(test::contains(refused.error().message, "'99999'"));
}
