// Who holds which page of the KV store. A page holds the keys and values of a run of positions, in
// all layers; a slot (a sequence in the store) has a list of pages, and slots that share the start
// of their sequence share its whole pages, which nobody writes to any more. Decides only: the
// memory is elsewhere. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace quern::policy {

struct page_copy {
  std::int32_t from = 0, to = 0;
  bool operator==(const page_copy&) const = default;
};

class page_book {
 public:
  page_book(std::int32_t pages, std::int32_t page_size, std::int32_t slots);

  std::int32_t page_size() const { return page_size_; }
  std::int32_t pages() const { return static_cast<std::int32_t>(holders_.size()); }
  std::int32_t free_pages() const { return static_cast<std::int32_t>(free_.size()); }
  /// How many pages so many positions take.
  std::int32_t pages_for(std::int64_t positions) const;
  /// By ascending position.
  std::span<const std::int32_t> pages_of(std::int32_t slot) const;

  /// Gives the slot pages for its first `positions` positions; false, with nothing changed, where
  /// there are not enough.
  bool grow(std::int32_t slot, std::int64_t positions);
  /// `to`, which has no pages, begins as `from` does up to `positions`: whole pages are shared; of
  /// the page that is begun, the result says what to copy, if there is one. False: no page was
  /// left, and nothing has changed.
  bool share(std::int32_t from, std::int32_t to, std::int64_t positions,
             std::optional<page_copy>& copy);
  /// `to`, which has no pages, takes those of `from`.
  void hand_over(std::int32_t from, std::int32_t to);
  /// The slot's pages are free again where nobody else holds them.
  void release(std::int32_t slot);

 private:
  std::int32_t page_size_;
  std::vector<std::int32_t> holders_;  ///< of each page: slots that have it
  std::vector<std::int32_t> free_;
  std::vector<std::vector<std::int32_t>> lists_;  ///< of each slot
};

}  // namespace quern::policy
