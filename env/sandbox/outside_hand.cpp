// Whether a child's end may be the doing of somebody else on this host.
#include "env/sandbox/outside_hand.hpp"

#include <algorithm>
#include <iterator>

#include <signal.h>

namespace quern::env {
namespace {

/// Signals that Linux sends to a process for what it does itself. The others, SIGKILL first of
/// all, are sent by somebody: limits of the sandbox that end by SIGKILL are told apart before.
bool is_of_its_own(int signal) {
  constexpr int own[] = {SIGSEGV, SIGBUS, SIGFPE,  SIGILL,  SIGABRT,
                         SIGTRAP, SIGSYS, SIGXCPU, SIGXFSZ, SIGPIPE};
  return std::find(std::begin(own), std::end(own), signal) != std::end(own);
}

/// Signals by which a limit on what the process itself may use ends it.
bool is_used_up_limit(int signal) {
  return signal == SIGXCPU || signal == SIGXFSZ;
}

}  // namespace

outside_hand seen_in_compiler(const child_end& end) {
  using enum outside_hand;
  if (end.succeeded() || end.out_of_memory) return excluded;
  switch (end.ending) {
    case child_end::kind::exited:
      return possible;
    case child_end::kind::timed_out:
      return end.stalled ? possible : excluded;
    case child_end::kind::signalled:
      if (is_used_up_limit(end.code)) return excluded;
      // SIGBUS is also what a full file system does to a program that writes by way of memory.
      return is_of_its_own(end.code) ? possible : certain;
    case child_end::kind::killed:
      return certain;
  }
  return certain;
}

compiler_attempts::next compiler_attempts::after_text(const child_end& end) {
  constexpr int most_kills = 2;
  switch (seen_in_compiler(end)) {
    case outside_hand::excluded:
      return next::believe;
    case outside_hand::possible:
      return control_passed_ ? next::believe : next::control;
    case outside_hand::certain:
      break;
  }
  return ++kills_ == most_kills ? next::blame_host : next::repeat;
}

compiler_attempts::next compiler_attempts::after_control(const child_end& end) {
  control_passed_ = end.succeeded();
  return control_passed_ ? next::repeat : next::blame_host;
}

outside_hand seen_in_runner(const child_end& end) {
  using enum outside_hand;
  if (end.out_of_memory) return excluded;
  switch (end.ending) {
    case child_end::kind::exited:
      return excluded;
    case child_end::kind::timed_out:
      return end.stalled ? possible : excluded;
    case child_end::kind::signalled:
      return is_of_its_own(end.code) ? excluded : possible;
    case child_end::kind::killed:
      // By us, because it had not ended although its socket was closed. One that somebody killed
      // may take that long on a busy host.
      return possible;
  }
  return possible;
}

}  // namespace quern::env
