// A false CHECK in the plain flavour: this program must fail, or tests of this flavour check
// nothing.

#include "support/test.hpp"

TEST_CASE("canary: a false CHECK fails") {
  CHECK(1 + 1 == 3);
}
