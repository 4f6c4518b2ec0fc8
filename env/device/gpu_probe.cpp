#include "env/device/gpu_probe.hpp"

#include <array>
#include <filesystem>

#include <dlfcn.h>
#include <unistd.h>

#include "base/program.hpp"
#include "env/device/cuda_part.h"
#include "env/device/part_build.hpp"

namespace quern::env {
namespace {

using base::errc;
using base::fail;

constexpr std::size_t most_gpus = 64;

struct cuda_part {
  decltype(&quern_cuda_probe) probe = nullptr, list = nullptr;
  decltype(&quern_cuda_versions) versions = nullptr;
};

base::expected<cuda_part> load_cuda_part(const std::filesystem::path& path) {
  std::error_code code;
  if (!std::filesystem::exists(path, code)) {
    return fail(errc::unavailable,
                "this build has no CUDA part ({} is not there): nvcc was not found when it was "
                "configured; run tools/setup.sh, then cmake --fresh",
                path.string());
  }
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return fail(errc::unavailable, "{}", ::dlerror());
  std::array<char, 512> other{};
  if (!is_of_this_build(library, cuda_build_function, path.c_str(), cuda_part_build(), other.data(),
                        other.size()))
    return fail(errc::unavailable, "{}", other.data());
  cuda_part part;
  part.probe = reinterpret_cast<decltype(part.probe)>(::dlsym(library, "quern_cuda_probe"));
  part.list = reinterpret_cast<decltype(part.list)>(::dlsym(library, "quern_cuda_list"));
  part.versions =
      reinterpret_cast<decltype(part.versions)>(::dlsym(library, "quern_cuda_versions"));
  if (part.probe == nullptr || part.list == nullptr || part.versions == nullptr)
    return fail(errc::unavailable, "{} is of another build", path.string());
  return part;
}

std::string version_text(std::int32_t version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

gpu_facts facts_of(const quern_gpu& gpu) {
  return {gpu.name,         gpu.bus_id,     gpu.major,  gpu.minor, gpu.multiprocessors,
          gpu.memory_bytes, gpu.free_bytes, gpu.problem};
}

/// By `ask`, the part's function for it.
base::expected<gpu_host> gpus_by(const std::filesystem::path& library,
                                 decltype(&quern_cuda_probe) cuda_part::*ask) {
  QUERN_TRY(const cuda_part cuda, load_cuda_part(library));
  std::array<quern_gpu, most_gpus> found{};
  std::array<char, 512> problem{};
  const std::int32_t count = (cuda.*ask)(found.data(), most_gpus, problem.data(),
                                         static_cast<std::int32_t>(problem.size()));
  if (count < 0) return fail(errc::unavailable, "{}", problem.data());
  std::int32_t driver = 0, built_with = 0;
  cuda.versions(&driver, &built_with);
  gpu_host host{version_text(driver), version_text(built_with), {}};
  for (std::size_t i = 0; i < std::min<std::size_t>(static_cast<std::size_t>(count), most_gpus);
       ++i)
    host.gpus.push_back(facts_of(found[i]));
  return host;
}

base::expected<gpu_host> gpus_of_this_build(decltype(&quern_cuda_probe) cuda_part::*ask) {
  if (!has_nvidia_driver())
    return fail(errc::unavailable, "no NVIDIA driver is loaded (/dev/nvidiactl is not there)");
  return gpus_by(base::program_folder() / "libquern_cuda.so", ask);
}

}  // namespace

bool has_nvidia_driver() {
  return ::access("/dev/nvidiactl", F_OK) == 0;
}

base::expected<gpu_host> probe_gpus() {
  return gpus_of_this_build(&cuda_part::probe);
}

base::expected<gpu_host> list_gpus() {
  return gpus_of_this_build(&cuda_part::list);
}

base::expected<gpu_host> probe_gpus_by(const std::filesystem::path& library) {
  return gpus_by(library, &cuda_part::probe);
}

}  // namespace quern::env
