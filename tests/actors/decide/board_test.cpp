// What a run says of its hosts and devices.
#include "actors/decide/device_board.hpp"
#include "actors/decide/plural_policy.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::actors;
using base::operator""_s;

TEST_CASE("hosts and devices, with reason and time of those that take no work") {
  device_board board;
  CHECK(board.snapshot().empty());
  board.joined(5, {"node7", 4711, {"cuda"}, {{0, "H200-SXM"}, {1, "H200-SXM"}}});
  board.joined(6, {"", 0, {"cuda"}, {{0, "H200-SXM"}}});
  board.troubles(5, {{1, {"memory: 9 GiB are missing", 1'763'800'801'500'000'000}}});
  board.troubles(9, {{0, {"nobody", 0}}});
  board.draining(6);
  auto hosts = board.snapshot();
  REQUIRE(hosts.size() == 2);
  CHECK(hosts[0]["host"] == "node7");
  CHECK(hosts[0]["pid"] == 4711);
  CHECK(hosts[0]["devices"][0]["state"] == "ready");
  CHECK_FALSE(hosts[0]["devices"][0].contains("reason"));
  CHECK(hosts[0]["devices"][1]["state"] == "quarantined");
  CHECK(hosts[0]["devices"][1]["reason"] == "memory: 9 GiB are missing");
  CHECK(hosts[0]["devices"][1]["since"] == "2025-11-22T08:40:01Z");
  CHECK(hosts[1]["devices"][0]["state"] == "draining");
  CHECK(host_table(hosts) ==
        "  evaluator hosts 2, devices 3, of them in quarantine 1\n"
        "  QUARANTINE host node7 (process 4711), device 1 (H200-SXM), since 2025-11-22T08:40:01Z: "
        "memory: 9 GiB are missing\n");
  board.troubles(5, {});
  board.left(6);
  hosts = board.snapshot();
  REQUIRE(hosts.size() == 1);
  CHECK(hosts[0]["devices"][1]["state"] == "ready");
  CHECK(host_table(hosts) == "  evaluator hosts 1, devices 2, of them in quarantine 0\n");
}

TEST_CASE("processes that were set aside, since the first time and for the newest reason") {
  device_board board;
  CHECK(aside_table(board.aside()).empty());
  board.set_aside("evaluator-1", {"ended 6 times", 1'763'800'801'500'000'000});
  board.set_aside("evaluator-1", {"ended 7 times", 1'763'800'901'500'000'000});
  CHECK(aside_table(board.aside()) ==
        "  SET ASIDE evaluator-1, since 2025-11-22T08:40:01Z: it ended 7 times\n");
  board.works_again("evaluator-1");
  CHECK(board.aside().empty());
}

TEST_CASE("devices that go out and come back are told once each, with what they had") {
  device_board board;
  board.joined(5, {"node7", 4711, {"cuda"}, {{0, "H200"}, {1, "H200"}}});
  auto news = board.troubles(5, {{1, {"memory: 9 GiB are missing", 17}}});
  REQUIRE(news.out.size() == 1);
  CHECK(news.back.empty());
  CHECK(news.out[0].device == "device 1 (H200) of host node7 (process 4711)");
  CHECK(news.out[0].trouble.reason == "memory: 9 GiB are missing");
  // Another device: the first is no news.
  news = board.troubles(5, {{0, {"lost", 18}}, {1, {"memory: 9 GiB are missing", 17}}});
  REQUIRE(news.out.size() == 1);
  CHECK(news.out[0].device.starts_with("device 0"));
  // Another reason is.
  news = board.troubles(5, {{0, {"lost", 18}}, {1, {"XID 79", 17}}});
  REQUIRE(news.out.size() == 1);
  CHECK(news.out[0].trouble.reason == "XID 79");
  news = board.troubles(5, {{0, {"lost", 18}}});
  CHECK(news.out.empty());
  REQUIRE(news.back.size() == 1);
  CHECK(news.back[0].device.starts_with("device 1"));
  CHECK(news.back[0].trouble.since_unix_ns == 17);
  CHECK(board.troubles(9, {{0, {"nobody", 0}}}).out.empty());
}

TEST_CASE("a host whose devices are all in quarantine takes no work, and it is said why") {
  device_board board;
  board.joined(5, {"node7", 4711, {"cuda"}, {{0, "H200"}, {1, "H200"}}});
  board.joined(6, {"", 0, {"cuda"}, {{0, "H200"}}});
  CHECK(board.working() == 2);
  board.troubles(5, {{0, {"lost", 0}}, {1, {"XID 79", 0}}});
  CHECK(board.working() == 1);
  CHECK(board.shortage().empty());
  CHECK_FALSE(no_device_works(board.snapshot()));
  // One that leaves takes no work, but that is no quarantine.
  board.draining(6);
  CHECK(board.working() == 0);
  CHECK(board.shortage() ==
        "device 0 (H200) of host node7 (process 4711) is in quarantine: lost; "
        "device 1 (H200) of host node7 (process 4711) is in quarantine: XID 79");
  CHECK(no_device_works(board.snapshot()));
  CHECK(host_table(board.snapshot()).find("NO DEVICE IS LEFT") != std::string::npos);
  board.troubles(5, {{0, {"lost", 0}}});
  CHECK(board.working() == 1);
  CHECK(board.shortage().empty());
  CHECK_FALSE(no_device_works(board.snapshot()));
  board.left(5);
  CHECK(board.working() == 0);
  CHECK(board.shortage().empty());
  CHECK_FALSE(no_device_works(board.snapshot()));
}

TEST_CASE("a host that joins again after a quarantine counts as working once it has judged") {
  device_board board;
  board.joined(5, {"node7", 4711, {"cpp"}, {{0, "cpp-4"}}});
  board.troubles(5, {{0, {"no room in /tmp", 0}}});
  board.left(5);
  CHECK(board.shortage().empty());
  // A new process: it tells of no quarantine, and fails like the one before.
  board.joined(6, {"node7", 4712, {"cpp"}, {{0, "cpp-4"}}});
  CHECK(board.working() == 0);
  CHECK(board.shortage() ==
        "device 0 (cpp-4) of host node7 (process 4712) has judged nothing since its host was in "
        "quarantine: no room in /tmp");
  board.troubles(6, {{0, {"no memory", 0}}});
  CHECK(board.shortage() ==
        "device 0 (cpp-4) of host node7 (process 4712) is in quarantine: no memory");
  // A verdict that was under way does not end the quarantine.
  board.judged(6, 0);
  CHECK(board.working() == 0);
  // One that joins while the gateway still counts the session before it.
  board.joined(7, {"node7", 4713, {"cpp"}, {{0, "cpp-4"}}});
  board.left(6);
  CHECK(board.working() == 0);
  board.judged(9, 0);
  CHECK(board.working() == 0);
  board.judged(7, 0);
  CHECK(board.working() == 1);
  CHECK(board.shortage().empty());
  // It is trusted as before.
  board.left(7);
  board.joined(8, {"node7", 4714, {"cpp"}, {{0, "cpp-4"}}});
  CHECK(board.working() == 1);
  // A device of another number, and of another host, are none of that.
  board.troubles(8, {{0, {"no memory", 0}}});
  board.joined(10, {"node8", 4715, {"cpp"}, {{0, "cpp-4"}}});
  CHECK(board.working() == 1);
  board.left(10);
  board.joined(11, {"node7", 4716, {"cuda"}, {{1, "cpp-4"}}});
  CHECK(board.working() == 1);
}

TEST_CASE("a test that is passed ends a trial, too") {
  device_board board;
  board.joined(5, {"node7", 4711, {"cpp"}, {{0, "cpp-4"}}});
  board.troubles(5, {{0, {"no room", 0}}});
  board.left(5);
  // The same process, which has lost its connection: it tells of its quarantine at once.
  board.joined(6, {"node7", 4711, {"cpp"}, {{0, "cpp-4"}}});
  board.troubles(6, {{0, {"no room", 0}}});
  CHECK(board.working() == 0);
  CHECK(board.troubles(6, {}).back.size() == 1);
  CHECK(board.working() == 1);
}

TEST_CASE("ten minutes without a device that works are ten, whoever joins in between") {
  device_board board;
  plural_policy evaluators({});
  const auto told = [&](nanoseconds_t now) {
    evaluators.present(board.working(), !board.shortage().empty(), now);
  };
  board.joined(1, {"node7", 4711, {"cpp"}, {{0, "cpp-4"}}});
  told(0);
  board.troubles(1, {{0, {"no room in /tmp", 0}}});
  told(10_s);
  CHECK(evaluators.gives_up_at() == 610_s);
  // Every two minutes another process, whose device fails like the one before.
  for (std::int64_t k = 1; k <= 4; ++k) {
    board.left(static_cast<session_id>(k));
    told(k * 120_s);
    board.joined(static_cast<session_id>(k + 1), {"node7", 4711, {"cpp"}, {{0, "cpp-4"}}});
    told(k * 120_s + 1_s);
    CHECK(evaluators.gives_up_at() == 610_s);
    board.troubles(static_cast<session_id>(k + 1), {{0, {"no room in /tmp", 0}}});
    told(k * 120_s + 30_s);
    CHECK(evaluators.gives_up_at() == 610_s);
  }
  CHECK(evaluators.absent_for_long(610_s));
}

TEST_CASE("of many devices in quarantine a line names eight") {
  device_board board;
  board_host host{"node7", 0, {"cuda"}, {}};
  std::map<std::int64_t, board_trouble> out;
  for (std::int64_t device = 0; device < 11; ++device) {
    host.devices.push_back({device, "H200"});
    out[device] = {"lost", 0};
  }
  board.joined(5, host);
  board.troubles(5, out);
  const std::string text = board.shortage();
  CHECK(text.find("device 7 (H200)") != std::string::npos);
  CHECK(text.find("device 8 (H200)") == std::string::npos);
  CHECK(text.ends_with("; and 3 more"));
}
