#include "base/program.hpp"

#include <cstdlib>
#include <system_error>

#include <unistd.h>

#include "base/file.hpp"
#include "base/hash.hpp"

namespace quern::base {
namespace fs = std::filesystem;
namespace {

/// Static objects are made before main.
const nanoseconds_t program_start = steady_clock().now_ns();

}  // namespace

nanoseconds_t started_ns() {
  return program_start;
}

fs::path program_folder() {
  std::error_code code;
  const fs::path self = fs::read_symlink("/proc/self/exe", code);
  return code ? fs::current_path(code) : self.parent_path();
}

expected<fs::path> sibling_program(std::string_view name) {
  const fs::path path = program_folder() / name;
  if (::access(path.c_str(), X_OK) == 0) return path;
  return fail(errc::not_found, "program {} is not at {}: build or install all of Quern", name,
              path.string());
}

expected<fs::path> share_folder(std::string_view name) {
  std::error_code code;
  if (const char* share = std::getenv("QUERN_SHARE"); share != nullptr && *share != '\0') {
    if (fs::path path = fs::path(share) / name; fs::is_directory(path, code)) return path;
  }
  if (fs::path path = program_folder() / "../share/quern" / name; fs::is_directory(path, code)) {
    return fs::weakly_canonical(path, code);
  }
  for (fs::path folder = program_folder(); folder.has_relative_path();
       folder = folder.parent_path()) {
    const bool is_source_tree = fs::exists(folder / "CMakePresets.json", code);
    if (fs::path path = folder / name; is_source_tree && fs::is_directory(path, code)) return path;
  }
  return fail(errc::not_found,
              "data folder '{}' not found from {}: set QUERN_SHARE to the folder that has it", name,
              program_folder().string());
}

std::string build_id() {
  static const std::string id = [] {
    hasher all;
    for (const char* name : {"quern", "quern-torch", "quern-runner"}) {
      const auto program = read_file(program_folder() / name, 512U << 20U);
      all.add(program.value_or(""));
    }
    return "quern-0.1.0+" + to_hex(all.digest()).substr(0, 12);
  }();
  return id;
}

}  // namespace quern::base
