// Page lists and their holders.
#include "policy/engine/page_book.hpp"

#include <utility>

namespace quern::policy {

page_book::page_book(std::int32_t pages, std::int32_t page_size, std::int32_t slots)
    : page_size_(page_size),
      holders_(static_cast<std::size_t>(pages), 0),
      lists_(static_cast<std::size_t>(slots)) {
  for (std::int32_t p = pages; p-- > 0;)
    free_.push_back(p);
}

std::int32_t page_book::pages_for(std::int64_t positions) const {
  return static_cast<std::int32_t>((positions + page_size_ - 1) / page_size_);
}

std::span<const std::int32_t> page_book::pages_of(std::int32_t slot) const {
  return lists_[static_cast<std::size_t>(slot)];
}

bool page_book::grow(std::int32_t slot, std::int64_t positions) {
  auto& list = lists_[static_cast<std::size_t>(slot)];
  const auto wanted = static_cast<std::size_t>(pages_for(positions));
  if (wanted > list.size() + free_.size()) return false;
  while (list.size() < wanted) {
    list.push_back(free_.back());
    free_.pop_back();
    holders_[static_cast<std::size_t>(list.back())] = 1;
  }
  return true;
}

bool page_book::share(std::int32_t from, std::int32_t to, std::int64_t positions,
                      std::optional<page_copy>& copy) {
  const auto& source = lists_[static_cast<std::size_t>(from)];
  auto& list = lists_[static_cast<std::size_t>(to)];
  const auto whole = static_cast<std::size_t>(positions / page_size_);
  const bool begun = positions % page_size_ != 0;
  copy.reset();
  if (begun && free_.empty()) return false;
  for (std::size_t i = 0; i < whole; ++i) {
    list.push_back(source[i]);
    ++holders_[static_cast<std::size_t>(source[i])];
  }
  if (begun) {
    copy = {source[whole], free_.back()};
    list.push_back(free_.back());
    free_.pop_back();
    holders_[static_cast<std::size_t>(list.back())] = 1;
  }
  return true;
}

void page_book::hand_over(std::int32_t from, std::int32_t to) {
  lists_[static_cast<std::size_t>(to)] = std::exchange(lists_[static_cast<std::size_t>(from)], {});
}

void page_book::release(std::int32_t slot) {
  for (std::int32_t page : std::exchange(lists_[static_cast<std::size_t>(slot)], {}))
    if (--holders_[static_cast<std::size_t>(page)] == 0) free_.push_back(page);
}

}  // namespace quern::policy
