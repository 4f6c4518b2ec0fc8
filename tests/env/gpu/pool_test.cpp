// Processes that are made ahead, with measurements in between that make them stand still
// (env/gpu/runner_pool.hpp). Real processes in the sandbox; the device is none (slow_window.cpp).
#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "base/program.hpp"
#include "env/gpu/runner_pool.hpp"
#include "env/sandbox/child.hpp"
#include "support/meddler.hpp"
#include "support/test.hpp"

using namespace quern;
using env::device_quiet;
using env::gpu_pool_options;
using env::gpu_runner_pool;
using env::gpu_runner_process;

namespace {

std::unique_ptr<env::spawner> a_spawner() {
  auto made = env::spawner::create(env::sandbox_mode::best_effort);
  REQUIRE_MESSAGE(made.has_value(), (made ? "" : made.error().message));
  return std::move(*made);
}

env::gpu_runner_start start_of(const std::string& library) {
  env::gpu_runner_start how;
  how.runner_program = base::program_folder() / "quern-runner";
  how.cuda_library = base::program_folder() / library;
  return how;
}

/// Tells one thing of a process, to see that it answers.
bool answers(gpu_runner_process& process) {
  return process.link().drop().has_value();
}

}  // namespace

TEST_CASE("Processes are made while measurements come and go, and each works") {
  const auto children = a_spawner();
  device_quiet quiet;
  std::atomic<int> prepared{0};
  gpu_pool_options options;
  options.ahead = 2;
  options.makers = 2;
  options.prepare = [&](gpu_runner_process& process) -> base::status {
    CHECK(answers(process));
    ++prepared;
    return {};
  };
  gpu_runner_pool pool(*children, start_of("libquern_slow_window.so"), options, quiet);
  for (int taken = 0; taken < 6; ++taken) {
    auto process = pool.take();
    REQUIRE_MESSAGE(process.has_value(), (process ? "" : process.error().message));
    CHECK(answers(**process));
    // Windows of some milliseconds, in which nobody makes a context.
    for (int window = 0; window < 8; ++window) {
      const device_quiet::hold measured(quiet);
      CHECK_FALSE(quiet.disturbed());
      std::this_thread::sleep_for(std::chrono::milliseconds(4));
    }
  }
  CHECK(prepared >= 6);
}

TEST_CASE("A process has the queues that were asked for, whatever is ready") {
  const auto children = a_spawner();
  device_quiet quiet;
  gpu_pool_options options;
  options.ahead = 2;
  options.ahead_all = 1;
  gpu_runner_pool pool(*children, start_of("libquern_slow_window.so"), options, quiet);
  using env::work_queues;
  while (pool.ready() < 2)
    std::this_thread::yield();
  REQUIRE(pool.take(work_queues::all).has_value());
  while (pool.ready() < 3)
    std::this_thread::yield();
  for (const auto queues :
       {work_queues::all, work_queues::one, work_queues::all, work_queues::one}) {
    auto process = pool.take(queues);
    REQUIRE_MESSAGE(process.has_value(), (process ? "" : process.error().message));
    const auto refused = (*process)->link().window({}, 5);
    REQUIRE_FALSE(refused.has_value());
    CHECK(test::contains(refused.error().text,
                         queues == work_queues::all ? "all queues" : "one queue"));
  }
}

TEST_CASE("One that ended while it waited is given to nobody") {
  const auto children = a_spawner();
  device_quiet quiet;
  gpu_runner_pool pool(*children, start_of("libquern_slow_window.so"), {}, quiet);
  while (pool.ready() == 0)
    std::this_thread::yield();
  const auto waiting = test::descendants(::getpid(), "quern-runner", true);
  REQUIRE_FALSE(waiting.empty());
  for (const auto& [pid, parent] : waiting)
    REQUIRE(::kill(pid, SIGKILL) == 0);
  for (const auto& [pid, parent] : waiting)
    while (!test::has_ended(pid))
      std::this_thread::yield();
  auto process = pool.take();
  REQUIRE_MESSAGE(process.has_value(), (process ? "" : process.error().message));
  CHECK(answers(**process));
}

TEST_CASE("A process whose context is being made stands still as long as anybody measures") {
  const auto children = a_spawner();
  device_quiet quiet;
  std::atomic<int> prepared{0};
  gpu_pool_options options;
  options.prepare = [&](gpu_runner_process&) -> base::status {
    ++prepared;
    return {};
  };
  gpu_runner_pool pool(*children, start_of("libquern_slow_window.so"), options, quiet);
  while (!quiet.disturbed())
    std::this_thread::yield();
  {
    const device_quiet::hold measured(quiet);
    // Whatever was over when it began may still be told.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const int before = prepared;
    // Three times what a context takes.
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    CHECK(prepared == before);
  }
  CHECK(pool.take().has_value());
  CHECK(prepared >= 1);
}

TEST_CASE("A pool ends although a process of it stands still") {
  const auto children = a_spawner();
  device_quiet quiet;
  gpu_pool_options options;
  options.ahead = 2;
  std::optional<gpu_runner_pool> pool(std::in_place, *children, start_of("libquern_slow_window.so"),
                                      options, quiet);
  std::optional<device_quiet::hold> measured(std::in_place, quiet);
  std::thread ends([&] { pool.reset(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  measured.reset();
  ends.join();
  CHECK_FALSE(quiet.disturbed());
}

TEST_CASE("What fails is told to who waits, and tried again for the next") {
  const auto children = a_spawner();
  device_quiet quiet;
  std::atomic<bool> broken{true};
  gpu_pool_options options;
  options.makers = 2;
  options.prepare = [&](gpu_runner_process&) -> base::status {
    if (broken) return base::fail(base::errc::unavailable, "no memory left");
    return {};
  };
  gpu_runner_pool pool(*children, start_of("libquern_slow_window.so"), options, quiet);
  const auto refused = pool.take();
  REQUIRE_FALSE(refused.has_value());
  CHECK(test::contains(refused.error().message, "no memory left"));
  broken = false;
  const auto process = pool.take();
  REQUIRE_MESSAGE(process.has_value(), (process ? "" : process.error().message));
  gpu_runner_pool nowhere(*children, start_of("not_there.so"), {}, quiet);
  const auto missing = nowhere.take();
  REQUIRE_FALSE(missing.has_value());
  CHECK(test::contains(missing.error().message, "not_there.so"));
}
