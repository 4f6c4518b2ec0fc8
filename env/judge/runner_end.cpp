// What the end of a candidate's process says of the candidate.
#include "env/judge/runner_end.hpp"

#include <signal.h>

#include "env/runner/protocol.hpp"
#include "env/sandbox/outside_hand.hpp"

namespace quern::env {
namespace {

std::string_view reason_of(const child_end& end) {
  switch (end.ending) {
    case child_end::kind::exited:
      return end.code == runner::lost_socket_status ? end_reason::closed_channel
                                                    : end_reason::ended;
    case child_end::kind::signalled:
      return end.code == SIGSYS ? end_reason::forbidden_call : std::string_view();
    case child_end::kind::killed:
      // By the evaluator, which saw the socket closed and the process alive. One that somebody else
      // killed and that was slow to go looks the same.
      return end_reason::closed_channel;
    case child_end::kind::timed_out:
      return {};
  }
  return {};
}

}  // namespace

finding ended_without_answer(const child_end& end) {
  if (end.out_of_memory)
    return {verdict_kind::oom, "", "the candidate used more memory than it may", std::nullopt};
  const std::string_view reason = reason_of(end);
  std::string detail = fmt::format("the process ended in the middle of a call: {}", end.text());
  if (reason == end_reason::closed_channel)
    detail =
        end.ending == child_end::kind::killed
            ? "the descriptor over which its process answers was closed, and the process went on"
            : "it closed the descriptor over which its process answers";
  finding ended{verdict_kind::runtime_error, std::string(reason), std::move(detail), std::nullopt};
  ended.doubtful = seen_in_runner(end) != outside_hand::excluded;
  return ended;
}

}  // namespace quern::env
