// Names that the driver tells, and classes made of them.
#include "env/device/gpu_class.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <functional>
#include <vector>

#include "base/file.hpp"
#include "base/text.hpp"
#include "env/device/gpu_probe.hpp"

namespace quern::env {
namespace {

/// Names of the GPUs by PCI address, which is the driver's order: what it tells without CUDA.
std::vector<std::string> gpu_names() {
  std::vector<std::pair<std::string, std::string>> found;
  std::error_code code;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/driver/nvidia/gpus", code)) {
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

}  // namespace

std::string gpu_device_class(std::string_view name) {
  constexpr std::string_view maker = "NVIDIA ";
  if (name.starts_with(maker)) name.remove_prefix(maker.size());
  // As the contract writes it: the form factor where the driver's name leaves it out.
  if (name == "H200") return "H200-SXM";
  if (name == "H100 80GB HBM3") return "H100-SXM";
  std::string result;
  for (const char c : name)
    result += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '-';
  return result;
}

std::optional<double> peak_bf16_flops(std::string_view device_class) {
  struct known {
    std::string_view device_class;
    double flops;
  };
  // Of NVIDIA's data sheets, without sparsity.
  constexpr known peaks[] = {
      {"H200-SXM", 989.4e12},     {"H100-SXM", 989.4e12},     {"H100-PCIe", 756e12},
      {"A100-SXM4-80GB", 312e12}, {"A100-SXM4-40GB", 312e12}, {"A100-80GB-PCIe", 312e12},
      {"A100-PCIE-40GB", 312e12}, {"L40S", 362e12},           {"B200", 2250e12}};
  for (const known& one : peaks)
    if (one.device_class == device_class) return one.flops;
  return std::nullopt;
}

base::expected<std::string> gpu_device_class_of(int number) {
  if (!has_nvidia_driver())
    return base::fail(base::errc::unavailable,
                      "no NVIDIA driver is loaded here (no /dev/nvidiactl)");
  std::vector<std::string> names = gpu_names();
  // A container may show other GPUs there than it has: with more than one kind, CUDA is asked.
  const bool alike =
      std::adjacent_find(names.begin(), names.end(), std::not_equal_to<>()) == names.end();
  const auto at = static_cast<std::size_t>(number);
  if (names.empty() || !alike || at >= names.size()) {
    QUERN_TRY(const auto host, list_gpus());
    names.clear();
    for (const auto& gpu : host.gpus)
      names.push_back(gpu.name);
  }
  if (at < names.size()) return gpu_device_class(names[at]);
  return base::fail(base::errc::unavailable,
                    "GPU {} is asked for, this machine has {}, counted "
                    "from 0",
                    number, names.size());
}

}  // namespace quern::env
