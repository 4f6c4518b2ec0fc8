// The schedule, driven by a simulated engine that knows what lies in the store: every sequence must
// get all its tokens, from pages that hold what they should, under shortage, preemption and
// cancels.
#include "policy/engine/generation_schedule.hpp"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "base/random.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::policy;

namespace {

/// What a device would do: position p of a sequence holds (content, p); a group shares content up
/// to its prompt's end, then everybody's own begins.
class simulated_engine {
 public:
  explicit simulated_engine(const schedule_limits& limits) : limits_(limits), schedule_(limits) {}

  void add(std::vector<scheduled_sequence> group, std::uint64_t content) {
    for (const scheduled_sequence& s : group)
      known_[s.serial] = {s, content, s.tokens, s.tokens};
    schedule_.add(group);
  }
  bool cancel(std::uint64_t serial) {
    known_.erase(serial);
    return schedule_.finish(serial);
  }
  /// False: something is wrong; `problem` says what.
  bool step() {
    const schedule_step plan = schedule_.next();
    if (plan.empty() && !unread_ && !schedule_.idle()) return fail("nothing to do");
    preempted += plan.preempted.size();
    check_budgets(plan);
    // Like the device: all rows of a pass write before any reads; copies come after.
    for (const prompt_chunk& p : plan.chunks)
      if (!compute(p)) return false;
    if (limits_.shared_rows > 0 && !decode(plan)) return false;
    for (const page_copy& c : plan.copies)
      for (std::int32_t i = 0; i < limits_.page_size; ++i)
        cells_[{c.to, i}] = cells_[{c.from, i}];
    if (limits_.shared_rows == 0 && !decode(plan)) return false;
    end_full();
    return problem.empty();
  }
  bool idle() const { return known_.empty() && schedule_.idle(); }
  const generation_schedule& schedule() const { return schedule_; }
  std::size_t unfinished() const { return known_.size(); }

  std::string problem;
  std::size_t preempted = 0, shared = 0;

 private:
  struct sequence {
    scheduled_sequence what;
    std::uint64_t content = 0;
    std::int64_t prompt = 0, tokens = 0;
  };

  bool fail(std::string text) {
    if (problem.empty()) problem = std::move(text);
    return false;
  }
  void check_budgets(const schedule_step& plan) {
    std::int64_t prompts = 0;
    for (const prompt_chunk& p : plan.chunks)
      prompts += p.end - p.begin;
    const auto rows = static_cast<std::int64_t>(plan.rows.size());
    if (limits_.shared_rows > 0 ? prompts + rows > limits_.shared_rows
                                : prompts > limits_.prompt_rows || rows > limits_.slots)
      fail("too many rows");
  }
  std::uint64_t value_of(const sequence& s, std::int64_t position) const {
    const std::uint64_t who = position < s.prompt ? s.content : 1000000 + s.what.serial;
    return who * 100000 + static_cast<std::uint64_t>(position);
  }
  std::uint64_t& cell(std::int32_t slot, std::int64_t position) {
    const auto pages = schedule_.book().pages_of(slot);
    const auto page = static_cast<std::size_t>(position / limits_.page_size);
    static std::uint64_t nowhere = 0;
    if (page >= pages.size()) return fail("no page"), nowhere;
    return cells_[{pages[page], static_cast<std::int32_t>(position % limits_.page_size)}];
  }
  bool sees_itself(const sequence& s, std::int32_t slot, std::int64_t length) {
    for (std::int64_t p = 0; p < length; ++p)
      if (cell(slot, p) != value_of(s, p))
        return fail("sequence " + std::to_string(s.what.serial) + " reads another's position");
    return true;
  }
  bool compute(const prompt_chunk& p) {
    if (!known_.contains(p.serial)) return fail("a chunk of nobody");
    sequence& s = known_[p.serial];
    for (std::int64_t i = p.begin; i < p.end; ++i)
      cell(p.slot, i) = value_of(s, i);
    if (!sees_itself(s, p.slot, p.end)) return false;
    if (p.last != (p.end == s.tokens)) return fail("last is wrong");
    if (!p.last) return true;
    ++s.tokens;
    for (const prompt_chunk::member& m : p.members) {
      ++shared;
      ++known_[m.serial].tokens;
    }
    return true;
  }
  bool decode(const schedule_step& plan) {
    for (const decode_row& row : plan.rows) {
      if (!known_.contains(row.serial)) return fail("a row of nobody");
      sequence& s = known_[row.serial];
      if (row.position != s.tokens - 1) return fail("a row at the wrong position");
      cell(row.slot, row.position) = value_of(s, row.position);
      if (!sees_itself(s, row.slot, row.position + 1)) return false;
      ++s.tokens;
    }
    return true;
  }
  /// A step late, as an engine reads its results.
  void end_full() {
    unread_ = false;
    for (std::uint64_t serial : std::exchange(full_, {}))
      if (known_.erase(serial) > 0) {
        unread_ = true;
        if (!schedule_.finish(serial)) fail("finish knows nobody");
      }
    for (const auto& [serial, s] : known_)
      if (s.tokens >= s.what.most) {
        unread_ = true;
        full_.push_back(serial);
        if (s.tokens > s.what.most) fail("too many tokens");
      }
  }

  schedule_limits limits_;
  generation_schedule schedule_;
  std::unordered_map<std::uint64_t, sequence> known_;
  std::map<std::pair<std::int32_t, std::int32_t>, std::uint64_t> cells_;
  std::vector<std::uint64_t> full_;
  bool unread_ = false;
};

schedule_limits drawn_limits(base::random_stream& draw) {
  schedule_limits limits;
  limits.slots = static_cast<std::int32_t>(draw.between(1, 9));
  limits.page_size = static_cast<std::int32_t>(draw.between(2, 5));
  limits.pages = static_cast<std::int32_t>(draw.between(40 / limits.page_size + 1, 60));
  limits.prompt_rows = static_cast<std::int32_t>(draw.between(1, 30));
  limits.shared_rows = draw.chance(0.4) ? static_cast<std::int32_t>(draw.between(1, 12)) : 0;
  return limits;
}

}  // namespace

TEST_CASE("every sequence gets its tokens from its own positions, in a thousand drawn runs") {
  std::size_t preempted = 0, shared = 0;
  for (std::uint64_t seed = 0; seed < 1500; ++seed) {
    CAPTURE(seed);
    base::random_stream draw(seed, "schedule_test");
    const schedule_limits limits = drawn_limits(draw);
    simulated_engine engine(limits);
    std::uint64_t serial = 0;
    std::vector<std::uint64_t> all;
    int groups = 12, steps = 0;
    while (groups > 0 || !engine.idle()) {
      REQUIRE(++steps < 20000);
      if (groups > 0 && draw.chance(0.3)) {
        --groups;
        const std::int64_t prompt = draw.between(1, 25), most = prompt + draw.between(1, 15);
        std::vector<scheduled_sequence> group;
        const std::int64_t members = draw.between(1, limits.slots);
        for (std::int64_t i = 0; i < members; ++i) {
          group.push_back({++serial, prompt, most});
          all.push_back(serial);
        }
        engine.add(group, static_cast<std::uint64_t>(groups));
      }
      if (!all.empty() && draw.chance(0.03))
        engine.cancel(all[static_cast<std::size_t>(draw.below(all.size()))]);
      engine.step();
      REQUIRE_MESSAGE(engine.problem.empty(), engine.problem);
    }
    CHECK(engine.unfinished() == 0);
    CHECK(engine.schedule().running() == 0);
    CHECK(engine.schedule().book().free_pages() == engine.schedule().book().pages());
    preempted += engine.preempted;
    shared += engine.shared;
  }
  CHECK(preempted > 1000);  // the runs did meet shortage, and did share prompts
  CHECK(shared > 1000);
}

TEST_CASE("a prompt is computed once for its group, in chunks, and its whole pages are shared") {
  generation_schedule s({4, 40, 4, 6, 0});
  s.add(std::vector<scheduled_sequence>{{1, 10, 14}, {2, 10, 14}, {3, 10, 14}});
  schedule_step step = s.next();
  REQUIRE(step.chunks.size() == 1);
  CHECK(step.chunks[0].end == 6);
  CHECK_FALSE(step.chunks[0].last);
  step = s.next();
  REQUIRE(step.chunks.size() == 1);
  CHECK(step.chunks[0].begin == 6);
  CHECK(step.chunks[0].last);
  CHECK(step.chunks[0].members.size() == 2);
  CHECK(step.copies.size() == 2);
  CHECK(step.rows.empty());
  CHECK(s.book().pages() - s.book().free_pages() == 5);  // 2 shared, 3 begun
  step = s.next();
  CHECK(step.chunks.empty());
  CHECK(step.rows.size() == 3);
  CHECK(step.rows[0].position == 10);
}

TEST_CASE("the oldest keeps its pages, the youngest gives way and comes back first") {
  generation_schedule s({2, 6, 4, 100, 0});
  s.add(std::vector<scheduled_sequence>{{1, 7, 20}});
  s.add(std::vector<scheduled_sequence>{{2, 7, 20}});
  schedule_step step = s.next();  // 2 pages for the first; the second has to leave one in reserve
  REQUIRE(step.chunks.size() >= 1);
  std::vector<std::uint64_t> gave_way;
  for (int i = 0; i < 13; ++i) {
    step = s.next();
    gave_way.insert(gave_way.end(), step.preempted.begin(), step.preempted.end());
  }
  CHECK(std::count(gave_way.begin(), gave_way.end(), 1) == 0);
  CHECK(gave_way == std::vector<std::uint64_t>{2});
  CHECK(s.finish(1));
  step = s.next();
  REQUIRE(step.chunks.size() == 1);
  CHECK(step.chunks[0].serial == 2);
  CHECK(step.chunks[0].end > 7);  // what it had sampled is computed like a longer prompt
}
