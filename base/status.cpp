#include "base/status.hpp"

#include <cerrno>
#include <system_error>

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
  return fail(errc::io, "{}: {}", doing, std::generic_category().message(number));
}

}  // namespace quern::base
