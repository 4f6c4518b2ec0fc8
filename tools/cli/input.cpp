#include "tools/cli/input.hpp"

#include <filesystem>
#include <iostream>

#include "base/file.hpp"

namespace quern::tools {

base::expected<std::string> read_input(const std::string& file, std::size_t most,
                                       const char* what) {
  if (file != "-") return base::read_file(file, most);
  std::string text(most + 1, '\0');
  std::cin.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(std::cin.gcount()));
  if (text.size() > most)
    return base::fail(base::errc::invalid_argument,
                      "standard input has more than the {} bytes that {} may have", most, what);
  return text;
}

base::status check_output_file(std::string_view name, const std::string& file) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::path path(file), folder = path.has_parent_path() ? path.parent_path() : ".";
  const fs::file_status there = fs::symlink_status(path, ignored);
  if (fs::is_directory(there))
    return base::fail(base::errc::invalid_argument,
                      "{} is '{}', which is a folder: name a file in it", name, file);
  if (fs::exists(there) && !fs::is_regular_file(there))
    return base::fail(base::errc::invalid_argument,
                      "{} is '{}', which is no regular file and would be replaced: name a new file",
                      name, file);
  if (!fs::is_directory(folder, ignored))
    return base::fail(base::errc::invalid_argument,
                      "{} is '{}', but there is no folder '{}': make it, or name another file",
                      name, file, folder.string());
  return {};
}

}  // namespace quern::tools
