#include "base/write_signals.hpp"

#include <signal.h>

namespace quern::base {

void ignore_broken_pipes() {
  ::signal(SIGPIPE, SIG_IGN);
}

void ignore_file_size_signal() {
  ::signal(SIGXFSZ, SIG_IGN);
}

void reset_write_signals() {
  ::signal(SIGPIPE, SIG_DFL);
  ::signal(SIGXFSZ, SIG_DFL);
}

}  // namespace quern::base
