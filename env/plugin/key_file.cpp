// Reading and writing keys.
#include "env/plugin/key_file.hpp"

#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>

#include "base/file.hpp"
#include "base/text.hpp"

namespace quern::env {
namespace {

using base::errc;
using base::fail;

constexpr std::size_t key_length = 40;
constexpr std::size_t largest_file = 1U << 20U;

bool is_key(std::string_view text) {
  constexpr std::string_view z85 =
      "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";
  return text.size() == key_length && text.find_first_not_of(z85) == std::string_view::npos;
}

}  // namespace

base::expected<curve_keys> make_key_file(const std::filesystem::path& file) {
  QUERN_TRY(const curve_keys keys, make_curve_keys());
  const base::unique_fd opened(
      open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!opened && errno == EEXIST) {
    return fail(errc::already_exists,
                "{} is there already: a key is never overwritten; choose another "
                "name or delete it",
                file.string());
  }
  if (!opened && (errno == ENOENT || errno == ENOTDIR))
    return fail(errc::not_found, "cannot make {}: its folder is not there; make it first",
                file.string());
  if (!opened) return base::fail_errno("cannot make " + file.string());
  QUERN_CHECK(base::write_all(opened.get(), keys.public_key + "\n" + keys.secret_key + "\n"));
  return keys;
}

base::expected<curve_keys> read_key_file(const std::filesystem::path& file) {
  QUERN_TRY(const std::string text, base::read_file(file, largest_file));
  struct stat info {};
  if (stat(file.c_str(), &info) == 0 && (info.st_mode & 077) != 0) {
    return fail(errc::invalid_argument,
                "{} has a secret key and may be read by others: chmod 600 {}", file.string(),
                file.string());
  }
  const auto lines = base::split(text, '\n');
  if (lines.size() < 2 || !is_key(lines[0]) || !is_key(lines[1])) {
    return fail(errc::invalid_argument,
                "{}: two lines of {} characters are needed, public key and secret key; quern keys "
                "makes such a file",
                file.string(), key_length);
  }
  return curve_keys{std::string(lines[0]), std::string(lines[1])};
}

base::status check_public_key(std::string_view text) {
  if (is_key(text)) return {};
  return fail(errc::invalid_argument,
              "'{}' is no public key: {} characters (Z85) are needed, the first line of a key file "
              "that quern keys makes",
              text, key_length);
}

base::expected<std::set<std::string>> read_public_keys(const std::filesystem::path& file) {
  QUERN_TRY(const std::string text, base::read_file(file, largest_file));
  std::set<std::string> keys;
  int number = 0;
  for (const std::string_view whole : base::split(text, '\n')) {
    ++number;
    const std::string_view line = base::trim(whole);
    if (line.empty() || line.starts_with("# ") || line == "#") continue;
    const std::string_view key = line.substr(0, line.find(' '));
    if (!is_key(key)) {
      return fail(errc::invalid_argument,
                  "{}:{}: '{}' is no public key of {} characters, as "
                  "quern keys prints one",
                  file.string(), number, key, key_length);
    }
    keys.emplace(key);
  }
  if (keys.empty()) {
    return fail(errc::invalid_argument,
                "{} lists no public key: no host could connect; write "
                "those of the hosts, one a line",
                file.string());
  }
  return keys;
}

}  // namespace quern::env
