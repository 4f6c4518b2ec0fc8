// The page book against a model that keeps what every position of every slot holds.
#include "policy/engine/page_book.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "base/random.hpp"
#include "support/test.hpp"

using namespace quern;
using policy::page_book;
using policy::page_copy;

namespace {

/// Writes positions through the book's pages, as an engine does, and knows what must be there.
struct store_model {
  page_book book;
  std::map<std::pair<std::int32_t, std::int32_t>, std::int64_t> cells;  ///< (page, place)
  std::vector<std::vector<std::int64_t>> truth;                         ///< of each slot

  store_model(std::int32_t pages, std::int32_t page_size, std::int32_t slots)
      : book(pages, page_size, slots), truth(static_cast<std::size_t>(slots)) {}

  std::int64_t& cell(std::int32_t slot, std::int64_t position) {
    const auto page = static_cast<std::size_t>(position / book.page_size());
    return cells[{book.pages_of(slot)[page],
                  static_cast<std::int32_t>(position % book.page_size())}];
  }
  void write(std::int32_t slot, std::int64_t value) {
    auto& own = truth[static_cast<std::size_t>(slot)];
    own.push_back(value);
    cell(slot, static_cast<std::int64_t>(own.size()) - 1) = value;
  }
  void copy(const page_copy& c) {
    for (std::int32_t i = 0; i < book.page_size(); ++i)
      cells[{c.to, i}] = cells[{c.from, i}];
  }
  bool holds() {
    std::set<std::int32_t> used;
    for (std::size_t s = 0; s < truth.size(); ++s) {
      const auto slot = static_cast<std::int32_t>(s);
      for (std::size_t p = 0; p < truth[s].size(); ++p)
        if (cell(slot, static_cast<std::int64_t>(p)) != truth[s][p]) return false;
      for (std::int32_t page : book.pages_of(slot))
        used.insert(page);
    }
    return static_cast<std::int32_t>(used.size()) + book.free_pages() == book.pages();
  }
};

}  // namespace

TEST_CASE("pages hold what was written, whoever shares, copies and gives back, a thousand times") {
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    base::random_stream draw(seed, "page_book_test");
    constexpr std::int32_t slots = 6;
    store_model model(static_cast<std::int32_t>(draw.between(4, 20)), 4, slots);
    std::int64_t value = 0;
    for (int step = 0; step < 60; ++step) {
      const auto a = static_cast<std::int32_t>(draw.below(slots)),
                 b = static_cast<std::int32_t>(draw.below(slots));
      auto& own = model.truth[static_cast<std::size_t>(a)];
      auto& other = model.truth[static_cast<std::size_t>(b)];
      switch (draw.below(4)) {
        case 0:
        case 1: {  // append a few positions to a slot that shares no begun page
          const auto wanted = static_cast<std::int64_t>(own.size()) + draw.between(1, 6);
          const std::int32_t before = model.book.free_pages();
          if (!model.book.grow(a, wanted)) {
            REQUIRE(model.book.free_pages() == before);
            break;
          }
          while (static_cast<std::int64_t>(own.size()) < wanted)
            model.write(a, ++value);
          break;
        }
        case 2: {
          if (a == b || !other.empty() || own.empty()) break;
          if (static_cast<std::size_t>(model.book.pages_for(
                  static_cast<std::int64_t>(own.size()))) != model.book.pages_of(a).size())
            break;
          std::optional<page_copy> copy;
          if (!model.book.share(a, b, static_cast<std::int64_t>(own.size()), copy)) {
            REQUIRE(model.book.pages_of(b).empty());
            break;
          }
          REQUIRE(copy.has_value() == (own.size() % 4 != 0));
          if (copy) model.copy(*copy);
          other = own;
          break;
        }
        default:
          if (draw.chance(0.3) && a != b && other.empty()) {
            model.book.hand_over(a, b);
            std::swap(own, other);
          } else {
            model.book.release(a);
            own.clear();
          }
      }
      REQUIRE(model.holds());
    }
    for (std::int32_t s = 0; s < slots; ++s)
      model.book.release(s);
    REQUIRE(model.book.free_pages() == model.book.pages());
  }
}

TEST_CASE("a model that forgets the copy of a begun page is told apart") {
  store_model model(8, 4, 2);
  REQUIRE(model.book.grow(0, 6));
  for (int i = 0; i < 6; ++i)
    model.write(0, i + 1);
  std::optional<page_copy> copy;
  REQUIRE(model.book.share(0, 1, 6, copy));
  REQUIRE(copy);
  model.truth[1] = model.truth[0];
  CHECK_FALSE(model.holds());
  model.copy(*copy);
  CHECK(model.holds());
  CHECK(model.book.pages_of(0)[0] == model.book.pages_of(1)[0]);
  CHECK(model.book.pages_of(0)[1] != model.book.pages_of(1)[1]);
}
