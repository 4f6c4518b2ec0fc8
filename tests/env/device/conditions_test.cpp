// What the state of a device means for a measurement, through a library that plays NVML.
#include <algorithm>

#include <dlfcn.h>
#include <unistd.h>

#include "env/device/device_watch.hpp"
#include "env/device/fake_nvml.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::env;

namespace {

const std::string watched_bus = "0000:0F:00.0";

test::fake_nvml_state& fresh_device() {
  void* handle = ::dlopen(FAKE_NVML, RTLD_NOW | RTLD_LOCAL);
  REQUIRE(handle != nullptr);
  using get = test::fake_nvml_state* (*)();
  const auto state = reinterpret_cast<get>(::dlsym(handle, "quern_fake_nvml"));
  *state() = {};
  state()->process_count = 1;
  state()->processes[0] = {static_cast<std::uint32_t>(::getpid()), 1ULL << 30};
  return *state();
}

/// One measurement of `pairs` window pairs, with these clocks for either side.
struct measured {
  condition_watch seen;
  device_quarantine device;
};
measured measure(test::fake_nvml_state& state, std::uint32_t baseline_mhz,
                 std::uint32_t candidate_mhz, int pairs = 7) {
  measured result;
  device_watch watch(watched_bus, FAKE_NVML);
  REQUIRE(watch.problem().empty());
  watch.begin(result.seen, result.device, 0);
  for (int i = 0; i < pairs; ++i)
    for (const bool candidate : {false, true}) {
      state.clocks[1] = candidate ? candidate_mhz : baseline_mhz;
      watch.window(result.seen, candidate);
    }
  watch.end(result.seen, result.device, 1);
  return result;
}

}  // namespace

TEST_CASE(
    "what may have disturbed a measurement is said once each, and nothing that is not known") {
  auto& state = fresh_device();
  state.reasons = 0x4;
  const auto throttled = measure(state, 1980, 1980).seen.conditions(watched_bus);
  REQUIRE(throttled);
  CHECK(what_disturbed(*throttled) == "; the device was throttled (sw_power_cap)");
  state.reasons = 0;
  const auto calm = measure(state, 1980, 1980).seen.conditions(watched_bus);
  REQUIRE(calm);
  CHECK(what_disturbed(*calm).empty());
  state.processes[1] = {1, 1ULL << 30};
  state.process_count = 2;
  const auto beside = measure(state, 1980, 1980).seen.conditions(watched_bus);
  REQUIRE(beside);
  CHECK(what_disturbed(*beside) == "; processes of others were on the device");
  CHECK(what_disturbed(device_conditions{}).empty());
}

TEST_CASE("clocks, power, heat and reasons are recorded before and after") {
  auto& state = fresh_device();
  state.reasons = 0x4;
  const auto m = measure(state, 1980, 1965);
  const auto told = m.seen.conditions(watched_bus);
  REQUIRE(told.has_value());
  CHECK(told->bus_id == watched_bus);
  CHECK(told->throttled);
  CHECK(told->shared == false);
  REQUIRE(told->looks.size() == 2);
  CHECK_FALSE(told->looks[0].after);
  CHECK(told->looks[1].after);
  CHECK(told->looks[0].sm_mhz == 1120);
  CHECK(told->looks[0].memory_mhz == 1130);
  CHECK(told->looks[0].power_mw == 301500);
  CHECK(told->looks[0].temperature_c == 54);
  CHECK(told->looks[0].others == 0);
  CHECK(told->looks[0].throttle == std::vector<std::string>{"sw_power_cap"});
  CHECK(told->baseline_sm_mhz == 1980);
  CHECK(told->candidate_sm_mhz == 1965);
  CHECK(told->candidate_memory_mhz == 1130);
}

TEST_CASE("a measurement is void when the sides' clocks differ by more than 2 %, either way") {
  auto& state = fresh_device();
  for (const auto& [baseline, candidate] :
       {std::pair{1980U, 1980U}, std::pair{1980U, 1950U}, std::pair{1950U, 1980U}})
    CHECK_FALSE(measure(state, baseline, candidate).seen.unfair().has_value());
  for (const auto& [baseline, candidate] : {std::pair{1980U, 1755U}, std::pair{1755U, 1980U}}) {
    const auto why = measure(state, baseline, candidate).seen.unfair();
    REQUIRE(why.has_value());
    CHECK(test::contains(*why, "SM clock was " + std::to_string(baseline) + " MHz"));
    CHECK(test::contains(*why, std::to_string(candidate) + " MHz in the candidate's"));
  }
}

TEST_CASE("throttled alike is no reason, and a few looks are too few to say anything") {
  auto& state = fresh_device();
  state.reasons = 0x44;
  CHECK_FALSE(measure(state, 1200, 1200).seen.unfair().has_value());
  CHECK(measure(state, 1200, 1980, 3).seen.unfair().has_value());
  CHECK_FALSE(measure(state, 1200, 1980, 2).seen.unfair().has_value());
}

TEST_CASE("a difference of memory clocks counts as well, and each measurement is judged alone") {
  condition_watch seen;
  for (int i = 0; i < 5; ++i) {
    seen.window(false, {1980, 2619});
    seen.window(true, {1980, 1593});
  }
  REQUIRE(seen.unfair().has_value());
  CHECK(test::contains(*seen.unfair(), "memory clock"));
  seen.begin();
  CHECK_FALSE(seen.unfair().has_value());
}

TEST_CASE("shared is said only where processes can be told apart") {
  auto& state = fresh_device();
  state.process_count = 2;
  state.processes[1] = {4'000'000, 1ULL << 30};  // no process of ours has it
  auto told = measure(state, 1980, 1980).seen.conditions(watched_bus);
  CHECK(told->shared == true);
  CHECK(told->looks[0].others == 1);
  // Ids of another namespace: this process itself is not in the list.
  state.processes[0].pid = 4'000'001;
  told = measure(state, 1980, 1980).seen.conditions(watched_bus);
  CHECK_FALSE(told->shared.has_value());
  CHECK_FALSE(told->looks[0].others.has_value());
}

TEST_CASE("memory that nobody has is told where everybody can be told") {
  auto& state = fresh_device();
  state.process_count = 2;
  state.processes[1] = {4'000'000, 1ULL << 29};
  state.used = 3ULL << 30;
  device_watch watch(watched_bus, FAKE_NVML);
  CHECK(watch.unaccounted_bytes() == (3ULL << 29));
  state.used = 1ULL << 30;  // less than processes say: none
  CHECK(watch.unaccounted_bytes() == 0);
  state.processes[0].pid = 4'000'001;
  CHECK_FALSE(watch.unaccounted_bytes().has_value());
}

TEST_CASE("a process that ended after it was listed does not count as another program") {
  auto& state = fresh_device();
  state.process_count = 2;
  state.processes[1] = {4'000'000, 1ULL << 30};
  state.ends_once_listed = 4'000'000;
  device_watch watch(watched_bus, FAKE_NVML);
  CHECK_FALSE(watch.sample()->host_shared);
  CHECK(watch.other_programs().empty());
  // Control: one that is listed again.
  state.process_count = 2;
  state.ends_once_listed = 0;
  CHECK(watch.sample()->host_shared);
  CHECK(watch.other_programs() == std::vector<std::string>{"4000000 (not shown in /proc)"});
}

TEST_CASE("other programs are named once each, with the processes that they descend from") {
  if (::getpid() == 1) return test::skip("this process is the first of its namespace");
  auto& state = fresh_device();
  state.process_count = 3;
  const auto parent = static_cast<std::uint32_t>(::getppid());
  state.processes[1] = {parent, 1ULL << 30};
  state.processes[2] = {1, 1ULL << 30};
  device_watch watch(watched_bus, FAKE_NVML);
  for (int i = 0; i < 3; ++i)
    CHECK(watch.sample()->host_shared);
  REQUIRE(watch.other_programs().size() == (parent == 1 ? 1 : 2));
  CHECK(watch.other_programs().front().starts_with(fmt::format("{} (", parent)));
  CHECK(test::contains(watch.other_programs().front(), "1 ("));
  CHECK(test::contains(other_program(static_cast<std::uint32_t>(::getpid())), " < "));
  // Nobody can be told where this process is not in the list.
  state.processes[0].pid = 4'000'001;
  device_watch blind(watched_bus, FAKE_NVML);
  (void)blind.sample();
  CHECK(blind.other_programs().empty());
}

TEST_CASE("no more programs are named than a log can bear") {
  auto& state = fresh_device();
  state.process_count = 101;
  for (std::uint32_t i = 1; i <= 100; ++i)
    state.processes[i] = {4'000'000 + i, 1ULL << 20};
  device_watch watch(watched_bus, FAKE_NVML);
  CHECK(watch.sample()->other_processes == 100);
  CHECK(watch.other_programs().size() == 64);
}

TEST_CASE("children are ours") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    char wait = 0;
    ::close(ends[1]);
    (void)!::read(ends[0], &wait, 1);
    ::_exit(0);
  }
  CHECK(is_own_process(static_cast<std::uint32_t>(::getpid())));
  CHECK(is_own_process(static_cast<std::uint32_t>(child)));
  CHECK(is_own_process(1) == (::getpid() == 1));
  CHECK_FALSE(is_own_process(static_cast<std::uint32_t>(::getppid())));
  CHECK_FALSE(is_own_process(0));
  CHECK_FALSE(is_own_process(4'194'305));  // above the largest number that a process can have
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_CASE("without NVML nothing is known, and nothing is void for it") {
  device_watch watch(watched_bus, "/nowhere/libnvidia-ml.so.1");
  CHECK(test::contains(watch.problem(), "/nowhere"));
  condition_watch seen;
  device_quarantine device;
  watch.begin(seen, device, 0);
  watch.window(seen, true);
  watch.end(seen, device, 1);
  watch.look_for_faults(device, 2);
  CHECK_FALSE(seen.conditions(watched_bus).has_value());
  CHECK_FALSE(seen.unfair().has_value());
  CHECK_FALSE(watch.sample().has_value());
  CHECK_FALSE(device.entry().has_value());
}

TEST_CASE("a device that is lost, or whose memory fails, goes into quarantine") {
  auto& state = fresh_device();
  state.codes[static_cast<int>(test::nvml_call::power)] = 15;
  auto m = measure(state, 1980, 1980);
  REQUIRE(m.device.entry().has_value());
  CHECK(m.device.entry()->cause == quarantine_cause::hardware);
  CHECK(test::contains(m.device.entry()->reason, "GPU is lost"));

  fresh_device().codes[static_cast<int>(test::nvml_call::power)] = 999;  // a question fails
  CHECK_FALSE(measure(state, 1980, 1980).device.entry().has_value());

  fresh_device().rows_pending = true;
  CHECK(measure(state, 1980, 1980).device.entry().has_value());

  fresh_device();
  device_watch watch(watched_bus, FAKE_NVML);
  device_quarantine device;
  state.ecc_errors = 7;  // before our time
  watch.look_for_faults(device, 0);
  CHECK_FALSE(device.entry().has_value());
  state.ecc_errors = 8;
  watch.look_for_faults(device, 5);
  REQUIRE(device.entry().has_value());
  CHECK(device.entry()->since == 5);
}

TEST_CASE("XIDs of programs are not the device's fault, those of the device are") {
  auto& state = fresh_device();
  device_watch watch(watched_bus, FAKE_NVML);
  device_quarantine device;
  state.xid_count = 3;
  state.xids[0] = 13, state.xids[1] = 31, state.xids[2] = 43;
  watch.look_for_faults(device, 0);
  CHECK_FALSE(device.entry().has_value());
  state.xid_count = 2;
  state.xids[0] = 31, state.xids[1] = 79;
  watch.look_for_faults(device, 1);
  REQUIRE(device.entry().has_value());
  CHECK(test::contains(device.entry()->reason, "XID 79"));
  CHECK_FALSE(test::contains(device.entry()->reason, "31"));
  CHECK(state.event_sets == 1);
  state.no_events = true;
  device_watch deaf(watched_bus, FAKE_NVML);
  device_quarantine other;
  deaf.look_for_faults(other, 0);
  CHECK_FALSE(other.entry().has_value());
}
