#include "base/status.hpp"

#include <cerrno>
#include <system_error>

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
    case ENOSPC:
    case EDQUOT:
      return fail(errc::exhausted, "{}: {}", doing, text);
    default:
      return fail(errc::io, "{}: {}", doing, text);
  }
}

}  // namespace quern::base
