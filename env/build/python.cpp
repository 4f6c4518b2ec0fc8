// Where Python is.
#include "env/build/python.hpp"

#include <cstdlib>

#include <unistd.h>

#include "base/file.hpp"
#include "base/program.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"

namespace quern::env {
namespace {

constexpr base::nanoseconds_t import_wait_ns = 180'000'000'000;
constexpr std::size_t most_said = 16 * 1024;

}  // namespace

std::vector<std::filesystem::path> python_programs(std::span<const std::string_view> names) {
  namespace fs = std::filesystem;
  if (const char* named = std::getenv("QUERN_PYTHON"); named != nullptr && *named != '\0')
    return {named};
  std::vector<fs::path> found;
  const auto look = [&](const fs::path& program) {
    if (access(program.c_str(), X_OK) == 0) found.push_back(program);
  };
  for (const std::string_view name : names)
    for (fs::path at = base::program_folder(); at.has_relative_path(); at = at.parent_path())
      look(at / name / "bin/python3");
  if (const char* value = std::getenv("VIRTUAL_ENV"); value != nullptr && *value == '/')
    look(fs::path(value) / "bin/python3");
  const char* path = std::getenv("PATH");
  for (const auto folder : base::split(path != nullptr ? path : "/usr/bin", ':'))
    if (folder.starts_with('/')) look(fs::path(folder) / "python3");
  return found;
}

base::expected<std::string> last_line_of(const std::vector<std::string>& argv) {
  QUERN_TRY(const auto folder, base::temp_folder::make_held(python_folder_prefix));
  const std::filesystem::path log = folder.path() / "said";
  QUERN_TRY(auto child, base::subprocess::start({.argv = argv, .log = log}));
  const auto ended = child.wait(import_wait_ns);
  const std::string said = base::read_file(log, most_said).value_or("");
  const auto lines = base::split(base::trim(said), '\n');
  const std::string last(lines.empty() ? "" : lines.back());
  if (!ended) return base::fail(base::errc::timeout, "no answer in three minutes");
  if (ended->code != 0 || ended->signal != 0)
    return base::fail(base::errc::unavailable, "{}", last.empty() ? base::describe(*ended) : last);
  return last;
}

}  // namespace quern::env
