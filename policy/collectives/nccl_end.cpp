#include "policy/collectives/nccl_end.hpp"

#include <string>
#include <thread>

namespace quern::policy::nccl {
namespace {

/// Added to the count of ranks that came by each that gave up: far above any number of ranks.
constexpr std::int64_t given_up = std::int64_t{1} << 32;
constexpr std::string_view yes = "in order", no = "by abort";
constexpr auto end_question_interval = std::chrono::microseconds(200);

}  // namespace

bool all_end(rendezvous& group, std::string_view name, base::nanoseconds_t patience) {
  const std::string come = std::string(name) + "/ending", decided = std::string(name) + "/ended";
  const std::int64_t all = group.ranks();
  const auto here = group.add(come, 1);
  if (!here) return false;
  // The last to come decides, once: whoever gave up before it is in its count.
  if (*here % given_up == all) {
    const bool in_order = *here == all;
    return group.set(decided, std::string(in_order ? yes : no)) && in_order;
  }
  if (*here > given_up) return false;
  auto word = group.get(decided, -1, patience);
  if (!word) {
    const auto count = group.add(come, given_up);
    if (!count || *count % given_up != all) return false;
    word = group.get(decided, -1, group.limits().connect);  // it is about to be told
  }
  return word && *word == yes;
}

bool end_in_order(const functions& call, comm* which, base::nanoseconds_t patience,
                  const std::function<bool()>& failed) {
  const base::steady_clock clock;
  const base::nanoseconds_t deadline = clock.now_ns() + patience;
  int code = call.finalize(which);
  while (code == in_progress && !failed() && clock.now_ns() < deadline) {
    std::this_thread::sleep_for(end_question_interval);
    if (const int asked = call.async_error(which, &code); asked != success) code = asked;
  }
  if (code != success) {
    call.abort(which);
    return false;
  }
  call.destroy(which);
  return true;
}

}  // namespace quern::policy::nccl
