// Records survive a round trip, and a cut or padded record is refused.
#include "base/bytes.hpp"

#include <cmath>
#include <limits>

#include "base/random.hpp"
#include "support/test.hpp"

using namespace quern::base;

namespace {

std::string sample_record() {
  byte_writer out;
  out.u8(7);
  out.u32(0xDEADBEEF);
  out.i64(-5);
  out.f64(-std::numeric_limits<double>::infinity());
  out.text("grain");
  return out.take();
}

status read_sample(std::string_view bytes) {
  byte_reader in(bytes);
  QUERN_TRY(const auto a, in.u8());
  QUERN_TRY(const auto b, in.u32());
  QUERN_TRY(const auto c, in.i64());
  QUERN_TRY(const auto d, in.f64());
  QUERN_TRY(const auto e, in.text());
  CHECK(a == 7);
  CHECK(b == 0xDEADBEEF);
  CHECK(c == -5);
  CHECK(std::isinf(d));
  CHECK(e == "grain");
  return in.finish();
}

}  // namespace

TEST_CASE("a record comes back as it was written") {
  CHECK(read_sample(sample_record()));
}

TEST_CASE("every cut of a record is refused") {
  const std::string record = sample_record();
  for (std::size_t length = 0; length < record.size(); ++length) {
    byte_reader in(std::string_view(record).substr(0, length));
    const bool complete = in.u8() && in.u32() && in.i64() && in.f64() && in.text();
    CHECK_FALSE(complete);
  }
}

TEST_CASE("bytes left over are refused") {
  const auto result = read_sample(sample_record() + "x");
  REQUIRE_FALSE(result);
  CHECK(result.error().code == errc::corrupt);
}

TEST_CASE("a length beyond the limit is refused before anything is read") {
  byte_writer out;
  out.text("0123456789");
  byte_reader in(out.buffer());
  CHECK_FALSE(in.text(9));
}
