// Where CUDA's compilers lie on this machine.
#include "env/build/cuda_toolkit.hpp"

#include <algorithm>
#include <cstdlib>
#include <optional>

#include <unistd.h>

#include "base/program.hpp"
#include "base/text.hpp"

namespace quern::env {
namespace {

namespace fs = std::filesystem;

constexpr const char* nvrtc_names[] = {"libnvrtc.so.13", "libnvrtc.so.12"};
constexpr std::string_view architectures[] = {
    "sm_75",   "sm_80",  "sm_86",   "sm_87",  "sm_88",   "sm_89",  "sm_90",   "sm_90a", "sm_100",
    "sm_100a", "sm_103", "sm_103a", "sm_110", "sm_110a", "sm_120", "sm_120a", "sm_121", "sm_121a"};

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

// Empty: nothing of a toolkit there.
std::optional<cuda_toolkit> look_in(const fs::path& folder) {
  std::error_code error;
  cuda_toolkit found;
  found.root = fs::canonical(folder, error);
  if (error) return std::nullopt;
  found.include = found.root / "include";
  if (!is_file(found.include / "cuda_runtime.h")) return std::nullopt;
  // NVIDIA's packages have a link there, and a sandbox shows what is asked for, not where it leads.
  std::error_code gone;
  if (auto real = fs::canonical(found.include, gone); !gone) found.include = std::move(real);
  for (const char* lib : {"lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib"})
    for (const char* name : nvrtc_names)
      if (const fs::path path = found.root / lib / name; found.nvrtc.empty() && is_file(path))
        found.nvrtc = path;
  if (const fs::path nvcc = found.root / "bin/nvcc"; access(nvcc.c_str(), X_OK) == 0)
    found.nvcc = nvcc;
  if (found.nvrtc.empty() && found.nvcc.empty()) return std::nullopt;
  return found;
}

void add_wheels(std::vector<fs::path>& to, const fs::path& prefix) {
  for (const char* lib : {"lib", "local/lib"}) {
    std::error_code error;
    for (const auto& item : fs::directory_iterator(prefix / lib, error))
      if (item.path().filename().string().starts_with("python3"))
        for (const char* packages : {"site-packages", "dist-packages"})
          to.push_back(item.path() / packages / "nvidia/cu13");
  }
}

std::vector<fs::path> places() {
  std::vector<fs::path> all;
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"})
    if (const char* value = std::getenv(name); value != nullptr && *value == '/')
      all.emplace_back(value);
  all.emplace_back("/usr/local/cuda");
  std::vector<fs::path> pythons;
  const char* path = std::getenv("PATH");
  for (const auto folder : base::split(path != nullptr ? path : "/usr/bin", ':')) {
    if (!folder.starts_with('/')) continue;
    std::error_code error;
    const fs::path nvcc = fs::canonical(fs::path(folder) / "nvcc", error);
    if (!error) all.push_back(nvcc.parent_path().parent_path());
    // A virtual environment's python3 is a link out of it, so its folder counts, not its file.
    if (access((fs::path(folder) / "python3").c_str(), X_OK) == 0)
      pythons.push_back(fs::path(folder).parent_path());
  }
  for (fs::path at = base::program_folder(); at.has_relative_path(); at = at.parent_path())
    add_wheels(all, at / ".venv");
  if (const char* value = std::getenv("VIRTUAL_ENV"); value != nullptr && *value == '/')
    add_wheels(all, value);
  for (const auto& prefix : pythons)
    add_wheels(all, prefix);
  return all;
}

}  // namespace

std::vector<fs::path> cuda_toolkit::include_folders() const {
  std::vector<fs::path> folders{include};
  std::error_code error;
  if (fs::is_directory(include / "cccl", error)) folders.push_back(include / "cccl");
  return folders;
}

fs::path cuda_toolkit::library_folder() const {
  for (const char* lib : {"lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib"}) {
    std::error_code error;
    // What a sandbox shows, and what a program is told, is where the links lead.
    if (fs::is_directory(root / lib, error)) return fs::canonical(root / lib, error);
  }
  return root / "lib";
}

std::vector<std::string> cuda_toolkit::nvrtc_files() const {
  std::vector<std::string> files;
  std::error_code error;
  for (const auto& item : fs::directory_iterator(nvrtc.parent_path(), error)) {
    const std::string name = item.path().filename().string();
    if (name.starts_with("libnvrtc") && name.find(".so") != name.npos &&
        name.find(".alt.") == name.npos)
      files.push_back(item.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

base::expected<cuda_toolkit> find_cuda_toolkit(const fs::path& root) {
  if (!root.empty()) {
    if (auto found = look_in(root)) return *found;
    return base::fail(base::errc::not_found,
                      "{} is no CUDA toolkit: it needs include/cuda_runtime.h and bin/nvcc or "
                      "lib/libnvrtc.so.13",
                      root.string());
  }
  std::optional<cuda_toolkit> partly;
  std::string looked;
  for (const fs::path& place : places()) {
    const auto found = look_in(place);
    if (found && !found->nvrtc.empty() && !found->nvcc.empty()) return *found;
    if (found && !partly) partly = found;
    looked += (looked.empty() ? "" : ", ") + place.string();
  }
  if (partly) return *partly;
  return base::fail(base::errc::not_found,
                    "no CUDA compiler on this machine (looked in {}): run tools/setup.sh --cuda, "
                    "or install CUDA 13 and set CUDA_HOME",
                    looked);
}

bool is_cuda_architecture(std::string_view name) {
  return std::find(std::begin(architectures), std::end(architectures), name) !=
         std::end(architectures);
}

std::string cuda_architecture_for(int major, int minor) {
  const std::string plain = fmt::format("sm_{}{}", major, minor);
  if (is_cuda_architecture(plain + "a")) return plain + "a";
  return is_cuda_architecture(plain) ? plain : "";
}

}  // namespace quern::env
