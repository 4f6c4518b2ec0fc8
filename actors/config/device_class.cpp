#include "actors/config/device_class.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "base/file.hpp"
#include "base/text.hpp"
#include "env/device/gpu_probe.hpp"
#include "env/judge/machine.hpp"
#include "env/lanes/cuda/cuda_evaluator.hpp"

namespace quern::actors {
namespace {

namespace fs = std::filesystem;

/// Names of the GPUs by PCI address, which is the driver's order: what it tells without CUDA.
std::vector<std::string> gpu_names() {
  std::vector<std::pair<std::string, std::string>> found;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator("/proc/driver/nvidia/gpus", code)) {
    const auto text = base::read_file(entry.path() / "information", 1 << 16);
    if (!text) continue;
    for (const std::string_view line : base::split(*text, '\n')) {
      if (line.starts_with("Model:"))
        found.emplace_back(entry.path().filename().string(), base::trim(line.substr(6)));
    }
  }
  std::sort(found.begin(), found.end());
  std::vector<std::string> names;
  for (auto& [address, name] : found)
    names.push_back(std::move(name));
  return names;
}

base::expected<std::string> gpu_name(int number) {
  std::vector<std::string> names = gpu_names();
  // A container may show other GPUs there than it has: with more than one kind, CUDA is asked.
  const bool alike =
      std::adjacent_find(names.begin(), names.end(), std::not_equal_to<>()) == names.end();
  if (names.empty() || !alike || static_cast<std::size_t>(number) >= names.size()) {
    QUERN_TRY(const auto host, env::probe_gpus());
    names.clear();
    for (const auto& gpu : host.gpus)
      names.push_back(gpu.name);
  }
  if (static_cast<std::size_t>(number) < names.size())
    return names[static_cast<std::size_t>(number)];
  return base::fail(base::errc::unavailable,
                    "env.gpus begins with GPU {}, this machine has {}, counted "
                    "from 0: name another one, or the class in env.device_class",
                    number, names.size());
}

}  // namespace

env::lane lane_of(const run_config& config) {
  return config.env.lane == "cuda" ? env::lane::cuda : env::lane::cpp;
}

base::expected<std::vector<int>> gpus_of(const run_config& config) {
  std::vector<int> gpus;
  for (const std::string_view part : base::split(config.env.gpus, ',')) {
    const std::string_view word = base::trim(part);
    int number = -1;
    const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (code != std::errc() || end != word.data() + word.size() || number < 0 || number > 63)
      return base::fail(base::errc::invalid_argument,
                        "env.gpus is '{}': numbers from 0 to 63 with commas between are needed",
                        config.env.gpus);
    gpus.push_back(number);
  }
  return gpus;
}

base::expected<std::string> device_class_of(const run_config& config) {
  if (lane_of(config) == env::lane::cpp) return env::cpu_device_class();
  if (!config.env.device_class.empty()) return config.env.device_class;
  QUERN_TRY(const std::vector<int> gpus, gpus_of(config));
  if (!env::has_nvidia_driver())
    return base::fail(base::errc::unavailable,
                      "env.lane is cuda, but no NVIDIA driver is loaded here (no /dev/nvidiactl): "
                      "use a machine with a GPU, or name the class of the evaluators' GPUs in "
                      "env.device_class (quern doctor tells it there)");
  QUERN_TRY(const std::string name, gpu_name(gpus.front()));
  return env::gpu_device_class(name);
}

}  // namespace quern::actors
