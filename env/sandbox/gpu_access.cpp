// What a sandboxed process has to see of the host in order to use CUDA.
#include "env/sandbox/gpu_access.hpp"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include <sys/stat.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/text.hpp"

namespace quern::env {
namespace {

namespace fs = std::filesystem;

constexpr const char* driver_library = "libcuda.so.1";
// What libcuda.so.1 loads by itself: the compiler of PTX and its parts, and the management library.
constexpr const char* driver_parts[] = {"libnvidia-ptxjitcompiler.so.1", "libnvidia-nvvm.so.4",
                                        "libnvidia-ml.so.1"};
// Where drivers are put besides the loader's cache: distributions, containers, WSL, NixOS.
constexpr const char* driver_folders[] = {"/usr/lib/x86_64-linux-gnu",
                                          "/usr/lib/aarch64-linux-gnu",
                                          "/usr/lib64",
                                          "/usr/lib",
                                          "/usr/local/nvidia/lib64",
                                          "/usr/local/nvidia/lib",
                                          "/usr/lib/wsl/lib",
                                          "/run/opengl-driver/lib"};
// The driver asks these about processors, memory nodes and itself.
constexpr const char* system_files[] = {
    "/sys/devices/system/cpu",    "/sys/devices/system/node",
    "/sys/devices/system/memory", "/sys/bus/pci/devices",
    "/sys/module/nvidia",         "/sys/module/nvidia_uvm",
    "/sys/kernel/mm/hugepages",   "/sys/kernel/mm/transparent_hugepage"};

void add_once(std::vector<std::string>& to, const std::string& item) {
  if (std::find(to.begin(), to.end(), item) == to.end()) to.push_back(item);
}

bool exists(const std::string& path) {
  return access(path.c_str(), F_OK) == 0;
}

// The folder of a library, and where it is a link, the folder of the file.
void add_folders_of(std::vector<std::string>& to, const fs::path& library) {
  add_once(to, library.parent_path().string());
  std::error_code error;
  const fs::path real = fs::canonical(library, error);
  if (!error) add_once(to, real.parent_path().string());
}

struct found_library {
  std::string path;
  bool loader_knows = false;
};

found_library find_library(std::string_view cache, std::string_view name) {
  if (const std::string path = find_in_loader_cache(cache, name); !path.empty() && exists(path))
    return {path, true};
  std::vector<std::string> folders;
  if (const char* own = std::getenv("LD_LIBRARY_PATH"); own != nullptr)
    for (const auto folder : base::split(own, ':'))
      if (folder.starts_with('/')) folders.emplace_back(folder);
  folders.insert(folders.end(), std::begin(driver_folders), std::end(driver_folders));
  for (const auto& folder : folders)
    if (const std::string path = folder + "/" + std::string(name); exists(path))
      return {path, false};
  return {};
}

// "/proc/driver/nvidia/gpus/0000:3b:00.0/information" has a line "Device Minor: 	 0".
base::expected<int> minor_of(std::string bus_id) {
  std::transform(bus_id.begin(), bus_id.end(), bus_id.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  // CUDA writes the domain with eight digits in places, the kernel with four.
  if (bus_id.size() > 12) bus_id = bus_id.substr(bus_id.size() - 12);
  const fs::path file = fs::path("/proc/driver/nvidia/gpus") / bus_id / "information";
  constexpr std::string_view label = "Device Minor:";
  if (const auto text = base::read_file(file, 64 << 10))
    for (const auto line : base::split(*text, '\n'))
      if (line.starts_with(label))
        return std::atoi(std::string(base::trim(line.substr(label.size()))).c_str());
  return base::fail(base::errc::unavailable, "no GPU {} in /proc/driver/nvidia/gpus", bus_id);
}

std::vector<std::string> gpu_nodes() {
  std::vector<std::string> nodes;
  std::error_code error;
  for (const auto& item : fs::directory_iterator("/dev", error)) {
    const std::string name = item.path().filename().string();
    if (name.starts_with("nvidia") && name.size() > 6 &&
        std::all_of(name.begin() + 6, name.end(), [](unsigned char c) { return std::isdigit(c); }))
      nodes.push_back(item.path().string());
  }
  std::sort(nodes.begin(), nodes.end());
  return nodes;
}

base::status everybody_may_open(const std::vector<std::string>& devices) {
  for (const auto& path : devices) {
    struct stat info {};
    if (stat(path.c_str(), &info) != 0) return base::fail_errno("looking at " + path);
    if (S_ISCHR(info.st_mode) && (info.st_mode & 0006) != 0006)
      return base::fail(base::errc::unavailable,
                        "{} has mode {:o}: a sandboxed process is a user of its own and cannot "
                        "open it; chmod 0666 it (NVreg_DeviceFileMode of the driver)",
                        path, info.st_mode & 07777);
  }
  return {};
}

// The folders of NVIDIA's devices on the PCI bus: links in /sys/bus/pci/devices lead there.
void add_pci_folders(std::vector<std::string>& to) {
  std::error_code error;
  for (const auto& item : fs::directory_iterator("/sys/bus/pci/devices", error)) {
    const auto vendor = base::read_file(item.path() / "vendor", 64);
    if (!vendor || base::trim(*vendor) != "0x10de") continue;
    std::error_code gone;
    const fs::path real = fs::canonical(item.path(), gone);
    if (!gone) add_once(to, real.string());
  }
}

}  // namespace

std::string gpu_device_node(std::string_view bus_id) {
  const auto minor = minor_of(std::string(bus_id));
  const std::string node = minor ? "/dev/nvidia" + std::to_string(*minor) : "";
  return !node.empty() && exists(node) ? node : "";
}

base::expected<gpu_access> gpu_sandbox_paths(std::string_view bus_id) {
  if (!exists("/dev/nvidiactl"))
    return base::fail(base::errc::unavailable,
                      "no NVIDIA driver is loaded (/dev/nvidiactl is not there)");
  gpu_access result;
  result.devices = {"/dev/nvidiactl"};
  for (const char* path : {"/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"})
    if (exists(path)) result.devices.emplace_back(path);
  if (bus_id.empty()) {
    for (auto& node : gpu_nodes())
      result.devices.push_back(std::move(node));
  } else {
    QUERN_TRY(const int minor, minor_of(std::string(bus_id)));
    result.devices.push_back("/dev/nvidia" + std::to_string(minor));
  }
  QUERN_CHECK(everybody_may_open(result.devices));
  // Rights to parts of a GPU; only some of these are for everybody.
  std::error_code error;
  for (const auto& item : fs::directory_iterator("/dev/nvidia-caps", error))
    result.devices.push_back(item.path().string());

  const std::string cache = base::read_file("/etc/ld.so.cache").value_or("");
  const found_library driver = find_library(cache, driver_library);
  if (driver.path.empty())
    return base::fail(base::errc::unavailable,
                      "the driver is loaded, but {} is neither in /etc/ld.so.cache nor in "
                      "LD_LIBRARY_PATH nor where drivers usually put it",
                      driver_library);
  add_folders_of(result.read_only, driver.path);
  for (const char* part : driver_parts)
    if (const auto found = find_library(cache, part); !found.path.empty())
      add_folders_of(result.read_only, found.path);
  for (const char* path : system_files)
    if (exists(path)) result.read_only.emplace_back(path);
  add_pci_folders(result.read_only);
  if (!driver.loader_knows)
    result.env.push_back("LD_LIBRARY_PATH=" + fs::path(driver.path).parent_path().string());
  result.env.emplace_back("CUDA_CACHE_DISABLE=1");
  return result;
}

// A cache lists other architectures' libraries too.
#if defined(__x86_64__)
constexpr std::uint32_t native_flags = 0x0300;
#elif defined(__aarch64__)
constexpr std::uint32_t native_flags = 0x0A00;
#endif

// glibc's format 1.1: a header with the number of entries, entries of 24 bytes, then strings; their
// offsets count from the header, which older systems put behind a list in the old format.
std::string find_in_loader_cache(std::string_view cache, std::string_view library) {
  constexpr std::string_view magic = "glibc-ld.so.cache1.1";
  constexpr std::size_t header_bytes = 48, entry_bytes = 24, key_at = 4, value_at = 8;
  const std::size_t begin = cache.find(magic);
  if (begin == std::string_view::npos) return "";
  cache.remove_prefix(begin);
  const auto number = [&](std::size_t at) {
    std::uint32_t value = 0;
    if (at + sizeof value <= cache.size()) std::memcpy(&value, cache.data() + at, sizeof value);
    return value;
  };
  const auto text = [&](std::size_t at) -> std::string_view {
    if (at >= cache.size()) return {};
    const std::size_t end = cache.find('\0', at);
    return end == std::string_view::npos ? std::string_view() : cache.substr(at, end - at);
  };
  const std::uint32_t entries = number(magic.size());
  for (std::uint32_t i = 0; i < entries; ++i) {
    const std::size_t entry = header_bytes + std::size_t{i} * entry_bytes;
    if (entry + entry_bytes > cache.size()) return "";
    if ((number(entry) & 0xFF00U) == native_flags && text(number(entry + key_at)) == library)
      return std::string(text(number(entry + value_at)));
  }
  return "";
}

}  // namespace quern::env
