// Makes and carries out transfer plans.
#include "policy/weights/plan.hpp"

#include <algorithm>
#include <cstring>

namespace quern::policy {

using base::errc;
using base::expected;
using base::fail;

namespace {

void append(std::vector<copy_range>& copies, copy_range next) {
  if (!copies.empty()) {
    copy_range& last = copies.back();
    if (last.source + last.count == next.source && last.target + last.count == next.target) {
      last.count += next.count;
      return;
    }
  }
  copies.push_back(next);
}

/// The rectangle that both sides hold, row by row.
void copy_shared(const parameter& source, const parameter& target,
                 std::vector<copy_range>& copies) {
  const std::int64_t row_begin = std::max(source.row_begin, target.row_begin);
  const std::int64_t row_end = std::min(source.row_end, target.row_end);
  const std::int64_t column_begin = std::max(source.column_begin, target.column_begin);
  const std::int64_t count = std::min(source.column_end, target.column_end) - column_begin;
  if (count <= 0) return;
  const auto at = [&](const parameter& p, std::int64_t row) {
    return p.offset + (row - p.row_begin) * p.columns() + column_begin - p.column_begin;
  };
  for (std::int64_t row = row_begin; row < row_end; ++row)
    append(copies, {at(source, row), at(target, row), count});
}

base::hash128 hash_of(const catalogue& source, const catalogue& target,
                      const std::vector<copy_range>& copies) {
  base::hasher hash;
  for (const auto& end : {source.layout_hash(), target.layout_hash()})
    hash.add(end.high).add(end.low);
  for (const auto& copy : copies)
    for (const std::int64_t value : {copy.source, copy.target, copy.count})
      hash.add(static_cast<std::uint64_t>(value));
  return hash.digest();
}

}  // namespace

expected<transfer_plan> make_plan(const catalogue& source, const catalogue& target) {
  if (source.dtype != target.dtype)
    return fail(errc::invalid_argument, "the source holds {}, the target {}; convert first",
                torch_name(source.dtype), torch_name(target.dtype));
  if (source.parameters.size() != target.parameters.size())
    return fail(errc::invalid_argument, "the source has {} parameters, the target {}: other models",
                source.parameters.size(), target.parameters.size());
  transfer_plan plan;
  plan.dtype = target.dtype;
  const bool flat = source.layout_hash() == target.layout_hash();
  if (flat) plan.copies.push_back({0, 0, target.elements});
  for (std::size_t i = 0; i < target.parameters.size(); ++i) {
    // Both are made from one configuration in one order, so that the same index is the same
    // parameter.
    const parameter& from = source.parameters[i];
    const parameter& to = target.parameters[i];
    if (from.name != to.name || from.shape != to.shape)
      return fail(errc::invalid_argument,
                  "'{}' in the source meets '{}' in the target: other models", from.name, to.name);
    if (!flat) copy_shared(from, to, plan.copies);
  }
  for (const auto& copy : plan.copies)
    plan.elements += copy.count;
  plan.hash = hash_of(source, target, plan.copies);
  return plan;
}

bool covers(std::span<const transfer_plan> plans, const catalogue& target) {
  std::vector<element_range> written;
  for (const auto& plan : plans)
    for (const auto& copy : plan.copies)
      written.push_back({copy.target, copy.target + copy.count});
  std::sort(written.begin(), written.end(),
            [](const element_range& a, const element_range& b) { return a.begin < b.begin; });
  for (std::size_t i = 1; i < written.size(); ++i)
    if (written[i].begin < written[i - 1].end) return false;
  std::size_t at = 0;
  for (const auto& p : target.parameters) {
    std::int64_t next = p.offset;
    while (at < written.size() && written[at].end <= next)
      ++at;
    for (std::size_t i = at; next < p.offset + p.count(); ++i) {
      if (i >= written.size() || written[i].begin > next) return false;
      next = written[i].end;
    }
  }
  return true;
}

base::status run_plan(const transfer_plan& plan, std::span<const std::byte> source,
                      std::span<std::byte> target) {
  const std::size_t size = size_of(plan.dtype);
  const auto inside = [&](std::int64_t offset, std::int64_t count, std::size_t bytes) {
    return offset >= 0 && count >= 0 && static_cast<std::size_t>(offset + count) <= bytes / size;
  };
  for (const auto& copy : plan.copies)
    if (!inside(copy.source, copy.count, source.size()) ||
        !inside(copy.target, copy.count, target.size()))
      return fail(errc::invalid_argument,
                  "the plan copies {} elements from {} to {}; the arenas hold {} and {}",
                  copy.count, copy.source, copy.target, source.size() / size, target.size() / size);
  for (const auto& copy : plan.copies)
    std::memcpy(target.data() + static_cast<std::size_t>(copy.target) * size,
                source.data() + static_cast<std::size_t>(copy.source) * size,
                static_cast<std::size_t>(copy.count) * size);
  return {};
}

}  // namespace quern::policy
