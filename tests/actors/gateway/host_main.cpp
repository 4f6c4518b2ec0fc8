// An evaluator host whose evaluations take as long as it is told: `gateway_test_host ENDPOINT MS`.
#include <chrono>
#include <cstdlib>
#include <thread>

#include "env/plugin/host_loop.hpp"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const auto pause = std::chrono::milliseconds(std::strtol(argv[2], nullptr, 10));
  quern::env::host_options options;
  options.endpoint = argv[1];
  options.profile.build = "test";
  options.profile.lanes = {"cpp"};
  options.profile.devices = {{0, "cpp-test", 2}};
  options.patience_ns = 20'000'000'000;
  auto loop = quern::env::host_loop::make(
      options, [&](const quern::env::host_job& job, const std::atomic<bool>&) {
        std::this_thread::sleep_for(pause);
        return quern::env::host_result{false, "verdict on " + job.job.source};
      });
  return loop && (*loop)->run() ? 0 : 1;
}
