// Messages for people: likely slips are found, sizes and durations read well.
#include "base/text.hpp"

#include "support/test.hpp"

using namespace quern::base;

TEST_CASE("the nearest name is offered only where it is near") {
  constexpr std::string_view names[] = {"sizes", "inputs", "outputs"};
  CHECK(nearest_name("size", names) == "sizes");
  CHECK(nearest_name("input", names) == "inputs");
  CHECK(nearest_name("zebra", names).empty());
  CHECK(nearest_name("szie", names).empty());  // two letters swapped and one missing
  CHECK(nearest_name("szies", names) == "sizes");
  constexpr std::string_view commands[] = {"why", "eval", "keys", "stop"};
  CHECK(nearest_name("evla", commands) == "eval");
  CHECK(nearest_name("keyes", commands) == "keys");
  // Two slips in a word of three or four letters: nothing is left to know it by.
  CHECK(nearest_name("who", commands) == "why");
  CHECK(nearest_name("wow", commands).empty());
  CHECK(nearest_name("step", commands) == "stop");
  CHECK(nearest_name("list", commands).empty());
  constexpr std::string_view tasks[] = {"matrix_product_of_rows", "softmax_rows"};
  CHECK(nearest_name("matrx_produkt_of_row", tasks) == "matrix_product_of_rows");
  CHECK(nearest_name("matrix_sum_of_rows", tasks).empty());
  CHECK(did_you_mean("size", names) == " (did you mean 'sizes'?)");
}

TEST_CASE("split keeps empty parts, trim takes space only at the ends, one_line joins") {
  CHECK(split("a,,b", ',').size() == 3);
  CHECK(split("", ',').size() == 1);
  CHECK(trim(" \n a b \t") == "a b");
  CHECK(trim("  ").empty());
  CHECK(one_line("a\n\n  b c\r\n") == "a; b c");
  CHECK(one_line(" \n").empty());
}

TEST_CASE("human units") {
  CHECK(human_bytes(640) == "640 B");
  CHECK(human_bytes(1536) == "1.5 KiB");
  CHECK(human_duration(840_us) == "840 us");
  CHECK(human_duration(90_s) == "90.0 s");
  CHECK(human_duration(4800_s) == "1 h 20 min");
}

TEST_CASE("a byte order mark is left out at the beginning only") {
  CHECK(without_byte_order_mark("\xEF\xBB\xBFint x;") == "int x;");
  CHECK(without_byte_order_mark("int x;\xEF\xBB\xBF") == "int x;\xEF\xBB\xBF");
  CHECK(without_byte_order_mark("\xEF\xBB").size() == 2);
}
