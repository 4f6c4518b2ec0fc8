// Shorthand for tests that write a ledger.
#pragma once

#include <string>
#include <vector>

#include "storage/ledger.hpp"
#include "support/test.hpp"

namespace quern::test {

/// The value, or a failed test with the error's text.
template <class T>
T must(base::expected<T> result) {
  if (!result) FAIL(result.error().message);
  return std::move(*result);
}
inline void must(const base::status& result) {
  if (!result) FAIL(result.error().message);
}

inline storage::group_spec group_of(std::int64_t seq, int size) {
  storage::group_spec group;
  group.seq = seq;
  group.task = "relu@00000000000000000000000000000001";
  group.exemplars = {3, 1};
  group.prompt_hash = {1, 2};
  group.template_hash = {3, 4};
  group.size = size;
  return group;
}

inline storage::generation tokens_of(std::int64_t sample, std::int64_t incarnation,
                                     std::int64_t first_version, std::int64_t last_version) {
  storage::generation tokens{
      sample, incarnation, {{0, first_version, {5, 6}}}, {7, static_cast<std::uint64_t>(sample)}};
  if (last_version != first_version) tokens.segments.push_back({9, last_version, {8, 9}});
  return tokens;
}

inline storage::verdict_row verdict_of(std::int64_t sample, std::int64_t incarnation,
                                       std::int64_t attempt, bool counts = true) {
  storage::verdict_row verdict;
  verdict.sample = sample;
  verdict.incarnation = incarnation;
  verdict.attempt = attempt;
  verdict.counts = counts;
  verdict.task = "relu@00000000000000000000000000000001";
  verdict.source_hash = base::hash128{10, static_cast<std::uint64_t>(sample)};
  verdict.protocol = "paired/1";
  verdict.device_class = "cpu-avx2";
  verdict.env = "e";
  verdict.speedup_e2 = 123;
  verdict.confirmed = true;
  verdict.json = R"({"verdict":"ok"})";
  return verdict;
}

/// A ledger in memory with its first incarnation open.
struct open_ledger {
  std::unique_ptr<storage::database> db = must(storage::database::in_memory());
  std::unique_ptr<storage::ledger> book = must(storage::ledger::open(*db));
  open_ledger() { must(book->open_incarnation({"start", 0, {}})); }

  /// Issues a group of `size` and takes its samples to `state`; their ids.
  std::vector<std::int64_t> group_in(storage::sample_state state, int size,
                                     std::int64_t version = 0) {
    const auto here = must(book->position());
    const auto issued = must(book->issue(group_of(here.next_seq, size)));
    std::vector<std::int64_t> ids;
    for (int k = 0; k < size; ++k)
      ids.push_back(issued.first_sample + k);
    for (const std::int64_t id : ids) {
      if (state >= storage::sample_state::generated) {
        must(book->generated(tokens_of(id, here.incarnation, version, version)));
      }
      if (state >= storage::sample_state::evaluated) {
        must(book->evaluated(verdict_of(id, here.incarnation, 1)));
      }
      if (state >= storage::sample_state::admitted) {
        const storage::admission one{id, 1.5};
        must(book->admit({&one, 1}));
      }
    }
    return ids;
  }
};

}  // namespace quern::test
