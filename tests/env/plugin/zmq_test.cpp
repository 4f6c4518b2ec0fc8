// Sockets with their limits, and the key check.
#include "base/file.hpp"
#include "env/plugin/curve.hpp"
#include "env/plugin/host_loop.hpp"
#include "support/test.hpp"

namespace {

using namespace quern;

TEST_CASE("a socket path that the kernel would cut is refused with its length") {
  env::zmq_context context;
  auto socket = env::zmq_socket::open(context, env::socket_kind::router);
  REQUIRE(socket);
  const auto bound = socket->bind("ipc:///tmp/" + std::string(120, 'x'));
  REQUIRE_FALSE(bound);
  CHECK(bound.error().code == base::errc::invalid_argument);
  CHECK(bound.error().message.find("107") != std::string::npos);
}

TEST_CASE("a ROUTER says that a connection is unknown") {
  env::zmq_context context;
  auto socket = env::zmq_socket::open(context, env::socket_kind::router);
  REQUIRE(socket);
  CHECK(socket->send("nobody", {"a"}) == env::send_outcome::unreachable);
}

TEST_CASE("addresses of IPv4 and of IPv6 can be bound and connected to") {
  env::zmq_context context;
  for (const std::string address : {"127.0.0.1", "[::1]"}) {
    CAPTURE(address);
    auto here = env::zmq_socket::open(context, env::socket_kind::router);
    auto there = env::zmq_socket::open(context, env::socket_kind::dealer);
    REQUIRE(here);
    REQUIRE(there);
    const auto bound = here->bind("tcp://" + address + ":*");
    if (!bound && address.front() == '[' && !base::read_file("/proc/net/if_inet6"))
      return quern::test::skip("this machine has no IPv6");
    REQUIRE(bound);
    REQUIRE(here->endpoint().starts_with("tcp://" + address + ":"));
    REQUIRE(there->connect(here->endpoint()));
    REQUIRE(there->send({}, {"grain"}));
    REQUIRE(env::wait_for(*here, -1, 20'000).socket);
    CHECK(here->receive().value().value().parts == env::frames{"grain"});
    // The same socket may be at one of either kind.
    CHECK(here->bind("tcp://127.0.0.1:*"));
  }
}

TEST_CASE("the key check admits its list and nobody else") {
  env::zmq_context context;
  const auto friendly = env::make_curve_keys();
  const auto unadmitted = env::make_curve_keys();
  REQUIRE(friendly);
  REQUIRE(unadmitted);
  // Nobody answers yet.
  const auto silent = env::ask_zap(context, friendly->public_key, 50);
  REQUIRE_FALSE(silent);
  CHECK(silent.error().code == base::errc::timeout);
  auto handler = env::zap_handler::start(context, {friendly->public_key});
  REQUIRE(handler);
  CHECK(env::ask_zap(context, friendly->public_key, 60'000) == "200");
  CHECK(env::ask_zap(context, unadmitted->public_key, 60'000) == "400");
  CHECK((*handler)->admitted() == 1);
  CHECK((*handler)->refused() == 1);
  CHECK_FALSE(env::ask_zap(context, "not a key", 1000));
  // A second one in the same context cannot take over.
  CHECK_FALSE(env::zap_handler::start(context, {unadmitted->public_key}));
}

TEST_CASE("a host needs a device, and keys for tcp") {
  env::host_options options;
  options.endpoint = "ipc:///tmp/unused";
  const auto never = [](const env::host_job&, const std::atomic<bool>&) {
    return env::host_result{};
  };
  CHECK_FALSE(env::host_loop::make(options, never));
  options.profile.lanes = {"cpp"};
  options.profile.devices = {{0, "cpp-avx2", 1}};
  CHECK(env::host_loop::make(options, never));
  options.endpoint = "tcp://127.0.0.1:1";
  const auto open = env::host_loop::make(options, never);
  REQUIRE_FALSE(open);
  CHECK(open.error().message.find("CURVE") != std::string::npos);
}

TEST_CASE("a host that finds no gateway gives up when told to") {
  const auto folder = base::temp_folder::make();
  REQUIRE(folder);
  env::host_options options;
  options.endpoint = "ipc://" + (folder->path() / "nobody").string();
  options.profile.lanes = {"cpp"};
  options.profile.devices = {{0, "cpp-avx2", 1}};
  options.patience_ns = 100'000'000;
  auto loop = env::host_loop::make(
      options, [](const env::host_job&, const std::atomic<bool>&) { return env::host_result{}; });
  REQUIRE(loop);
  const auto end = (*loop)->run();
  REQUIRE_FALSE(end);
  CHECK(end.error().code == base::errc::unavailable);
}

}  // namespace
