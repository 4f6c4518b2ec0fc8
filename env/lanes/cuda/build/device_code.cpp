// The artefact of a candidate in device-only form.
#include "env/lanes/cuda/build/device_code.hpp"

#include <charconv>

namespace quern::env {
namespace {

constexpr std::string_view title = "quern_device_code ";
constexpr std::string_view format_version = "1";

bool is_plain(std::string_view text) {
  return !text.empty() && text.find_first_of(std::string_view("\t\n\0", 3)) == text.npos;
}

auto damaged(std::string_view what) {
  return base::fail(base::errc::corrupt, "a file of device code is damaged: {}", what);
}

class line_reader {
 public:
  explicit line_reader(std::string_view text) : text_(text) {}

  base::expected<std::string_view> line() {
    const std::size_t end = text_.find('\n', at_);
    if (end == std::string_view::npos) return damaged("a line does not end");
    const auto result = text_.substr(at_, end - at_);
    at_ = end + 1;
    return result;
  }
  base::expected<std::string_view> value(std::string_view label) {
    QUERN_TRY(const auto whole, line());
    if (!whole.starts_with(label)) return damaged(fmt::format("no '{}'", label));
    return whole.substr(label.size());
  }
  base::expected<std::size_t> number(std::string_view label, std::size_t most) {
    QUERN_TRY(const auto digits, value(label));
    std::size_t result = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), result);
    if (digits.empty() || error != std::errc() || end != digits.data() + digits.size() ||
        result > most || (digits.size() > 1 && digits[0] == '0'))
      return damaged(fmt::format("'{}' is no number up to {}", label, most));
    return result;
  }
  [[nodiscard]] std::size_t at() const { return at_; }

 private:
  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

base::expected<std::string> write_device_code(const device_code& what, std::string_view code) {
  if (what.kernels.size() > most_device_kernels)
    return base::fail(base::errc::invalid_argument, "{} kernels; a candidate has at most {}",
                      what.kernels.size(), most_device_kernels);
  if (!is_plain(what.architecture))
    return base::fail(base::errc::invalid_argument, "'{}' is no architecture", what.architecture);
  std::string file = fmt::format("{}{}\narchitecture {}\nkernels {}\n", title, format_version,
                                 what.architecture, what.kernels.size());
  for (const auto& kernel : what.kernels) {
    if (!is_plain(kernel.name) || !is_plain(kernel.symbol))
      return base::fail(base::errc::invalid_argument,
                        "the name of a kernel is empty, or has a tab, a line end or a zero in it");
    file += kernel.name + '\t' + kernel.symbol + '\n';
  }
  file += fmt::format("code {}\n", code.size());
  file += code;
  return file;
}

base::expected<device_code> read_device_code(std::string_view file) {
  line_reader reader(file);
  QUERN_TRY(const auto found, reader.value(title));
  if (found != format_version)
    return base::fail(base::errc::version,
                      "device code of version '{}', this build reads {}: compile it again",
                      found.substr(0, 16), format_version);
  device_code result;
  QUERN_TRY(const auto architecture, reader.value("architecture "));
  if (!is_plain(architecture)) return damaged("no architecture");
  result.architecture = architecture;
  QUERN_TRY(const auto kernels, reader.number("kernels ", most_device_kernels));
  for (std::size_t i = 0; i < kernels; ++i) {
    QUERN_TRY(const auto line, reader.line());
    const std::size_t tab = line.find('\t');
    if (tab == std::string_view::npos || !is_plain(line.substr(0, tab)) ||
        !is_plain(line.substr(tab + 1)))
      return damaged("a kernel without a name or a symbol");
    result.kernels.push_back({std::string(line.substr(0, tab)), std::string(line.substr(tab + 1))});
  }
  QUERN_TRY(result.bytes, reader.number("code ", file.size()));
  result.offset = reader.at();
  if (file.size() - result.offset != result.bytes)
    return damaged(fmt::format("{} bytes of code, the file has {}", result.bytes,
                               file.size() - result.offset));
  return result;
}

}  // namespace quern::env
