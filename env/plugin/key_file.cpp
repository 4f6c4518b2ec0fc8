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

base::status already_there(const std::filesystem::path& file) {
  return fail(errc::already_exists,
              "{} is there already: a key is never overwritten; choose another name or delete it",
              file.string());
}

base::status check_absent(const std::filesystem::path& file) {
  std::error_code ignored;
  if (std::filesystem::symlink_status(file, ignored).type() !=
      std::filesystem::file_type::not_found)
    return already_there(file);
  return {};
}

base::status write_new_file(const std::filesystem::path& file, mode_t mode,
                            const std::string& text) {
  const base::unique_fd opened(
      open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode));
  if (!opened && errno == EEXIST) return already_there(file);
  if (!opened && (errno == ENOENT || errno == ENOTDIR))
    return fail(errc::not_found, "cannot make {}: its folder is not there; make it first",
                file.string());
  if (!opened) return base::fail_errno("cannot make " + file.string());
  return base::write_all(opened.get(), text);
}

/// Adds the keys of one file.
base::status read_keys_of(const std::filesystem::path& file, std::set<std::string>& keys) {
  QUERN_TRY(const std::string text, base::read_file(file, largest_file));
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
  return {};
}

}  // namespace

base::expected<curve_keys> make_key_file(const std::filesystem::path& file) {
  QUERN_TRY(const curve_keys keys, make_curve_keys());
  const std::filesystem::path open_part = file.string() + ".pub";
  QUERN_CHECK(check_absent(open_part));
  QUERN_CHECK(write_new_file(file, 0600, keys.public_key + "\n" + keys.secret_key + "\n"));
  QUERN_CHECK(write_new_file(open_part, 0644, keys.public_key + "\n"));
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

base::expected<std::string> public_key_of(const std::string& text) {
  if (is_key(text)) return text;
  std::error_code ignored;
  if (!std::filesystem::exists(text, ignored))
    return fail(errc::invalid_argument,
                "'{}' is neither a public key of {} characters (Z85) nor a file that is there: "
                "name FILE.pub, which quern keys FILE makes beside the key pair",
                text, key_length);
  std::set<std::string> keys;
  QUERN_CHECK(read_keys_of(text, keys));
  if (keys.size() == 1) return *keys.begin();
  return fail(
      errc::invalid_argument,
      "{} has {} keys, one public key is needed: FILE.pub, which quern keys FILE makes; FILE "
      "itself has the secret key, too, and stays where it is",
      text, keys.size());
}

base::expected<std::set<std::string>> read_public_keys(const std::filesystem::path& place) {
  std::set<std::string> keys;
  std::error_code code;
  if (std::filesystem::is_directory(place, code)) {
    for (auto at = std::filesystem::directory_iterator(place, code);
         !code && at != std::filesystem::directory_iterator(); at.increment(code))
      if (at->path().extension() == ".pub") QUERN_CHECK(read_keys_of(at->path(), keys));
    if (code) return fail(errc::io, "cannot list {}: {}", place.string(), code.message());
  } else {
    QUERN_CHECK(read_keys_of(place, keys));
  }
  if (!keys.empty()) return keys;
  return fail(
      errc::invalid_argument,
      "{} lists no public key: no host could connect; write those of the hosts into a file, "
      "one a line, or put their FILE.pub into a folder",
      place.string());
}

}  // namespace quern::env
