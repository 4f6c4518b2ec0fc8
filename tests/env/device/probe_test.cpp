// The probe of the machine's GPUs.
#include "env/device/gpu_probe.hpp"
#include "support/gpu.hpp"

using namespace quern;

TEST_CASE("every GPU that the driver has computes") {
  const auto host = env::probe_gpus();
  if (!test::go_on_with_gpu(host.has_value(), host ? "" : host.error().message)) return;
  CHECK_FALSE(host->gpus.empty());
  for (const env::gpu_facts& gpu : host->gpus) {
    CAPTURE(gpu.name);
    CHECK(gpu.problem == "");
    CHECK(gpu.major >= 5);
    CHECK(gpu.multiprocessors > 0);
    CHECK(gpu.memory_bytes > (1ULL << 30U));
    CHECK(gpu.free_bytes <= gpu.memory_bytes);
    CHECK(gpu.bus_id.find(':') != std::string::npos);
  }
}

TEST_CASE("without a driver the probe says so") {
  if (env::has_nvidia_driver()) return test::skip("an NVIDIA driver is loaded here");
  for (const auto& host : {env::probe_gpus(), env::list_gpus()}) {
    REQUIRE_FALSE(host);
    CHECK(host.error().code == base::errc::unavailable);
    CHECK(test::contains(host.error().message, "/dev/nvidiactl"));
  }
}
