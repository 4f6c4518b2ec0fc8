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

TEST_CASE("where HTTP is served: what is missing is as usual, anything else is refused by name") {
  const auto parsed = [](const char* text) {
    const auto address = base::parse_listen_address(text, {"127.0.0.1", 8321});
    REQUIRE_MESSAGE(address, text);
    return fmt::format("{} {}", address->host, address->port);
  };
  CHECK(parsed("") == "127.0.0.1 8321");
  CHECK(parsed(":80") == "127.0.0.1 80");
  CHECK(parsed("0.0.0.0:0") == "0.0.0.0 0");
  CHECK(parsed("[::1]:9000") == "::1 9000");
  const auto bare = base::parse_listen_address("9000", {"127.0.0.1", 8321});
  REQUIRE_FALSE(bare);
  CHECK(test::contains(bare.error().message, "':PORT'"));
  for (const char* wrong : {"::1", "a:b", "a:65536", "a:", "[::1", "[::1]x", "[]:1", "a:1:2"}) {
    const auto refused = base::parse_listen_address(wrong, {});
    REQUIRE_MESSAGE(!refused, wrong);
    CHECK(refused.error().code == base::errc::invalid_argument);
    CHECK(test::contains(refused.error().message, "'" + std::string(wrong) + "'"));
  }
}

TEST_CASE("names of this machine are known, and those of others that look alike are not") {
  for (const char* own : {"localhost", "localhost:80", "127.0.0.1:1", "127.8.9.1", "[::1]:8"})
    CHECK_MESSAGE(base::names_this_machine(own), own);
  for (const char* other : {"", "127.example.org", "example.org:80", "[::2]:8", "0.0.0.0"})
    CHECK_FALSE_MESSAGE(base::names_this_machine(other), other);
}

TEST_CASE("an address of another machine, or a name that nobody has, cannot be listened at") {
  CHECK(base::can_listen({"127.0.0.1", 0}));
  for (const char* other : {"192.0.2.1", "no-such-name.invalid"}) {
    const auto refused = base::can_listen({other, 0});
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == base::errc::unavailable);
    CHECK_FALSE(refused.error().message.empty());
  }
}
