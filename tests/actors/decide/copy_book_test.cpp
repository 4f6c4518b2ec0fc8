// Two copies of the weights: whoever publishes does not wait for one slow reader.
#include "actors/decide/copy_book.hpp"

#include "support/test.hpp"

using namespace quern::actors;

namespace {

/// Publishes `version`; whether it is offered.
bool publish(copy_book& book, weights_version version) {
  if (!book.begin()) return false;
  book.written(version);
  return true;
}

}  // namespace

TEST_CASE("copies take turns; a reader keeps the version that it has begun with") {
  copy_book book(0);
  CHECK_FALSE(book.offers(0));
  REQUIRE(publish(book, 1));
  CHECK(book.offers(0));
  const auto reading = book.take();
  REQUIRE(publish(book, 2));
  CHECK(book.version_of(reading) == 1);
  CHECK(book.version_of(book.take()) == 2);
}

TEST_CASE(
    "where a slow reader has the older copy, the newest is written over, and not read meanwhile") {
  copy_book book(0);
  REQUIRE(publish(book, 1));
  const auto slow = book.take();
  REQUIRE(publish(book, 2));
  const auto into = book.begin();
  REQUIRE(into);
  CHECK(*into != slow);
  CHECK_FALSE(book.readable());
  CHECK_FALSE(book.offers(0));
  book.written(3);
  CHECK(book.offers(2));
  CHECK(book.version_of(book.take()) == 3);
  CHECK(book.version_of(slow) == 1);
}

TEST_CASE("where both copies are read there is none to write, until one is given back") {
  copy_book book(0);
  REQUIRE(publish(book, 1));
  const auto first = book.take();
  REQUIRE(publish(book, 2));
  const auto second = book.take();
  CHECK_FALSE(publish(book, 3));
  CHECK_FALSE(book.offers(2));
  CHECK(book.readable());
  book.give_back(first);
  REQUIRE(publish(book, 3));
  CHECK(book.offers(2));
  CHECK(book.version_of(second) == 2);
}
