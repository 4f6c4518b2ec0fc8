// What a run says of its hosts and devices.
#include "actors/decide/device_board.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::actors;

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
