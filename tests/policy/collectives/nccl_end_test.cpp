// How communicators end, with a stand-in for NCCL that notes what it is asked.
#include "policy/collectives/nccl_end.hpp"

#include <array>

#include "policy/collectives/joined_ranks.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::policy;
using base::operator""_s;
using quern::test::joined_ranks;

namespace {

/// Of NCCL's return codes: a failure of the system.
constexpr int system_error = 2;

/// NCCL's functions take no context of ours.
struct stand_in {
  std::string calls = {};
  int finalize_gives = nccl::in_progress, questions = 0, ends_after = 3, ends_as = nccl::success;
};
stand_in now;

nccl::functions stand_in_functions() {
  nccl::functions f;
  f.finalize = [](nccl::comm*) {
    now.calls += "finalize ";
    return now.finalize_gives;
  };
  f.async_error = [](nccl::comm*, int* code) {
    *code = ++now.questions >= now.ends_after ? now.ends_as : int{nccl::in_progress};
    return int{nccl::success};
  };
  f.destroy = [](nccl::comm*) {
    now.calls += "destroy ";
    return int{nccl::success};
  };
  f.abort = [](nccl::comm*) {
    now.calls += "abort ";
    return int{nccl::success};
  };
  return f;
}

bool end(const stand_in& how, base::nanoseconds_t patience, bool failed = false) {
  now = how;
  return nccl::end_in_order(stand_in_functions(), nullptr, patience, [&] { return failed; });
}

/// What each of the ranks hears, one after the other of `when` after so many nanoseconds.
std::vector<int> all_end(joined_ranks& group, const std::vector<base::nanoseconds_t>& when,
                         base::nanoseconds_t patience) {
  std::vector<int> said(when.size(), -1);
  std::vector<std::jthread> ranks;
  for (std::size_t i = 0; i < when.size(); ++i)
    ranks.emplace_back([&, i] {
      std::this_thread::sleep_for(std::chrono::nanoseconds(when[i]));
      said[i] = nccl::all_end(*group.ranks[i], "test", patience) ? 1 : 0;
    });
  ranks.clear();
  return said;
}

}  // namespace

TEST_CASE("in order a communicator is finalized, then destroyed, and not aborted") {
  CHECK(end({}, 20_s));
  CHECK(now.calls == "finalize destroy ");
  CHECK(now.questions == 3);
  CHECK(end({.finalize_gives = nccl::success}, 20_s));
  CHECK(now.calls == "finalize destroy ");
}

TEST_CASE("it is aborted where finalizing fails, hangs, or the group fails meanwhile") {
  CHECK_FALSE(end({.finalize_gives = system_error}, 20_s));
  CHECK(now.calls == "finalize abort ");
  CHECK_FALSE(end({.ends_as = system_error}, 20_s));
  CHECK(now.calls == "finalize abort ");
  CHECK_FALSE(end({.ends_after = 1 << 30}, 20'000'000));
  CHECK(now.calls == "finalize abort ");
  CHECK_FALSE(end({.ends_after = 1 << 30}, 3600_s, true));
  CHECK(now.calls == "finalize abort ");
}

TEST_CASE("ranks that all end agree on it; those that one does not join agree on the contrary") {
  const watch_limits limits{60_s, 1_s, 1_s};
  {
    joined_ranks group(3, limits);
    CHECK(all_end(group, {0, 30'000'000, 60'000'000}, 20_s) == std::vector<int>{1, 1, 1});
  }
  {
    joined_ranks group(3, limits);
    CHECK(all_end(group, {0, 0}, 100'000'000) == std::vector<int>{0, 0});
  }
  {
    // One comes when the others have given up.
    joined_ranks group(3, limits);
    CHECK(all_end(group, {0, 0, 600'000'000}, 100'000'000) == std::vector<int>{0, 0, 0});
  }
  // At the edge of patience it may be either, but never both.
  for (int round = 0; round < 6; ++round) {
    joined_ranks group(3, limits);
    const auto said = all_end(group, {0, 10'000'000, 30'000'000}, 29'000'000 + round * 400'000);
    CAPTURE(round);
    CHECK(said[0] == said[1]);
    CHECK(said[1] == said[2]);
  }
}

TEST_CASE("nobody waits for a rank that is gone") {
  joined_ranks group(2, {60_s, 1_s, 1_s});
  group.ranks[1]->cut();
  const base::steady_clock clock;
  const auto begin = clock.now_ns();
  CHECK_FALSE(nccl::all_end(*group.ranks[0], "test", 30_s));
  CHECK(clock.now_ns() - begin < 20_s);
}
