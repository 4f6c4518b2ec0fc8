#include "base/status.hpp"

#include <cerrno>
#include <system_error>

#include <sys/resource.h>

#include "base/descriptors.hpp"

namespace quern::base {

std::string_view to_string(errc code) {
  switch (code) {
    case errc::invalid_argument:
      return "invalid argument";
    case errc::not_found:
      return "not found";
    case errc::already_exists:
      return "already exists";
    case errc::io:
      return "input/output";
    case errc::corrupt:
      return "corrupt data";
    case errc::version:
      return "unknown version";
    case errc::conflict:
      return "conflict";
    case errc::unavailable:
      return "unavailable";
    case errc::timeout:
      return "timeout";
    case errc::exhausted:
      return "exhausted";
    case errc::internal:
      return "internal";
  }
  return "internal";
}

namespace {

/// What a file that is too large has run into; empty where it was not a limit of the process.
std::string file_limit_text() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return {};
  return fmt::format(
      ": this process may write files of at most {} bytes; raise that (ulimit -f, LimitFSIZE= of a "
      "unit)",
      limit.rlim_cur);
}

}  // namespace

tl::unexpected<error> fail_errno(std::string_view doing) {
  const int number = errno;
  const std::string text = std::generic_category().message(number);
  switch (number) {
    case EMFILE:
      return fail(errc::exhausted,
                  "{}: {}: this process may have {} open; raise that (ulimit -n, LimitNOFILE= of a "
                  "unit)",
                  doing, text, descriptor_limit());
    case ENFILE:
      return fail(errc::exhausted, "{}: {} on this machine: raise fs.file-max", doing, text);
    case EFBIG:
      return fail(errc::exhausted, "{}: {}{}", doing, text, file_limit_text());
    case ENOSPC:
    case EDQUOT:
      return fail(errc::exhausted, "{}: {}", doing, text);
    default:
      return fail(errc::io, "{}: {}", doing, text);
  }
}

}  // namespace quern::base
