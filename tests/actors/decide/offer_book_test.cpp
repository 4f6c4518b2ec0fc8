// Versions that the learner could not offer are not announced, and are asked for again.
#include "actors/decide/offer_book.hpp"

#include "support/test.hpp"

using namespace quern::actors;

TEST_CASE("a version is announced with its step, once") {
  offer_book book(4);
  CHECK(book.announced() == 4);
  CHECK(book.stepped(5, true));
  CHECK_FALSE(book.missing());
  CHECK(book.announced() == 5);
  CHECK_FALSE(book.offered(5));
  CHECK_FALSE(book.stepped(5, true));
}

TEST_CASE("a version that is not offered is not announced, and is missing until it is") {
  offer_book book(4);
  CHECK_FALSE(book.stepped(5, false));
  CHECK(book.announced() == 4);
  CHECK(book.missing() == 5);
  CHECK(book.offered(5));
  CHECK(book.announced() == 5);
  CHECK_FALSE(book.missing());
}

TEST_CASE("the next version that is offered stands for those that were skipped") {
  offer_book book(0);
  CHECK_FALSE(book.stepped(1, false));
  CHECK_FALSE(book.stepped(2, false));
  CHECK(book.missing() == 2);
  CHECK(book.stepped(3, true));
  CHECK_FALSE(book.missing());
}

TEST_CASE("what is offered late is announced if it is newer than what was, and its step is known") {
  offer_book book(0);
  CHECK_FALSE(book.offered(1));
  CHECK_FALSE(book.stepped(1, false));
  CHECK_FALSE(book.stepped(2, false));
  // It crossed with the step to 2: generators come nearer, and 2 is still to be asked for.
  CHECK(book.offered(1));
  CHECK(book.missing() == 2);
  CHECK_FALSE(book.offered(3));
}
