// The page of a run that goes on, over HTTP: who gets it, what is new in it, and what it costs the
// run.
#include "tools/page/page_server.hpp"

#include <atomic>
#include <set>
#include <thread>

#include <httplib.h>

#include "tests/tools/page_fixture.hpp"
#include "tools/page/live_page.hpp"

using namespace quern;
using namespace quern::test;
using namespace quern::tools;
namespace fs = std::filesystem;

namespace {

struct live_fixture {
  base::temp_folder folder = must(base::temp_folder::make());
  made_run run{folder.path() / "run"};
  base::manual_clock clock;
  live_fixture() { run.begin(); }
  live_page page(base::nanoseconds_t pause = live_page::usual_pause) {
    return {must(run_view::open(run.root())), clock, pause};
  }
};

const serve_address any_port{"127.0.0.1", 0};

/// Bytes that the write-ahead log takes.
std::uintmax_t log_bytes(const fs::path& run) {
  std::error_code none;
  const auto size = fs::file_size(run / "run.db-wal", none);
  return none ? 0 : size;
}

}  // namespace

TEST_CASE("the files are read once a second, however many ask") {
  live_fixture f;
  live_page page = f.page();
  const auto first = page.data(std::nullopt);
  REQUIRE(first.json);
  CHECK(page.data(first.revision).json == nullptr);
  f.run.step(1, 0, 120);
  CHECK(page.data(first.revision).json == nullptr);
  f.clock.advance(live_page::usual_pause);
  const auto second = page.data(first.revision);
  REQUIRE(second.json);
  CHECK(second.revision > first.revision);
  CHECK(must(base::parse_json(*second.json))["progress"]["done"] == 1);
  CHECK(must(base::parse_json(*second.json))["live"] == true);
  // Another one, who has nothing yet, or something of another server.
  CHECK(page.data(std::nullopt).json == second.json);
  CHECK(page.data(second.revision + 5).json == second.json);
}

TEST_CASE("a run that takes long to read is read less often") {
  /// Each look at it takes 40 ms: one before a refresh, one behind it.
  struct slow_clock final : base::clock {
    mutable std::atomic<base::nanoseconds_t> now = 0;
    base::nanoseconds_t now_ns() const override { return now += 40'000'000; }
  } clock;
  live_fixture f;
  live_page page(must(run_view::open(f.run.root())), clock);
  const auto first = page.data(std::nullopt);  // took 40 ms: 1.96 s are to pass
  f.run.step(1, 0, 120);
  int asked = 1;
  while (!page.data(first.revision).json)
    ++asked;
  CHECK(asked == 49);
}

TEST_CASE("a browser gets the page, what is new, and nothing else") {
  live_fixture f;
  live_page page = f.page(0);
  const auto server = must(page_server::start(page, any_port, must(gate_of(any_port, ""))));
  httplib::Client client("127.0.0.1", server->port());
  const auto html = client.Get("/");
  REQUIRE(html);
  CHECK(html->status == 200);
  CHECK(html->get_header_value("Content-Type") == "text/html");
  CHECK(html->get_header_value("Cache-Control") == "no-store");
  CHECK(html->get_header_value("X-Frame-Options") == "DENY");
  CHECK(contains(html->body, "connect-src 'self'"));
  const auto data = client.Get("/data.json");
  REQUIRE(data);
  const auto told = must(base::parse_json(data->body));
  const std::string since = "/data.json?since=" + told["revision"].dump();
  CHECK(client.Get(since)->status == 204);
  f.run.step(1, 0, 120);
  CHECK(client.Get(since)->status == 200);
  CHECK(client.Get("/data.json?since=x")->status == 200);
  CHECK(client.Get("/data.json?since=-1")->status == 200);
  for (const char* other : {"/run.db", "/../run.db", "/report.txt", "/data.json/", "//"})
    CHECK_MESSAGE(client.Get(other)->status == 404, other);
  CHECK(client.Post("/", "x", "text/plain")->status == 404);
  CHECK(client.Post("/data.json", std::string(1 << 20, 'x'), "text/plain")->status != 200);
  // A page of others whose name leads here asks for that name.
  CHECK(client.Get("/data.json", {{"Host", "evil.example"}})->status == 403);
  CHECK(client.Get("/", {{"Host", "localhost.evil.example:80"}})->status == 403);
  CHECK(client.Get("/", {{"Host", "127.evil.example"}})->status == 403);
  CHECK(client.Get("/", {{"Host", "127.0.0.1:8321"}})->status == 200);
  CHECK(client.Get("/data.json", {{"Host", "localhost:8321"}})->status == 200);
  // Two servers do not share a port.
  const serve_address same{"127.0.0.1", static_cast<std::uint16_t>(server->port())};
  const auto second = page_server::start(page, same, {});
  REQUIRE_FALSE(second);
  CHECK(contains(second.error().message, std::to_string(server->port())));
}

TEST_CASE("with a token only whoever has it gets the page") {
  live_fixture f;
  live_page page = f.page(0);
  const std::string token = "0123456789abcdef";
  auto gate = must(gate_of({"0.0.0.0", 0}, token + "\n"));
  const auto server = must(page_server::start(page, {"127.0.0.1", 0}, gate));
  CHECK(contains(server->url(), "/?token=" + token));
  httplib::Client client("127.0.0.1", server->port());
  CHECK(client.Get("/")->status == 403);
  CHECK_FALSE(contains(client.Get("/data.json")->body, "quern_page"));
  CHECK(client.Get("/?token=0123456789abcdeF")->status == 403);
  CHECK(client.Get("/?token=" + token)->status == 200);
  CHECK(client.Get("/?token=" + token, {{"Host", "any.example"}})->status == 200);
  CHECK(client.Get("/data.json", {{"Authorization", "Bearer " + token}})->status == 200);
  CHECK(client.Get("/data.json", {{"Authorization", "Bearer x" + token}})->status == 403);
}

TEST_CASE("where a page is served, and that others need a token") {
  const auto parsed = [](const char* text) {
    const auto address = must(parse_serve_address(text));
    return fmt::format("{} {}", address.host, address.port);
  };
  CHECK(parsed("") == "127.0.0.1 8321");
  CHECK(parsed("localhost") == "localhost 8321");
  CHECK(parsed(":80") == "127.0.0.1 80");
  CHECK(parsed("0.0.0.0:0") == "0.0.0.0 0");
  CHECK(parsed("[::1]:9000") == "::1 9000");
  CHECK(parsed("[::]") == ":: 8321");
  for (const char* wrong : {"::1", "a:b", "a:65536", "a:", "[::1", "[::1]x", "[]:1", "a:1:2"}) {
    const auto refused = parse_serve_address(wrong);
    REQUIRE_MESSAGE(!refused, wrong);
    CHECK(contains(refused.error().message, "'" + std::string(wrong) + "'"));
  }
  for (const char* own : {"127.0.0.1", "localhost", "::1", "127.1.2.3"})
    CHECK_MESSAGE(gate_of({own, 1}, ""), own);
  for (const char* others : {"0.0.0.0", "::", "10.0.0.1", "example.org", "127.example.org"}) {
    const auto open = gate_of({others, 1}, "");
    REQUIRE_MESSAGE(!open, others);
    CHECK(contains(open.error().message, "--token-file"));
    CHECK_MESSAGE(gate_of({others, 1}, "0123456789abcdef"), others);
  }
  CHECK(contains(gate_of({"::", 1}, "0123456789").error().message, "10 characters, at least 16"));
  CHECK_FALSE(gate_of({"::", 1}, "0123456789 abcdefgh"));
}

TEST_CASE("a page that is left open lets the run fold its log, also at the end") {
  live_fixture f;
  constexpr std::uintmax_t most = std::uintmax_t{12} << 20;
  std::uintmax_t largest = 0;
  std::int64_t looks = 0;
  constexpr int steps = 400;
  auto view = must(run_view::open(f.run.root()));
  std::atomic<bool> over = false;
  // Far more often than a page that is served looks.
  std::thread reader([&] {
    for (; !over; ++looks) {
      view.refresh();
      largest = std::max(largest, log_bytes(f.run.root()));
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  for (int version = 1; version <= steps; ++version)
    f.run.step(version, 0, 100);
  over = true;
  reader.join();
  CHECK(looks > 20);
  CHECK(largest > 0);
  CHECK(largest < most);
  CHECK(view.problems().empty());
  f.run.close();
  CHECK(log_bytes(f.run.root()) == 0);
  view.refresh();
  CHECK(view.data(true)["samples"]["issued"] == 2 * steps);
}

TEST_CASE("the control: one long read lets the log grow beyond all bounds") {
  live_fixture f;
  f.run.step(1, 0, 100);
  const auto db =
      must(storage::database::open(f.run.root() / "run.db", storage::database::access::read));
  auto cursor = must(db->prepare("SELECT id FROM samples"));
  REQUIRE(must(cursor.next()));
  for (int version = 2; version <= 400; ++version)
    f.run.step(version, 0, 100);
  CHECK(log_bytes(f.run.root()) > std::uintmax_t{12} << 20);
  cursor.reset();
}
