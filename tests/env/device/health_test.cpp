// The health of a device, through the real loading of a library that plays NVML.
#include <algorithm>
#include <array>
#include <vector>

#include <dlfcn.h>

#include "env/device/device_health.hpp"
#include "env/device/fake_nvml.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::env;
using test::nvml_call;

namespace {

const std::string bus_id = "0000:0F:00.0";

/// The state of a fake library, as new.
test::fake_nvml_state& fresh(const char* library = FAKE_NVML) {
  void* handle = ::dlopen(library, RTLD_NOW | RTLD_LOCAL);
  REQUIRE(handle != nullptr);
  using get = test::fake_nvml_state* (*)();
  const auto state = reinterpret_cast<get>(::dlsym(handle, "quern_fake_nvml"));
  REQUIRE((state != nullptr));
  *state() = {};
  return *state();
}

device_health opened(const char* library = FAKE_NVML) {
  auto device = device_health::open(bus_id, library);
  REQUIRE(device.has_value());
  return std::move(*device);
}

device_health::process_filter among(std::vector<std::uint32_t> own) {
  return [own = std::move(own)](std::uint32_t pid) {
    return std::find(own.begin(), own.end(), pid) != own.end();
  };
}

device_health_sample full_sample() {
  device_health_sample s;
  s.graphics_mhz = 1110, s.graphics_max_mhz = 2110;
  s.sm_mhz = 1120, s.sm_max_mhz = 2120;
  s.memory_mhz = 1130, s.memory_max_mhz = 2130;
  s.power_mw = 301500, s.power_limit_mw = 700000;
  s.temperature_c = 54;
  s.throttle_reasons = 0x44;
  s.memory_total_bytes = 80ULL << 30;
  s.memory_used_bytes = 3ULL << 30;
  s.processes = 3, s.other_processes = 2;
  s.process_bytes = 1700ULL << 20, s.other_process_bytes = 700ULL << 20;
  s.host_shared = true;
  return s;
}

void with_three_processes(test::fake_nvml_state& state) {
  state.reasons = 0x44;
  state.process_count = 3;
  state.processes[0] = {41, 1000ULL << 20};
  state.processes[1] = {42, 700ULL << 20};
  state.processes[2] = {43, ~0ULL};  // the driver does not tell how much
}

}  // namespace

TEST_CASE("a sample has what NVML says, each value in its place") {
  auto& state = fresh();
  with_three_processes(state);
  const auto device = opened();
  const auto own = among({7, 41});
  const auto sample = device.sample(own);
  REQUIRE(sample.has_value());
  CHECK(*sample == full_sample());
  CHECK(to_text(*sample) ==
        "graphics 1110/2110 MHz, sm 1120/2120 MHz, memory 1130/2130 MHz, 302/700 W, 54 C, "
        "THROTTLED sw_power_cap+hw_thermal_slowdown, 3072/81920 MiB, 3 processes with 1700 MiB, 2 "
        "of others with 700 MiB, SHARED");
}

TEST_CASE("shared is: a process that is not ours, whatever its memory") {
  auto& state = fresh();
  with_three_processes(state);
  const auto device = opened();
  const auto all = among({41, 42, 43}), but_the_silent_one = among({41, 42});
  CHECK_FALSE(device.sample(all)->host_shared);
  CHECK(device.sample(all)->other_processes == 0);
  CHECK(device.sample(all)->process_bytes == 1700ULL << 20);
  CHECK(device.sample(but_the_silent_one)->host_shared);
  CHECK(device.sample(but_the_silent_one)->other_process_bytes == 0);
  CHECK(device.sample()->other_processes == 3);
  state.process_count = 0;
  CHECK_FALSE(device.sample()->host_shared);
  CHECK(device.sample()->processes == 0);
}

TEST_CASE("what one device does not tell is empty, and the rest is there") {
  constexpr int not_supported = 3, no_permission = 4;
  const auto own = among({41});
  for (const int code : {not_supported, no_permission})
    for (int call = static_cast<int>(nvml_call::memory); call < test::nvml_sample_calls; ++call) {
      CAPTURE(call);
      auto& state = fresh();
      with_three_processes(state);
      state.codes[call] = code;
      auto want = full_sample();
      switch (static_cast<nvml_call>(call)) {
        case nvml_call::memory:
          want.memory_total_bytes = want.memory_used_bytes = 0;
          break;
        case nvml_call::clock:
          want.graphics_mhz = want.sm_mhz = want.memory_mhz = {};
          break;
        case nvml_call::max_clock:
          want.graphics_max_mhz = want.sm_max_mhz = want.memory_max_mhz = {};
          break;
        case nvml_call::power:
          want.power_mw = {};
          break;
        case nvml_call::power_limit:
          want.power_limit_mw = {};
          break;
        case nvml_call::temperature:
          want.temperature_c = {};
          break;
        case nvml_call::reasons:
          want.throttle_reasons = {};
          break;
        case nvml_call::processes:
          want.processes = want.other_processes = {};
          want.process_bytes = want.other_process_bytes = 0;
          want.host_shared = false;
          break;
        default:
          FAIL("no such call");
      }
      const auto sample = opened().sample(own);
      REQUIRE(sample.has_value());
      CHECK(*sample == want);
    }
}

TEST_CASE(
    "the highest clocks are asked for when a device is opened, and are those of each sample") {
  auto& state = fresh();
  with_three_processes(state);
  const auto device = opened();
  state.codes[static_cast<int>(nvml_call::max_clock)] = 15;
  for (int i = 0; i < 2; ++i)
    CHECK(device.sample()->sm_max_mhz == 2120U);
}

TEST_CASE("a lost device is an error, whichever question of a sample finds it out") {
  for (int call = static_cast<int>(nvml_call::memory); call < test::nvml_sample_calls; ++call) {
    if (call == static_cast<int>(nvml_call::max_clock)) continue;
    CAPTURE(call);
    auto& state = fresh();
    const auto device = opened();
    state.codes[call] = 15;
    const auto sample = device.sample();
    REQUIRE_FALSE(sample);
    CHECK(sample.error().code == base::errc::io);
    CHECK(test::contains(sample.error().message, "GPU is lost"));
    state.codes[call] = 999;
    CHECK(device.sample().error().code == base::errc::unavailable);
  }
}

TEST_CASE("any number of processes, and one that grows while it is asked for") {
  auto& state = fresh();
  const auto device = opened();
  state.process_count = 200;
  for (std::uint32_t i = 0; i < 200; ++i)
    state.processes[i] = {1000 + i, 1ULL << 20};
  const auto own = among({1000, 1199});
  const auto sample = device.sample(own);
  REQUIRE(sample.has_value());
  CHECK(sample->processes == 200);
  CHECK(sample->other_processes == 198);
  CHECK(sample->other_process_bytes == 198ULL << 20);

  state.ever_more_processes = true;
  state.process_calls = 0;
  const auto never = device.sample();
  REQUIRE(never.has_value());
  CHECK_FALSE(never->processes.has_value());
  CHECK_FALSE(never->host_shared);
  CHECK(state.process_calls == 8);
}

TEST_CASE("an older driver: other names, fewer functions, errors by number") {
  auto& state = fresh(FAKE_NVML_OLD);
  with_three_processes(state);
  const auto device = opened(FAKE_NVML_OLD);
  const auto own = among({41});
  auto want = full_sample();
  want.graphics_max_mhz = want.sm_max_mhz = want.memory_max_mhz = {};
  want.power_mw = want.power_limit_mw = {};
  CHECK(*device.sample(own) == want);
  state.codes[static_cast<int>(nvml_call::clock)] = 999;
  CHECK(test::contains(device.sample().error().message, "NVML error 999"));
}

TEST_CASE("what does not open says why, and leaves nothing open") {
  const auto missing = device_health::open(bus_id, "/nowhere/libnvidia-ml.so.1");
  REQUIRE_FALSE(missing);
  CHECK(missing.error().code == base::errc::unavailable);
  CHECK(test::contains(missing.error().message, "/nowhere/libnvidia-ml.so.1"));
  const auto foreign = device_health::open(bus_id, "libm.so.6");
  REQUIRE_FALSE(foreign);
  CHECK(foreign.error().code == base::errc::unavailable);
  CHECK(test::contains(foreign.error().message, "lacks a function"));

  auto& state = fresh();
  const auto absent = device_health::open("0000:10:00.0", FAKE_NVML);
  REQUIRE_FALSE(absent);
  CHECK(absent.error().code == base::errc::not_found);
  CHECK(absent.error().message == "GPU 0000:10:00.0: Not Found");
  CHECK(state.opened == 0);
  state.codes[static_cast<int>(nvml_call::by_bus_id)] = 15;
  CHECK(device_health::open(bus_id, FAKE_NVML).error().code == base::errc::unavailable);
  CHECK(state.opened == 0);
  state.codes[static_cast<int>(nvml_call::init)] = 9;
  CHECK(device_health::open(bus_id, FAKE_NVML).error().code == base::errc::unavailable);
  CHECK(state.opened == 0);
}

TEST_CASE("NVML is shut down once for each device, wherever it was moved") {
  auto& state = fresh();
  {
    auto first = opened();
    auto second = opened();
    CHECK(state.opened == 2);
    auto moved = std::move(first);
    CHECK(state.opened == 2);
    CHECK(moved.sample().has_value());
    CHECK(first.sample().error().code == base::errc::internal);
    moved = std::move(second);
    CHECK(state.opened == 1);
    CHECK(moved.sample().has_value());
  }
  CHECK(state.opened == 0);
}

TEST_CASE("throttle reasons in words; waiting and chosen clocks are no throttling") {
  using words = std::vector<std::string>;
  CHECK(throttle_words(0).empty());
  CHECK(throttle_words(0x1FF) == words{"gpu_idle", "application_clocks", "sw_power_cap",
                                       "hw_slowdown", "sync_boost", "sw_thermal_slowdown",
                                       "hw_thermal_slowdown", "hw_power_brake", "display_clocks"});
  CHECK(throttle_words(0x8000000000000204) ==
        words{"sw_power_cap", "bit_0x200", "bit_0x8000000000000000"});
  for (const std::uint64_t slow : {0x4, 0x8, 0x20, 0x40, 0x80})
    CHECK(is_throttled(slow | 1));
  CHECK_FALSE(is_throttled(0x1 | 0x2 | 0x10 | 0x100 | 0x200));
}

TEST_CASE("clocks alone, and faults with each error number told once") {
  auto& state = fresh();
  const auto device = opened();
  const auto clocks = device.clocks();
  REQUIRE(clocks.has_value());
  CHECK(clocks->sm_mhz == 1120);
  CHECK(clocks->memory_mhz == 1130);
  state.ecc_errors = 5;
  state.xid_count = 2;
  state.xids[0] = 13, state.xids[1] = 79;
  const auto faults = device.faults();
  REQUIRE(faults.has_value());
  CHECK(faults->uncorrected_ecc == 5);
  CHECK(faults->rows_pending == false);
  CHECK(faults->xids == std::vector<std::uint64_t>{13, 79});
  CHECK(device.faults()->xids.empty());
  state.rows_failed = true;
  CHECK(device.faults()->rows_pending == true);
  constexpr int not_supported = 3;
  state.codes[static_cast<int>(nvml_call::ecc_errors)] = not_supported;
  state.codes[static_cast<int>(nvml_call::remapped_rows)] = not_supported;
  CHECK_FALSE(device.faults()->uncorrected_ecc.has_value());
  CHECK_FALSE(device.faults()->rows_pending.has_value());
  state.codes[static_cast<int>(nvml_call::ecc_errors)] = 15;
  CHECK(device.faults().error().code == base::errc::io);
  CHECK_FALSE(is_hardware_xid(31));
  CHECK(is_hardware_xid(79));
}

TEST_CASE("an older driver tells no faults, and that is none") {
  fresh(FAKE_NVML_OLD);
  const auto faults = opened(FAKE_NVML_OLD).faults();
  REQUIRE(faults.has_value());
  CHECK_FALSE(faults->uncorrected_ecc.has_value());
  CHECK_FALSE(faults->rows_pending.has_value());
  CHECK(faults->xids.empty());
}

TEST_CASE("text leaves out what is not known") {
  CHECK(to_text({}) == "");
  device_health_sample s;
  s.sm_mhz = 1980;
  s.power_limit_mw = 700000;  // a limit alone says nothing
  s.throttle_reasons = 0;
  CHECK(to_text(s) == "sm 1980 MHz, clocks free");
  s.throttle_reasons = 1;
  CHECK(to_text(s) == "sm 1980 MHz, clocks gpu_idle");
}
