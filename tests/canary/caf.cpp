// A false CHECK in the caf flavour: this program must fail, or tests of this flavour check nothing.
#include <caf/all.hpp>

#include "support/test.hpp"

TEST_CASE("canary: a false CHECK fails") {
  CHECK(CAF_VERSION == 0);
}
