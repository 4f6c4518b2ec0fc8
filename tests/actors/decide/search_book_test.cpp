// The budget of a search and what it shows of itself.
#include "actors/decide/search_book.hpp"

#include "support/test.hpp"

using namespace quern;
using namespace quern::actors;

TEST_CASE("groups are issued for what is left of the budget, counting what may still be judged") {
  search_book book(20, 8, 1);
  CHECK(book.next_group(0) == 8);
  CHECK(book.next_group(8) == 8);
  CHECK(book.next_group(16) == 4);
  CHECK(book.next_group(20) == 0);
  CHECK(book.next_group(24) == 0);
  book.ended("ok", 8);
  CHECK(book.spent() == 8);
  CHECK(book.next_group(8) == 4);
  CHECK_FALSE(book.over(0));
  book.ended("malformed", 12);
  CHECK(book.next_group(0) == 0);
  // What is under way is finished first.
  CHECK_FALSE(book.over(1));
  CHECK(book.over(0));
}

TEST_CASE("what the evaluators failed at is not spent, what a candidate is to blame for is") {
  search_book book(4, 2, 1);
  book.ended("infra_error", 2);
  book.ended("invalid_reference");
  CHECK(book.spent() == 0);
  CHECK(book.next_group(0) == 2);
  // Else a candidate that is always noisy would be replaced for ever.
  for (const char* verdict : {"noisy", "unsupported", "unconfirmed", "timeout"})
    book.ended(verdict);
  CHECK(book.spent() == 4);
  CHECK(book.over(0));
  CHECK(book.verdicts().at("infra_error") == 2);
}

TEST_CASE("a row of the table is due with each group's worth of evaluations, and with the last") {
  search_book book(10, 4, 1);
  CHECK_FALSE(book.row_due(0));
  book.ended("ok", 3);
  CHECK_FALSE(book.row_due(0));
  book.ended("ok");
  CHECK(book.row_due(0));
  CHECK_FALSE(book.row_due(4));
  book.ended("ok", 6);
  CHECK(book.row_due(8));
  CHECK_FALSE(book.row_due(10));
  // A resumed run that asks for less than was spent has no row to come.
  search_book less(2, 4, 1);
  less.ended("ok", 3);
  CHECK_FALSE(less.row_due(3));
}

TEST_CASE("the best kernel of one task stands in the table with its interval") {
  search_book book(64, 8, 1);
  const std::string head = book.table_head();
  CHECK(test::contains(head, "95 % interval"));
  CHECK(test::contains(book.table_row(), "0/64"));
  CHECK(book.summary() == "0 of 64 evaluations, no kernel is right yet");
  book.ended("wrong_value", 3);
  book.ended("ok");
  book.found("t", {7, 120, 115, 126});
  book.ended("ok");
  book.found("t", {8, 120, 119, 121});  // as fast: the first one stays
  CHECK(book.best().at("t") == found_kernel{7, 120, 115, 126, 4});
  book.ended("ok");
  book.found("t", {9, 184, 180, 188});
  CHECK(book.best().at("t") == found_kernel{9, 184, 180, 188, 6});
  CHECK(book.table_row() == "         6/64   1.84x   1.80 to 1.88    3 ok, 3 wrong_value");
  CHECK(book.summary() == "6 of 64 evaluations, best 1.84x");
  CHECK(to_json("t", book.best().at("t")).dump() ==
        R"({"task":"t","sample":9,"speedup_e2":184,"low_e2":180,"high_e2":188,"evaluation":6})");
  // A protocol without an interval.
  book.found("t", {10, 200});
  CHECK(test::contains(book.table_row(), "not told"));
  CHECK_FALSE(to_json("t", book.best().at("t")).contains("low_e2"));
}

TEST_CASE("of several tasks the table shows how many have a kernel, and their mean") {
  search_book book(64, 8, 5);
  book.ended("ok", 2);
  CHECK(test::contains(book.table_head(), "with kernel"));
  CHECK(test::contains(book.table_row(), "0 of 5"));
  book.found("a", {1, 400});
  book.found("b", {2, 100});
  CHECK(book.table_row() == "         2/64       2 of 5      2.00x   2 ok");
  CHECK(test::contains(book.summary(),
                       "a kernel for 2 of 5 tasks, geometric mean of the best 2.00x"));
}
