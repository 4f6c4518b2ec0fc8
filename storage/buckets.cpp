#include "storage/buckets.hpp"

#include <algorithm>
#include <tuple>

namespace quern::storage {

bucket_edges equal_buckets(std::int64_t width_e2, int count) {
  bucket_edges edges;
  for (int i = 0; i < count; ++i)
    edges.push_back(i * width_e2);
  return edges;
}

base::status check_edges(const bucket_edges& edges) {
  if (edges.empty() || edges.front() != 0) {
    return base::fail(base::errc::invalid_argument, "score buckets must begin at 0");
  }
  for (std::size_t i = 1; i < edges.size(); ++i) {
    if (edges[i] <= edges[i - 1]) {
      return base::fail(base::errc::invalid_argument,
                        "edges of score buckets must rise, but {} follows {}", edges[i],
                        edges[i - 1]);
    }
  }
  return {};
}

score_buckets::score_buckets(const bucket_edges& edges) : edges_(&edges), buckets_(edges.size()) {}

int score_buckets::bucket_of(std::int64_t score_e2) const {
  const auto above = std::upper_bound(edges_->begin(), edges_->end(), score_e2);
  return std::max(0, static_cast<int>(above - edges_->begin()) - 1);
}

void score_buckets::insert(const bucket_member& member) {
  bucket& home = buckets_[static_cast<std::size_t>(bucket_of(member.score_e2))];
  auto found = std::lower_bound(
      home.runs.begin(), home.runs.end(), member.version,
      [](const run& each, std::int64_t version) { return each.version < version; });
  const bool first = found == home.runs.begin();
  const std::int64_t begin = first ? 0 : std::prev(found)->end;
  if (found == home.runs.end() || found->version != member.version) {
    found =
        home.runs.insert(found, run{member.version, begin, first ? 0 : std::prev(found)->sum_e2});
  }
  const auto place = std::lower_bound(
      home.entries.begin() + begin, home.entries.begin() + found->end,
      std::pair(member.order, member.id),
      [](const entry& each, const auto& key) { return std::pair(each.order, each.id) < key; });
  home.entries.insert(place, entry{member.id, member.order});
  for (; found != home.runs.end(); ++found) {
    ++found->end;
    found->sum_e2 += member.score_e2;
  }
}

bool score_buckets::erase(const bucket_member& member) {
  bucket& home = buckets_[static_cast<std::size_t>(bucket_of(member.score_e2))];
  auto found = std::find_if(home.runs.begin(), home.runs.end(),
                            [&](const run& each) { return each.version == member.version; });
  if (found == home.runs.end()) return false;
  const std::int64_t begin = found == home.runs.begin() ? 0 : std::prev(found)->end;
  const auto last = home.entries.begin() + found->end;
  const auto place = std::find_if(home.entries.begin() + begin, last, [&](const entry& each) {
    return each.id == member.id && each.order == member.order;
  });
  if (place == last) return false;
  home.entries.erase(place);
  for (auto later = found; later != home.runs.end(); ++later) {
    --later->end;
    later->sum_e2 -= member.score_e2;
  }
  if (found->end == begin) home.runs.erase(found);
  return true;
}

std::vector<bucket_summary> score_buckets::as_of(std::int64_t version) const {
  std::vector<bucket_summary> filled;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    const auto& runs = buckets_[i].runs;
    const auto above = std::upper_bound(
        runs.begin(), runs.end(), version,
        [](std::int64_t wanted, const run& each) { return wanted < each.version; });
    if (above == runs.begin()) continue;
    const run& newest = *std::prev(above);
    filled.push_back({static_cast<int>(i), (*edges_)[i], newest.end, newest.sum_e2});
  }
  return filled;
}

base::expected<std::int64_t> score_buckets::draw(int which, std::int64_t k) const {
  if (which < 0 || static_cast<std::size_t>(which) >= buckets_.size()) {
    return base::fail(base::errc::invalid_argument, "there is no score bucket {}", which);
  }
  const auto& entries = buckets_[static_cast<std::size_t>(which)].entries;
  if (k < 0 || static_cast<std::size_t>(k) >= entries.size()) {
    return base::fail(base::errc::invalid_argument, "score bucket {} has {} members, not {}", which,
                      entries.size(), k + 1);
  }
  return entries[static_cast<std::size_t>(k)].id;
}

std::int64_t score_buckets::size() const {
  std::int64_t count = 0;
  for (const bucket& each : buckets_)
    count += static_cast<std::int64_t>(each.entries.size());
  return count;
}

}  // namespace quern::storage
