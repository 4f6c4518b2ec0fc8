// Where the source tree is: the one file of the tests that knows the path of this checkout, so that
// a compiler cache serves the others to every checkout.
#include "support/test.hpp"

std::filesystem::path quern::test::source_dir() {
  return QUERN_SOURCE_DIR;
}
