// The health of the machine's GPUs, as their driver tells it.
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

#include <unistd.h>

#include "base/clock.hpp"
#include "env/device/device_health.hpp"
#include "env/device/device_watch.hpp"
#include "env/device/gpu_probe.hpp"
#include "support/gpu.hpp"

using namespace quern;

namespace {

/// Whether this process has a context there. Empty: not told.
std::optional<bool> computes_on(const std::string& bus_id) {
  const auto device = env::device_health::open(bus_id);
  if (!device) return std::nullopt;
  bool own = false;
  const auto sample = device->sample([&](std::uint32_t pid) {
    own |= pid == static_cast<std::uint32_t>(::getpid());
    return true;
  });
  if (!sample || !sample->processes) return std::nullopt;
  return own;
}

}  // namespace

// The first of its program: a context that a test made stays.
TEST_CASE("GPUs are listed without a context on any of them") {
  const auto listed = env::list_gpus();
  if (!test::go_on_with_gpu(listed.has_value(), listed ? "" : listed.error().message)) return;
  for (const env::gpu_facts& gpu : listed->gpus) {
    CHECK(gpu.problem == "");
    CHECK(computes_on(gpu.bus_id) == false);
  }
  // Control: a probe makes them, and is told the same of the devices.
  const auto probed = env::probe_gpus();
  REQUIRE(probed);
  REQUIRE(probed->gpus.size() == listed->gpus.size());
  if (computes_on(listed->gpus.front().bus_id) != true)
    return test::skip("NVML tells process ids of another namespace");
  for (std::size_t i = 0; i < listed->gpus.size(); ++i) {
    const env::gpu_facts& gpu = listed->gpus[i];
    CHECK(gpu.name == probed->gpus[i].name);
    CHECK(gpu.bus_id == probed->gpus[i].bus_id);
    CHECK(gpu.memory_bytes == probed->gpus[i].memory_bytes);
    CHECK(computes_on(gpu.bus_id) == true);
  }
}

TEST_CASE("every GPU tells how it is") {
  const auto host = env::probe_gpus();
  if (!test::go_on_with_gpu(host.has_value(), host ? "" : host.error().message)) return;
  for (const env::gpu_facts& gpu : host->gpus) {
    CAPTURE(gpu.name);
    const auto device = env::device_health::open(gpu.bus_id);
    CAPTURE((device ? "" : device.error().message));
    REQUIRE(device.has_value());
    const auto sample = device->sample();
    REQUIRE(sample.has_value());
    std::printf("%s %s: %s\n", gpu.name.c_str(), gpu.bus_id.c_str(), to_text(*sample).c_str());
    // What every data-centre GPU tells, in plausible units.
    REQUIRE(sample->sm_mhz.has_value());
    REQUIRE(sample->sm_max_mhz.has_value());
    CHECK(*sample->sm_mhz > 50);
    CHECK(*sample->sm_mhz <= *sample->sm_max_mhz);
    CHECK(*sample->sm_max_mhz < 10'000);
    REQUIRE(sample->power_mw.has_value());
    CHECK(*sample->power_mw > 5'000);
    CHECK(*sample->power_mw < 3'000'000);
    REQUIRE(sample->temperature_c.has_value());
    CHECK(*sample->temperature_c > 5);
    CHECK(*sample->temperature_c < 120);
    CHECK(sample->throttle_reasons.has_value());
    const auto cost_us = [](auto question) {
      const base::steady_clock clock;
      const auto start = clock.now_ns();
      constexpr int times = 20;
      for (int i = 0; i < times; ++i)
        (void)question();
      return static_cast<double>(clock.now_ns() - start) / (1000.0 * times);
    };
    std::printf(
        "us a question: sample %.0f, clocks %.0f, faults %.0f; whose a process is %.0f\n",
        cost_us([&] { return device->sample(); }), cost_us([&] { return device->clocks(); }),
        cost_us([&] { return device->faults(); }), cost_us([] { return env::is_own_process(1); }));
    const auto faults = device->faults();
    REQUIRE(faults.has_value());
    std::printf("uncorrected errors %s, rows pending %s, %zu XIDs since\n",
                faults->uncorrected_ecc ? std::to_string(*faults->uncorrected_ecc).c_str() : "?",
                faults->rows_pending ? (*faults->rows_pending ? "yes" : "no") : "?",
                faults->xids.size());
    // NVML counts what the driver reserves, CUDA does not.
    CHECK(sample->memory_total_bytes >= gpu.memory_bytes);
    CHECK(sample->memory_used_bytes <= sample->memory_total_bytes);
  }
}
