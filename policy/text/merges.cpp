// Applies merges with a queue of candidates over a linked list of tokens.
#include "policy/text/merges.hpp"

#include <queue>

namespace quern::policy {

namespace {

struct node {
  std::int32_t token = 0;
  std::int32_t before = -1;
  std::int32_t after = -1;
  bool alive = true;
};

/// A pair as it was when it was queued; it is stale if either side has changed since.
struct queued_merge {
  std::int32_t rank = 0;
  std::int32_t position = 0;
  std::int32_t result = 0;

  bool operator>(const queued_merge& other) const {
    return rank != other.rank ? rank > other.rank : position > other.position;
  }
};

}  // namespace

void merge_table::apply(std::vector<std::int32_t>& tokens) const {
  if (tokens.size() < 2) return;
  const auto count = static_cast<std::int32_t>(tokens.size());
  std::vector<node> nodes(tokens.size());
  for (std::int32_t i = 0; i < count; ++i)
    nodes[static_cast<std::size_t>(i)] = {tokens[static_cast<std::size_t>(i)], i - 1,
                                          i + 1 < count ? i + 1 : -1, true};
  const auto at = [&](std::int32_t i) -> node& { return nodes[static_cast<std::size_t>(i)]; };

  std::priority_queue<queued_merge, std::vector<queued_merge>, std::greater<>> queue;
  const auto offer = [&](std::int32_t left) {
    if (left < 0 || at(left).after < 0) return;
    if (const merge* found = find(at(left).token, at(at(left).after).token))
      queue.push({found->rank, left, found->result});
  };
  for (std::int32_t i = 0; i + 1 < count; ++i)
    offer(i);

  while (!queue.empty()) {
    const queued_merge best = queue.top();
    queue.pop();
    node& left = at(best.position);
    if (!left.alive || left.after < 0) continue;
    node& right = at(left.after);
    const merge* current = find(left.token, right.token);
    if (current == nullptr || current->result != best.result) continue;
    left.token = best.result;
    right.alive = false;
    left.after = right.after;
    if (left.after >= 0) at(left.after).before = best.position;
    offer(left.before);
    offer(best.position);
  }

  tokens.clear();
  for (std::int32_t i = 0; i >= 0; i = at(i).after)
    tokens.push_back(at(i).token);
}

}  // namespace quern::policy
