// A false CHECK in the torch flavour: this program must fail, or tests of this flavour check
// nothing.

#include <ATen/ops/ones.h>

#include "support/test.hpp"
TEST_CASE("canary: a false CHECK fails") {
  CHECK(at::ones({2}).sum().item<float>() == 3.0F);
}
