// Into quarantine, and out of it by self-tests after growing pauses.
#include "env/device/device_quarantine.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::env;
using base::operator""_s;

namespace {

device_quarantine::limits short_limits() {
  device_quarantine::limits limits;
  limits.first_pause = 10_s;
  limits.longest_pause = 50_s;
  limits.trusted_after = 5;
  return limits;
}

}  // namespace

TEST_CASE("the first reason stays, with its time, until a self-test passes") {
  device_quarantine device(short_limits());
  CHECK_FALSE(device.entry().has_value());
  CHECK_FALSE(device.test_due(1000_s));
  device.enter(quarantine_cause::memory, "3 GiB are missing", 5_s);
  device.enter(quarantine_cause::hardware, "later", 6_s);
  REQUIRE(device.entry().has_value());
  CHECK(*device.entry() == quarantine_entry{quarantine_cause::memory, "3 GiB are missing", 5_s});
  CHECK(name_of(device.entry()->cause) == "memory");
  CHECK_FALSE(device.test_due(14_s));
  CHECK(device.test_due(15_s));
  device.tested(std::nullopt, 15_s);
  CHECK_FALSE(device.entry().has_value());
}

TEST_CASE("pauses double up to a limit while tests fail") {
  device_quarantine device(short_limits());
  device.enter(quarantine_cause::context, "sticky", 0);
  base::nanoseconds_t now = 10_s;
  for (const auto pause : {20_s, 40_s, 50_s, 50_s}) {
    CHECK(device.test_due(now));
    device.tested("still so", now);
    CHECK_FALSE(device.test_due(now + pause - 1));
    now += pause;
  }
  CHECK(device.entry()->reason == "sticky");
  CHECK(device.entry()->since == 0);
}

TEST_CASE("a device that comes back to quarantine soon waits longer; one that worked does not") {
  device_quarantine device(short_limits());
  device.enter(quarantine_cause::memory, "a", 0);
  device.tested(std::nullopt, 10_s);
  device.worked();
  device.enter(quarantine_cause::memory, "b", 20_s);
  CHECK_FALSE(device.test_due(39_s));
  CHECK(device.test_due(40_s));
  device.tested(std::nullopt, 40_s);
  for (int i = 0; i < 5; ++i)
    device.worked();
  device.enter(quarantine_cause::memory, "c", 50_s);
  CHECK(device.test_due(60_s));
}

TEST_CASE("failures one after another, of several tasks, or many of one") {
  device_quarantine several(short_limits());
  several.failed("softmax", "x", 1_s);
  several.failed("softmax", "x", 2_s);
  CHECK_FALSE(several.entry().has_value());
  several.failed("row_sum", "the reference\nis gone\n", 3_s);
  REQUIRE(several.entry().has_value());
  CHECK(several.entry()->cause == quarantine_cause::failures);
  CHECK(test::contains(several.entry()->reason, "3 evaluations in a row"));
  CHECK(test::contains(several.entry()->reason, "the reference; is gone"));

  device_quarantine one(short_limits());
  for (int i = 1; i < 6; ++i)
    one.failed("softmax", "x", 1_s * i);
  CHECK_FALSE(one.entry().has_value());
  one.failed("softmax", "x", 6_s);
  CHECK(one.entry().has_value());

  device_quarantine mixed(short_limits());
  for (int i = 0; i < 20; ++i) {
    mixed.failed(std::to_string(i), "x", 1_s);
    mixed.failed(std::to_string(i + 1), "x", 1_s);
    mixed.worked();
  }
  CHECK_FALSE(mixed.entry().has_value());
}

TEST_CASE("faults: new memory errors, rows that wait for a reset, XIDs of the device") {
  device_quarantine device(short_limits());
  device.faults({{}, {}, {}}, 1_s);
  device.faults({4, false, {}}, 2_s);
  device.faults({4, false, {13, 31}}, 3_s);
  CHECK_FALSE(device.entry().has_value());
  device.faults({6, false, {}}, 4_s);
  REQUIRE(device.entry().has_value());
  CHECK(test::contains(device.entry()->reason, "2 more memory errors"));
  device.tested(std::nullopt, 20_s);
  device.faults({6, false, {}}, 21_s);
  CHECK_FALSE(device.entry().has_value());
  device.faults({6, true, {}}, 22_s);
  CHECK(device.entry().has_value());
}
