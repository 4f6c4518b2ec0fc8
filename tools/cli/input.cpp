#include "tools/cli/input.hpp"

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

}  // namespace quern::tools
