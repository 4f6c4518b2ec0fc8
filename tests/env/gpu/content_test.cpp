// Content of tensors as the device makes it, on the host: the generator's known answers, what each
// distribution promises, and that nothing helps to foresee another call's.
#include "env/device/content.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "support/test.hpp"

namespace content = quern::env::content;

namespace {

constexpr std::int64_t many = 1 << 18;

quern_content content_with(std::int32_t kind, std::int64_t elements = many, std::int64_t row = 512,
                           std::int64_t below = 1) {
  return {0x5EC2E7, 42, QUERN_F32, kind, elements, row, below};
}

std::vector<float> floats_of(const quern_content& c) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < c.elements; ++i)
    values.push_back(content::floats_at(c, static_cast<std::uint64_t>(i / 4)).v[i % 4]);
  return values;
}

std::vector<std::int64_t> integers_of(const quern_content& c) {
  std::vector<std::int64_t> values;
  for (std::int64_t i = 0; i < c.elements; ++i)
    values.push_back(
        content::integer_at(c, static_cast<std::uint64_t>(i / 4), static_cast<int>(i % 4)));
  return values;
}

double mean(const std::vector<float>& values) {
  double sum = 0;
  for (const float v : values)
    sum += static_cast<double>(v);
  return sum / static_cast<double>(values.size());
}

double deviation(const std::vector<float>& values) {
  const double middle = mean(values);
  double sum = 0;
  for (const float v : values)
    sum += (static_cast<double>(v) - middle) * (static_cast<double>(v) - middle);
  return std::sqrt(sum / static_cast<double>(values.size()));
}

double share_below(const std::vector<float>& values, double limit) {
  const auto count = std::count_if(values.begin(), values.end(),
                                   [&](float v) { return static_cast<double>(v) < limit; });
  return static_cast<double>(count) / static_cast<double>(values.size());
}

/// Mean, deviation and eleven quantiles of a normal distribution times `scale`.
void check_normal(const std::vector<float>& values, double scale) {
  const double n = static_cast<double>(values.size());
  CHECK(std::abs(mean(values)) < 5 * scale / std::sqrt(n));
  CHECK(std::abs(deviation(values) / scale - 1) < 5 / std::sqrt(2 * n));
  for (double z = -2.5; z <= 2.5; z += 0.5) {
    const double p = 0.5 * std::erfc(-z / std::sqrt(2.0));
    CHECK(std::abs(share_below(values, z * scale) - p) < 5 * std::sqrt(p * (1 - p) / n));
  }
}

/// How far counts of equally likely values are from equal, in deviations of chi-square.
double chi_square_excess(const std::vector<std::int64_t>& values, std::int64_t below) {
  std::vector<double> counts(static_cast<std::size_t>(below));
  for (const auto v : values)
    ++counts[static_cast<std::size_t>(v)];
  const double expected = static_cast<double>(values.size()) / static_cast<double>(below);
  double chi = 0;
  for (const double c : counts)
    chi += (c - expected) * (c - expected) / expected;
  const auto freedom = static_cast<double>(below - 1);
  return (chi - freedom) / std::sqrt(2 * freedom);
}

bool ascending_rows(const std::vector<float>& values, std::int64_t row) {
  for (std::size_t i = 1; i < values.size(); ++i)
    if (i % static_cast<std::size_t>(row) != 0 && values[i] < values[i - 1]) return false;
  return true;
}

void check_words(const content::words& got, const std::vector<std::uint32_t>& want) {
  for (std::size_t i = 0; i < 4; ++i)
    CHECK(got.w[i] == want[i]);
}

}  // namespace

TEST_CASE("Philox4x32-10 gives the known answers of Random123") {
  check_words(content::block_at(0, 0, 0), {0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8});
  check_words(content::block_at(~0ULL, ~0ULL, ~0ULL),
              {0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD});
  check_words(content::block_at(0x299F31D0A4093822, 0x0370734413198A2E, 0x85A308D3243F6A88),
              {0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1});
}

TEST_CASE("the unit interval is open at both ends") {
  CHECK(content::unit(0) > 0.0F);
  CHECK(content::unit(~0U) < 1.0F);
  for (std::uint32_t bits = 0xFFFF0000U; bits != 0; bits += 0x100)
    CHECK(content::unit(bits) < 1.0F);
  CHECK(std::abs(content::unit(0x80000000U) - 0.5F) < 1e-6F);
}

TEST_CASE("normal, large and sorted content is normal") {
  check_normal(floats_of(content_with(QUERN_NORMAL)), 1);
  check_normal(floats_of(content_with(QUERN_LARGE)), 64);
  check_normal(floats_of(content_with(QUERN_SORTED)), 1);
}

TEST_CASE("uniform content fills [-1, 1), positive content [0.5, 1.5)") {
  for (const auto& [kind, low] : {std::pair{QUERN_UNIFORM, -1.0}, {QUERN_POSITIVE, 0.5}}) {
    const double width = kind == QUERN_UNIFORM ? 2 : 1;
    const auto values = floats_of(content_with(kind));
    const auto [least, most] = std::minmax_element(values.begin(), values.end());
    CHECK(static_cast<double>(*least) >= low);
    CHECK(static_cast<double>(*most) < low + width);
    CHECK(static_cast<double>(*least) < low + width / 1e4);
    CHECK(static_cast<double>(*most) > low + width - width / 1e4);
    for (double p = 0.1; p < 0.95; p += 0.1)
      CHECK(std::abs(share_below(values, low + width * p) - p) < 0.005);
  }
}

TEST_CASE("nine of ten elements of sparse content are zero, the others normal") {
  auto values = floats_of(content_with(QUERN_SPARSE));
  const auto zeros = std::count(values.begin(), values.end(), 0.0F);
  CHECK(std::abs(static_cast<double>(zeros) / many - 0.9) < 0.003);
  values.erase(std::remove(values.begin(), values.end(), 0.0F), values.end());
  check_normal(values, 1);
}

TEST_CASE("sorted content ascends along every row, whatever the row's length") {
  for (const std::int64_t row : {1, 2, 3, 7, 33, 1000, 10'007})
    CHECK(ascending_rows(floats_of(content_with(QUERN_SORTED, 10 * row, row)), row));
  // Rows differ: they are drawn, not computed.
  const auto two = floats_of(content_with(QUERN_SORTED, 2000, 1000));
  CHECK_FALSE(std::equal(two.begin(), two.begin() + 1000, two.begin() + 1000));
  // The longest rows have finite ends.
  auto ends = content_with(QUERN_SORTED, std::int64_t{1} << 33, std::int64_t{1} << 33);
  CHECK(std::isfinite(content::floats_at(ends, 0).v[0]));
  CHECK(std::isfinite(content::floats_at(ends, (std::uint64_t{1} << 31) - 1).v[3]));
}

TEST_CASE("constant content is one number that the stream decides") {
  auto c = content_with(QUERN_CONSTANT, 1000);
  const auto values = floats_of(c);
  CHECK(std::count(values.begin(), values.end(), values[0]) == 1000);
  std::vector<float> others;
  for (c.stream = 0; c.stream < 4000; ++c.stream)
    others.push_back(content::floats_at(c, 0).v[0]);
  check_normal(others, 1);
}

TEST_CASE("special content has NaN and both infinities, and is normal otherwise") {
  auto values = floats_of(content_with(QUERN_SPECIAL));
  const auto count = [&](auto is) { return std::count_if(values.begin(), values.end(), is); };
  const double each = static_cast<double>(many) / 64;
  for (const auto found :
       {count([](float v) { return std::isnan(v); }),
        count([](float v) { return v == std::numeric_limits<float>::infinity(); }),
        count([](float v) { return v == -std::numeric_limits<float>::infinity(); })})
    CHECK(std::abs(static_cast<double>(found) - each) < 5 * std::sqrt(each));
  values.erase(
      std::remove_if(values.begin(), values.end(), [](float v) { return !std::isfinite(v); }),
      values.end());
  check_normal(values, 1);
}

TEST_CASE("subnormal content is subnormal, of either sign") {
  int negative = 0;
  for (std::uint64_t p = 0; p < 10'000; ++p) {
    const auto r = content::block_at(1, 2, p);
    for (const auto bits : r.w) {
      const float v = content::subnormal_f32(bits);
      CHECK(std::fpclassify(v) == FP_SUBNORMAL);
      negative += std::signbit(v) ? 1 : 0;
    }
  }
  CHECK(std::abs(negative - 20'000) < 500);
  CHECK(std::fpclassify(content::subnormal_f32(0)) == FP_SUBNORMAL);
  CHECK(std::fpclassify(content::subnormal_f32(~0U)) == FP_SUBNORMAL);
}

TEST_CASE("integers are uniform below their bound") {
  for (const std::int64_t below : {1, 2, 7, 256, 1000}) {
    CAPTURE(below);
    const auto values = integers_of(content_with(QUERN_UNIFORM, many, 512, below));
    const auto [least, most] = std::minmax_element(values.begin(), values.end());
    CHECK(*least == 0);
    CHECK(*most == below - 1);
    if (below > 1) CHECK(std::abs(chi_square_excess(values, below)) < 5);
  }
  // Bounds that need more than 32 bits.
  constexpr std::int64_t large = std::int64_t{1} << 40;
  auto values = integers_of(content_with(QUERN_UNIFORM, many, 512, large));
  CHECK(*std::max_element(values.begin(), values.end()) < large);
  for (auto& v : values)
    v /= large / 16;
  CHECK(std::abs(chi_square_excess(values, 16)) < 5);
}

TEST_CASE("integers have sparse, sorted and constant forms") {
  const auto sparse = integers_of(content_with(QUERN_SPARSE, many, 512, 100));
  const auto zeros = static_cast<double>(std::count(sparse.begin(), sparse.end(), 0));
  CHECK(std::abs(zeros / many - (0.9 + 0.1 / 100)) < 0.003);
  for (const std::int64_t row : {1, 5, 1000}) {
    const auto sorted = integers_of(content_with(QUERN_SORTED, 20 * row, row, 300));
    for (std::size_t i = 0; i < sorted.size(); ++i) {
      CHECK(sorted[i] >= 0);
      CHECK(sorted[i] < 300);
      if (i % static_cast<std::size_t>(row) != 0) CHECK(sorted[i] >= sorted[i - 1]);
    }
  }
  auto c = content_with(QUERN_CONSTANT, 1000, 10, 50);
  const auto constant = integers_of(c);
  CHECK(std::count(constant.begin(), constant.end(), constant[0]) == 1000);
  std::vector<std::int64_t> others;
  for (c.stream = 0; c.stream < 20'000; ++c.stream)
    others.push_back(content::integer_at(c, 0, 0));
  CHECK(std::abs(chi_square_excess(others, 50)) < 5);
}

TEST_CASE("equal arguments give equal content; another key, stream or place gives another") {
  const auto base = content_with(QUERN_NORMAL, 1 << 16);
  const auto values = floats_of(base);
  CHECK(floats_of(base) == values);
  auto stream = base, key = base, next = base;
  ++stream.stream;
  ++key.key;
  next.stream += std::uint64_t{1} << 32;
  for (const auto& other : {stream, key, next}) {
    const auto others = floats_of(other);
    double product = 0;
    int equal = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      product += static_cast<double>(values[i]) * static_cast<double>(others[i]);
      equal += values[i] == others[i] ? 1 : 0;
    }
    // The correlation of unrelated normal numbers has deviation 1 / sqrt(n).
    CHECK(std::abs(product) < 5 * std::sqrt(static_cast<double>(values.size())));
    CHECK(equal < 10);
  }
}

TEST_CASE("content of doubles is no content of floats, and next to it") {
  int narrow = 0;
  for (std::uint64_t p = 0; p < 1000; ++p) {
    const auto r = content::block_at(3, 4, p);
    const float value = content::unit(r.w[0]) + 0.5F;
    const double wide = content::widened(value, r.w[1]);
    narrow += static_cast<double>(static_cast<float>(wide)) == wide ? 1 : 0;
    CHECK(std::abs(wide / static_cast<double>(value) - 1) < 6e-8);
  }
  CHECK(narrow <= 1);
}

TEST_CASE("the quantile function inverts the normal distribution") {
  for (double z = -4; z <= 4.01; z += 0.25) {
    const auto p = static_cast<float>(0.5 * std::erfc(-z / std::sqrt(2.0)));
    // Near 1 the next float is a visible step of z away.
    CHECK(std::abs(static_cast<double>(content::normal_quantile(p)) - z) < (z > 3 ? 2e-2 : 1e-3));
  }
}
