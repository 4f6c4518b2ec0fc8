// Seed variants: asked for once, handed out within room, answered once.
#include "actors/decide/seed_variant_book.hpp"

#include "support/test.hpp"

namespace {

using namespace quern;
using namespace quern::actors;

sample_verdict verdict_of(sample_id id, bool counts, bool exhausted) {
  sample_verdict answer;
  answer.sample = id;
  answer.counts = counts;
  answer.exhausted = exhausted;
  return answer;
}

TEST_CASE(
    "seed variants wait in order, are handed out within room, and have numbers of their own") {
  seed_variant_book book;
  CHECK_FALSE(book.drawn("a"));
  book.draw("a", {"one", "two"}, 3, 7);
  book.draw("b", {"three"}, 3, 8);
  CHECK(book.drawn("a"));
  CHECK(book.open() == 3);
  CHECK(book.out() == 0);
  const auto first = book.take(2);
  REQUIRE(first.size() == 2);
  CHECK(first[0].sample == first_seed_variant);
  CHECK(first[0].source == "one");
  CHECK(first[0].task == "a");
  CHECK(first[0].incarnation == 3);
  CHECK(first[0].turn == 7);
  CHECK(first[1].sample == first_seed_variant + 1);
  CHECK(book.out() == 2);
  CHECK(book.take(10).size() == 1);
  CHECK(book.take(10).empty());
  CHECK(book.out() == 3);
}

TEST_CASE("a task waits until each of its seed variants has a verdict that is final") {
  seed_variant_book book;
  book.draw("a", {"one", "two"}, 1, 1);
  book.draw("none", {}, 1, 1);
  CHECK(book.drawn("none"));
  CHECK_FALSE(book.waits_for("none"));
  CHECK_FALSE(book.waits_for("another"));
  (void)book.take(2);
  CHECK_FALSE(book.answered(verdict_of(first_seed_variant, false, false)));
  CHECK(book.waits_for("a"));
  const auto first = book.answered(verdict_of(first_seed_variant, true, false));
  REQUIRE(first);
  CHECK(first->task == "a");
  CHECK(first->source == "one");
  CHECK_FALSE(book.answered(verdict_of(first_seed_variant, true, false)));
  CHECK(book.waits_for("a"));
  CHECK(book.answered(verdict_of(first_seed_variant + 1, false, true)));
  CHECK_FALSE(book.waits_for("a"));
  CHECK(book.open() == 0);
}

TEST_CASE("in a new incarnation late answers are nobody's") {
  seed_variant_book book;
  book.draw("a", {"one"}, 1, 1);
  (void)book.take(1);
  book.clear();
  CHECK_FALSE(book.drawn("a"));
  book.draw("a", {"one"}, 2, 1);
  CHECK_FALSE(book.answered(verdict_of(first_seed_variant, true, false)));
  CHECK(book.answered(verdict_of(first_seed_variant + 1, true, false)));
}

}  // namespace
