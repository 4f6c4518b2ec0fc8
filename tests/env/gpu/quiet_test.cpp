// Who waits for whom before a measurement (env/gpu/quiet.hpp).
#include "env/gpu/quiet.hpp"

#include <atomic>
#include <thread>

#include <doctest/doctest.h>

using quern::env::device_quiet;

TEST_CASE("A measurement waits for what disturbs, and holds off what would") {
  device_quiet quiet;
  std::atomic<bool> measuring{false}, disturbed_meanwhile{false}, came{false};
  auto first = std::make_unique<device_quiet::disturbance>(quiet);
  CHECK(quiet.disturbed());
  std::thread measurement([&] {
    const device_quiet::hold hold(quiet);
    disturbed_meanwhile = quiet.disturbed();
    measuring = true;
    while (!came)
      std::this_thread::yield();
    disturbed_meanwhile = disturbed_meanwhile || quiet.disturbed();
    measuring = false;
  });
  CHECK_FALSE(measuring);  // as long as the first lives
  first.reset();
  while (!measuring)
    std::this_thread::yield();
  std::atomic<bool> after_measuring{false};
  std::thread next([&] {
    came = true;
    const device_quiet::disturbance late(quiet);
    after_measuring = !measuring;
  });
  measurement.join();
  next.join();
  CHECK_FALSE(disturbed_meanwhile);
  CHECK(after_measuring);
}

TEST_CASE("Several may disturb at once") {
  device_quiet quiet;
  const device_quiet::disturbance one(quiet), two(quiet);
  CHECK(quiet.disturbed());
}
