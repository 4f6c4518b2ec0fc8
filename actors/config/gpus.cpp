#include "actors/config/gpus.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <optional>
#include <string_view>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "actors/config/learner_setup.hpp"
#include "actors/config/placement.hpp"
#include "base/clock.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "env/device/gpu_probe.hpp"

namespace quern::actors {
namespace {

using base::operator""_s;

/// Longer than eight GPUs take to be listed; a driver that hangs is for the run to find.
constexpr base::nanoseconds_t listing_patience = 60_s;

/// Sizes, each behind a space: what the child writes.
[[noreturn]] void tell_sizes(int to) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::string text;
  if (const auto host = env::list_gpus())
    for (const env::gpu_facts& gpu : host->gpus)
      text += fmt::format(" {}", gpu.memory_bytes);
  (void)base::write_all(to, text);
  ::_exit(0);
}

/// What comes before the end of the pipe; none where that does not come in time.
std::optional<std::string> read_told(int from) {
  const base::steady_clock clock;
  const base::nanoseconds_t deadline = clock.now_ns() + listing_patience;
  std::string text;
  std::array<char, 4096> part{};
  for (;;) {
    const base::nanoseconds_t left = deadline - clock.now_ns();
    if (left <= 0) return std::nullopt;
    pollfd one{from, POLLIN, 0};
    const int ready = ::poll(&one, 1, static_cast<int>(left / 1'000'000 + 1));
    if (ready < 0 && errno != EINTR) return std::nullopt;
    if (ready <= 0) continue;
    const ssize_t got = ::read(from, part.data(), part.size());
    if (got == 0) return text;
    if (got > 0) text.append(part.data(), static_cast<std::size_t>(got));
    if (got < 0 && errno != EINTR) return std::nullopt;
  }
}

std::vector<std::int64_t> ask_gpu_memory() {
  std::array<int, 2> ends{};
  if (!env::has_nvidia_driver() || ::pipe2(ends.data(), O_CLOEXEC) != 0) return {};
  const base::unique_fd from(ends[0]);
  base::unique_fd to(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) return {};
  if (child == 0) tell_sizes(to.get());
  to.reset();
  const auto told = read_told(from.get());
  ::kill(child, SIGKILL);
  // One that hangs in the driver may not end even now; nobody waits for it.
  while (::waitpid(child, nullptr, told ? 0 : WNOHANG) < 0 && errno == EINTR) {
  }
  std::vector<std::int64_t> sizes;
  if (!told) return sizes;
  for (const std::string_view word : base::split(*told, ' '))
    if (!word.empty()) sizes.push_back(std::atoll(std::string(word).c_str()));
  return sizes;
}

}  // namespace

std::int64_t gpus_shown() {
  std::error_code none;
  const std::filesystem::directory_iterator all("/proc/driver/nvidia/gpus", none);
  const auto shown = none ? 0 : std::distance(begin(all), end(all));
  const char* allotted = std::getenv("CUDA_VISIBLE_DEVICES");
  if (shown == 0 || allotted == nullptr) return shown;
  return std::ssize(base::split(allotted, ','));
}

const std::vector<std::int64_t>& gpu_memory() {
  static const std::vector<std::int64_t> sizes = ask_gpu_memory();
  return sizes;
}

base::expected<std::string> only_gpu(std::int64_t number, const std::string& host) {
  const char* allotted = std::getenv("CUDA_VISIBLE_DEVICES");
  if (!host.empty() || allotted == nullptr) return fmt::format("CUDA_VISIBLE_DEVICES={}", number);
  const auto names = base::split(allotted, ',');
  if (static_cast<std::size_t>(number) >= names.size())
    return base::fail(base::errc::invalid_argument,
                      "GPU {} is asked for, but CUDA_VISIBLE_DEVICES is '{}': numbers count within "
                      "it, from 0",
                      number, allotted);
  return fmt::format("CUDA_VISIBLE_DEVICES={}",
                     base::trim(names[static_cast<std::size_t>(number)]));
}

base::status check_gpu_numbers(const run_config& config, std::int64_t there) {
  const auto check = [&](std::string_view key, std::int64_t number) -> base::status {
    if (number < there) return {};
    return base::fail(base::errc::invalid_argument,
                      "{} asks for GPU {}, but {} here, counted from 0: take another number, or "
                      "fewer learner.ranks",
                      key, number, there == 1 ? "1 is" : fmt::format("{} are", there));
  };
  QUERN_TRY(const placement where, placement_of(config));
  QUERN_TRY(const auto devices, learner_devices(config));
  for (std::size_t rank = 0; rank < devices.size(); ++rank)
    if (config.learner.device == "cuda" && where.ranks[rank].empty())
      QUERN_CHECK(check("learner.devices", devices[rank]));
  if (config.stage != "sft" && config.actors.generator_device == "cuda" && where.generator.empty())
    QUERN_CHECK(check("actors.generator_gpu", config.actors.generator_gpu));
  QUERN_TRY(const auto measuring, measuring_gpus(config, ""));
  for (const int gpu : measuring)
    QUERN_CHECK(check("env.gpus", gpu));
  return {};
}

}  // namespace quern::actors
