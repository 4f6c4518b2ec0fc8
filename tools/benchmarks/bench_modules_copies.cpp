// What the evaluator's copies between two calls cost a process on the same GPU.
#include "tools/benchmarks/bench_modules_copies.hpp"

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/program.hpp"
#include "env/gpu/device_context.hpp"
#include "env/lanes/pytorch/gpu/pytorch_device_evaluator.hpp"
#include "env/lanes/pytorch/process/python_zygote.hpp"
#include "env/measure/stats.hpp"

namespace quern::tools {
namespace {

constexpr env::question_limits wake_limits{60, 60};
constexpr double most_delay_us = 30;
constexpr std::uint64_t region_bytes = std::uint64_t{64} << 20;

/// Something that an evaluator asks of the device, and waits for.
struct device_work {
  std::string name;
  enum { nothing, used, not_used } use;  ///< whether windows have it between their calls
  std::function<void()> make;
};

std::vector<device_work> ways(env::device_context& context, const env::device_allocation& region,
                              const env::pinned_memory& pinned) {
  const std::uint64_t at = region.address(), half = region_bytes / 2;
  std::byte* host = pinned.bytes().data();
  const auto wait = [&context] { (void)context.wait(); };
  const auto rows = [&](std::uint64_t width, std::uint64_t count, std::uint64_t pitch) {
    return quern_byte_rows{width, count, pitch, width};
  };
  const auto sent = [&context, at, host](quern_byte_rows what) {
    return [&context, at, host, what] {
      context.send(at, host, what);
      context.wait_for_copies();
    };
  };
  const auto fetched = [&context, at, host](quern_byte_rows what) {
    return [&context, at, host, what] {
      context.fetch(host, at, what);
      context.wait_for_copies();
    };
  };
  // A sample of the call before, and late bytes of the next one, as call_copies has them.
  const auto between_calls = [&context, at, host](quern_byte_rows sample, quern_byte_rows late) {
    return [&context, at, host, sample, late] {
      context.fetch(host, at + region_bytes / 2, sample);
      context.send(at, host, late);
      context.wait_for_copies();
    };
  };
  const auto within = [&context, at, half, wait](std::uint64_t bytes) {
    return [&context, at, half, wait, bytes] {
      context.copy(at, at + half, bytes);
      wait();
    };
  };
  const auto kernel = [&context, at, wait] {
    context.set(at, 4096, 1);
    wait();
  };
  return {
      {"nothing", device_work::nothing, [] {}},
      {"a kernel", device_work::not_used, kernel},
      {"4 KiB within the device", device_work::not_used, within(4096)},
      {"1 MiB within the device", device_work::not_used, within(std::uint64_t{1} << 20)},
      {"one row of 4 KiB to the device", device_work::not_used, sent(rows(4096, 1, 4096))},
      {"33 rows of 256 B to the device", device_work::used, sent(rows(256, 33, 256))},
      {"1024 rows of 256 B to it", device_work::used, sent(rows(256, 1024, 256))},
      {"1024 rows of 256 B, 16 KiB apart, to it", device_work::used, sent(rows(256, 1024, 16384))},
      {"64 rows of 64 B, 4 KiB apart, from it", device_work::used, fetched(rows(64, 64, 4096))},
      {"one row of 4 KiB from it", device_work::used, fetched(rows(4096, 1, 4096))},
      {"a sample, and small inputs", device_work::used,
       between_calls({64, 64, 4096, 64}, {256, 33, 256, 256})},
      {"a sample, and of inputs of 16 MiB", device_work::used,
       between_calls({64, 64, 4096, 64}, {256, 1024, 16384, 256})}};
}

}  // namespace

base::expected<bool> bench_copies(env::sandbox_mode mode, int gpu, int turns) {
  constexpr int warm_ups = 10;
  QUERN_TRY(const auto context, env::device_context::open(gpu));
  QUERN_TRY(auto access, env::gpu_sandbox_paths(context->facts().bus_id));
  QUERN_TRY(auto zygote,
            env::python_zygote::start(
                mode, {std::move(access), base::program_folder() / "libquern_cuda.so"}));
  QUERN_TRY(const auto region, context->allocate(region_bytes));
  QUERN_TRY(const auto pinned, context->pin(region_bytes));
  QUERN_TRY(auto child, zygote.fork({}));
  if (const auto opened = child.open(wake_limits); !opened)
    return base::fail(base::errc::unavailable, "a process's first answer: {}", opened.error().text);
  const base::steady_clock clock;
  bool met = true;
  double calm_us = 0;
  std::printf(
      "copies %d turns: what the evaluator asks of the device, and a small launch by another "
      "process behind it\n",
      turns);
  for (const device_work& one : ways(*context, region, pinned)) {
    std::vector<double> work_us, launch_us;
    for (int i = 0; i < warm_ups + turns; ++i) {
      const auto begin = clock.now_ns();
      one.make();
      const auto made = clock.now_ns();
      if (const auto woken = child.link().flush(wake_limits); !woken)
        return base::fail(base::errc::unavailable, "a launch: {}", woken.error().text);
      const auto end = clock.now_ns();
      if (i < warm_ups) continue;
      work_us.push_back(static_cast<double>(made - begin) * 1e-3);
      launch_us.push_back(static_cast<double>(end - made) * 1e-3);
    }
    if (const auto done = context->wait(); !done) return tl::make_unexpected(done.error());
    const double launch = env::median_of(launch_us);
    if (one.use == device_work::nothing) calm_us = launch;
    const double delay = launch - calm_us;
    if (one.use == device_work::used) met = met && delay <= most_delay_us;
    if (one.use == device_work::not_used) met = met && delay > most_delay_us;
    std::printf(
        "       %-40s takes %6.1f us; the launch behind it %6.1f us, %+7.1f us (P90 %.1f)\n",
        one.name.c_str(), env::median_of(work_us), launch, delay, env::quantile_of(launch_us, 0.9));
  }
  (void)zygote.end(child);
  std::printf("       those between calls delay it by %.0f us at most, all others by more: %s\n",
              most_delay_us, met ? "met" : "missed");
  std::fflush(stdout);
  return met;
}

}  // namespace quern::tools
