#include "base/descriptors.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

namespace quern::base {

std::uint64_t descriptor_limit() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 0;
}

void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

void fill_standard_descriptors() {
  // open() takes the lowest number that is free. Without O_CLOEXEC, as standard ones are inherited.
  for (int made = 0; made >= 0 && made <= STDERR_FILENO;)
    made = ::open("/dev/null", O_RDWR);
}

}  // namespace quern::base
