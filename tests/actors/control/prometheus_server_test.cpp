// The numbers of a run over HTTP: what is served, to whom, and where it cannot be.
#include "actors/prometheus_server.hpp"

#include <httplib.h>

#include "actors/config/config_file.hpp"
#include "actors/config/prometheus_check.hpp"
#include "base/file.hpp"
#include "storage/metrics_writer.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::actors;
using test::contains;

namespace {

struct served_run {
  base::temp_folder folder = std::move(base::temp_folder::make().value());
  storage::run_paths paths{folder.path()};
  run_config config;

  explicit served_run(const std::string& address = ":0") {
    config.run.name = "mine";
    config.observe.prometheus = address;
  }
  std::unique_ptr<prometheus_server> serve() {
    auto made = prometheus_server::start(config, paths);
    REQUIRE(made);
    return std::move(*made);
  }
};

}  // namespace

TEST_CASE("numbers of the newest step are served while the run goes on") {
  served_run run;
  const auto server = run.serve();
  REQUIRE(server);
  httplib::Client client("127.0.0.1", server->port());
  auto got = client.Get("/metrics");
  REQUIRE(got);
  CHECK(got->status == 200);
  CHECK(got->body.ends_with("quern_up{run=\"mine\"} 1\n"));
  CHECK(contains(got->get_header_value("Content-Type"), "text/plain; version=0.0.4"));
  auto writer = storage::metrics_writer::open(run.paths);
  REQUIRE(writer);
  for (int step = 1; step <= 3; ++step) {
    REQUIRE(writer->append({{"step", step}, {"batch", {{"reward", step / 4.0}}}}));
    got = client.Get("/metrics");
    REQUIRE(got);
    CHECK(contains(got->body, fmt::format("\nquern_step {}\n", step)));
    CHECK(contains(got->body, fmt::format("\nquern_batch_reward {}\n", step / 4.0)));
  }
  CHECK(client.Get("/")->status == 404);
  CHECK(client.Post("/metrics", "x", "text/plain")->status == 404);
}

TEST_CASE(
    "a page of others in a browser does not get the numbers, whoever was let in by name does") {
  served_run run;
  const auto server = run.serve();
  httplib::Client client("127.0.0.1", server->port());
  CHECK(client.Get("/metrics", {{"Host", "any.example"}})->status == 403);
  CHECK(client.Get("/metrics", {{"Host", "localhost"}})->status == 200);
  served_run open("0.0.0.0:0");
  const auto for_all = open.serve();
  httplib::Client other("127.0.0.1", for_all->port());
  CHECK(other.Get("/metrics", {{"Host", "gpu-7:9464"}})->status == 200);
}

TEST_CASE("nothing is served unless the key says where") {
  served_run run("");
  CHECK(run.serve() == nullptr);
  CHECK(check_prometheus(run.config));
}

TEST_CASE("an address where one cannot listen is refused with value, limit and what to do") {
  served_run run;
  const auto server = run.serve();
  const std::string taken = fmt::format("127.0.0.1:{}", server->port());
  served_run second(taken);
  const auto refused = check_prometheus(second.config);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == base::errc::invalid_argument);
  CHECK(contains(refused.error().message, "observe.prometheus is '" + taken + "'"));
  CHECK(contains(refused.error().message, "port from 1 to 65535"));
  CHECK(contains(refused.error().message, "leave the key empty"));
  CHECK_FALSE(prometheus_server::start(second.config, second.paths));
  second.config.observe.prometheus = "192.0.2.1:9464";
  CHECK_FALSE(check_prometheus(second.config));
  second.config.observe.prometheus = "127.0.0.1:99999";
  const auto port = check_config(second.config);
  REQUIRE_FALSE(port);
  CHECK(contains(port.error().message, "observe.prometheus: '127.0.0.1:99999'"));
}
