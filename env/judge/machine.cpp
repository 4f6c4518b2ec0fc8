// What this machine is to a verdict.
#include "env/judge/machine.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include <sys/utsname.h>

#include "base/clock.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "env/build/instruction_level.hpp"

namespace quern::env {
namespace {

constexpr int repetitions = 5;

#if defined(__x86_64__)
#define QUERN_WIDEST __attribute__((target_clones("avx512f", "avx2,fma", "default")))
#else
#define QUERN_WIDEST
#endif

// Eight independent sums hide the latency of the additions.
QUERN_WIDEST std::uint64_t read_all(const std::uint64_t* data, std::size_t count) {
  std::array<std::uint64_t, 64> sums{};
  for (std::size_t i = 0; i + 64 <= count; i += 64)
    for (std::size_t j = 0; j < 64; ++j)
      sums[j] |= data[i + j];
  std::uint64_t total = 0;
  for (std::uint64_t s : sums)
    total |= s;
  return total;
}

QUERN_WIDEST float multiply_add(std::int64_t rounds, float a, float b) {
  std::array<float, 192> x{};
  for (std::int64_t r = 0; r < rounds; ++r)
    for (float& v : x)
      v = v * a + b;
  float total = 0;
  for (float v : x)
    total += v;
  return total;
}

volatile std::uint64_t sink_integer = 0;
volatile float sink_float = 0;

}  // namespace

std::string cpu_model() {
  const auto text = base::read_file("/proc/cpuinfo", 16U << 20U);
  if (!text) return "unknown";
  for (std::string_view line : base::split(*text, '\n')) {
    const auto colon = line.find(':');
    if (colon != std::string_view::npos && base::trim(line.substr(0, colon)) == "model name")
      return std::string(base::trim(line.substr(colon + 1)));
  }
  return "unknown";
}

std::string environment_fingerprint(const std::vector<std::string>& parts) {
  utsname kernel{};
  uname(&kernel);
  base::hasher hash;
  hash.add(std::string_view("environment/1")).add(cpu_model());
  // The prefix keeps fingerprints equal to those in stored verdicts.
  hash.add("cpp-" + instruction_level());
  hash.add(std::string_view(kernel.release)).add(std::string_view(kernel.machine));
  for (const auto& part : parts)
    hash.add(part);
  return base::to_hex(hash.digest());
}

double measure_bandwidth(std::size_t footprint) {
  const std::size_t bytes = std::clamp<std::size_t>(footprint, 4096, 8U << 20U);
  const std::vector<std::uint64_t> data(bytes / 8, 1);
  const std::size_t repeats = std::max<std::size_t>(1, (1U << 20U) / bytes);
  const base::steady_clock clock;
  double best = 0;
  for (int t = 0; t <= repetitions; ++t) {
    const auto start = clock.now_ns();
    for (std::size_t r = 0; r < repeats; ++r)
      sink_integer = sink_integer | read_all(data.data(), data.size());
    const auto ns = static_cast<double>(std::max<std::int64_t>(1, clock.now_ns() - start));
    best = std::max(best, static_cast<double>(bytes * repeats) / ns * 1e9);
  }
  return best;
}

double measure_flops() {
  constexpr std::int64_t rounds = 5000;
  const base::steady_clock clock;
  double best = 0;
  for (int t = 0; t <= repetitions; ++t) {
    const auto start = clock.now_ns();
    sink_float = multiply_add(rounds, 0.999F, 1e-3F);
    const auto ns = static_cast<double>(std::max<std::int64_t>(1, clock.now_ns() - start));
    best = std::max(best, 2.0 * 192 * static_cast<double>(rounds) / ns * 1e9);
  }
  return best;
}

}  // namespace quern::env
