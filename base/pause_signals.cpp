#include "base/pause_signals.hpp"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace quern::base {
namespace {

/// As nohup and `trap "" HUP` leave it. Blocked, it would arrive all the same.
bool is_ignored(int number) {
  struct sigaction now {};
  return ::sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

}  // namespace

pause_signals::pause_signals() {
  sigemptyset(&set_);
  sigaddset(&set_, SIGINT);
  sigaddset(&set_, SIGTERM);
  if (!is_ignored(SIGHUP)) sigaddset(&set_, SIGHUP);
  ::pthread_sigmask(SIG_BLOCK, &set_, &before_);
  fd_.reset(::signalfd(-1, &set_, SFD_CLOEXEC | SFD_NONBLOCK));
}

pause_signals::~pause_signals() {
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

bool pause_signals::arrived(int milliseconds) {
  pollfd watched{fd_.get(), POLLIN, 0};
  if (::poll(&watched, 1, milliseconds) <= 0) return false;
  signalfd_siginfo info{};
  return ::read(fd_.get(), &info, sizeof info) == sizeof info;
}

}  // namespace quern::base
