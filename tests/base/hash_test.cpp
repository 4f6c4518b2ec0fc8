// Hashes agree with xxHash's published values, and pieces do not run together.
#include "base/hash.hpp"

#include "support/test.hpp"

using namespace quern::base;

TEST_CASE("XXH3-128 of the empty text is the published value") {
  CHECK(to_hex(xxh128("")) == "99aa06d3014798d86001c324468d497f");
}

TEST_CASE("hex goes both ways and refuses what is not a hash") {
  const hash128 hash = xxh128("grain");
  CHECK(parse_hash(to_hex(hash)).value() == hash);
  CHECK_FALSE(parse_hash("99aa"));
  CHECK_FALSE(parse_hash("99aa06d3014798d86001c324468d497g"));
}

TEST_CASE("the borders of pieces count") {
  CHECK(hasher().add("ab").add("c").digest() != hasher().add("a").add("bc").digest());
  CHECK(hasher().add("ab").digest() == hasher().add("ab").digest());
}
