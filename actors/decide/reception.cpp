#include "actors/decide/reception.hpp"

#include <array>
#include <cerrno>

#include <fmt/format.h>
#include <sys/random.h>

namespace quern::actors {
namespace {

using base::errc;
using base::fail;

/// In a time that does not tell how much of it is right.
bool same_secret(const std::string& one, const std::string& other) {
  unsigned difference = one.size() == other.size() && !one.empty() ? 0U : 1U;
  for (std::size_t i = 0; i < one.size() && i < other.size(); ++i)
    difference |= static_cast<unsigned char>(one[i]) ^ static_cast<unsigned char>(other[i]);
  return difference == 0;
}

}  // namespace

base::expected<std::string> make_run_secret() {
  std::array<unsigned char, 16> bytes{};
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = ::getrandom(bytes.data() + done, bytes.size() - done, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return base::fail_errno("Linux gives no random numbers");
    done += static_cast<std::size_t>(count);
  }
  std::string text;
  for (const unsigned char byte : bytes)
    text += fmt::format("{:02x}", byte);
  return text;
}

base::status reception::admit(const hello& from) const {
  if (!same_secret(from.secret, secret_))
    return fail(errc::conflict,
                "it does not know the secret of this run, which processes get from the run that "
                "starts them");
  if (from.build != build_)
    return fail(errc::conflict,
                "it is of build {}, this run of {}: the same build must lie at the same path on "
                "every host",
                from.build, build_);
  if (from.config != config_)
    return fail(errc::conflict,
                "its configuration is another one: every host must see the same config.yaml in "
                "the run's folder");
  return {};
}

}  // namespace quern::actors
