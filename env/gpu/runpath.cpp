// Where the loader looks for the libraries of a program.
#include "env/gpu/runpath.hpp"

#include <string>

#include "base/file.hpp"
#include "base/text.hpp"
#include "env/gpu/dynamic_section.hpp"

namespace quern::env {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t largest_program = std::size_t{1} << 30;

/// A sandbox shows a link as a link: what it points to must be there, too.
void add_with_target(std::vector<fs::path>& to, const fs::path& folder) {
  to.push_back(folder);
  std::error_code code;
  if (!fs::is_symlink(folder, code)) return;
  if (auto target = fs::canonical(folder, code); !code) to.push_back(std::move(target));
}

}  // namespace

std::vector<fs::path> run_path_of(std::string_view file, const fs::path& folder) {
  std::vector<fs::path> result;
  for (const auto item : base::split(read_dynamic_section(file).run_path, ':')) {
    std::string text(item);
    for (const std::string_view origin : {"${ORIGIN}", "$ORIGIN"})
      if (const auto at = text.find(origin); at != std::string::npos)
        text.replace(at, origin.size(), folder.string());
    if (text.starts_with('/')) result.push_back(fs::path(text).lexically_normal());
  }
  return result;
}

base::expected<std::vector<fs::path>> torch_library_folders(const fs::path& program) {
  QUERN_TRY(const std::string bytes, base::read_file(program, largest_program));
  std::vector<fs::path> result;
  for (const auto& folder : run_path_of(bytes, program.parent_path())) {
    std::error_code code;
    if (!fs::is_directory(folder, code)) continue;
    add_with_target(result, folder);
    // ".../site-packages/torch/lib" and ".../site-packages/nvidia": LibTorch's own run path leads
    // there.
    const auto wheels = (folder / "../../nvidia").lexically_normal();
    if (fs::exists(folder / "libtorch_cpu.so", code) && fs::is_directory(wheels, code))
      add_with_target(result, wheels);
  }
  return result;
}

}  // namespace quern::env
