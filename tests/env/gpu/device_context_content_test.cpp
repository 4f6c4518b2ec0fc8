// Content as the device makes it against the same computed on the host: every type, every
// distribution, every kind of tail; and that a single changed element is found where it is.
#include "env/gpu/device_context_fixture.hpp"

using namespace quern;
using namespace quern::test;

namespace {

namespace content = env::content;

/// Element `i` before it is rounded to f32, bf16 or f16; f64 as it is.
double host_float(const quern_content& c, std::int64_t i) {
  const auto position = static_cast<std::uint64_t>(i / 4);
  const float value = content::floats_at(c, position).v[i % 4];
  if (c.type != QUERN_F64) return static_cast<double>(value);
  if (c.kind == QUERN_CONSTANT) return content::widened(value, 0);
  const auto extra = content::block_at(c.key, c.stream ^ (content::side_stream << 1), position);
  return content::widened(value, extra.w[i % 4]);
}

bool is_subnormal(env::dtype type, const std::vector<std::byte>& bytes, std::size_t i) {
  const std::byte* at = bytes.data() + i * env::size_of(type);
  switch (type) {
    case env::dtype::f32:
      return std::fpclassify(read_as<float>(at)) == FP_SUBNORMAL;
    case env::dtype::f64:
      return std::fpclassify(read_as<double>(at)) == FP_SUBNORMAL;
    case env::dtype::bf16:
      return std::fpclassify(env::from_bf16(read_as<std::uint16_t>(at))) == FP_SUBNORMAL;
    default: {
      const auto bits = read_as<std::uint16_t>(at);
      return (bits & 0x7C00) == 0 && (bits & 0x03FF) != 0;
    }
  }
}

/// What rounding to the type, and other last bits of logarithm and cosine, may differ by.
double allowed_difference(env::dtype type, double value) {
  const double last_bits = 4e-6 * std::abs(value) + 4e-6;
  if (type == env::dtype::bf16) return last_bits + std::abs(value) / 128;
  if (type == env::dtype::f16) return last_bits + std::abs(value) / 1024 + 6e-8;
  return last_bits;
}

bool element_is_right(const quern_content& c, env::dtype type, const std::vector<std::byte>& bytes,
                      std::int64_t i) {
  const auto at = static_cast<std::size_t>(i);
  const double got = number_at(type, bytes, at);
  if (!env::is_floating(type))
    return got == static_cast<double>(content::integer_at(c, static_cast<std::uint64_t>(i / 4),
                                                          static_cast<int>(i % 4)));
  if (c.kind == QUERN_DENORMAL) return is_subnormal(type, bytes, at);
  const double want = host_float(c, i);
  if (std::isnan(want)) return std::isnan(got);
  if (std::isinf(want) || want == 0) return got == want;
  return std::abs(got - want) <= allowed_difference(type, want);
}

/// Elements of the tensor on the device that are not what the host computes.
std::int64_t count_wrong_elements(env::device_context& context, std::uint64_t address,
                                  const env::tensor_layout& layout, const quern_content& c) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(layout.bytes));
  REQUIRE(context.read(bytes, address).has_value());
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < layout.elements; ++i)
    wrong += element_is_right(c, layout.type, bytes, i) ? 0 : 1;
  return wrong;
}

constexpr std::uint32_t untouched = 0xA5A5A5A5;
constexpr std::int64_t lengths[] = {1, 2, 3, 4, 5, 7, 1023, 1024, 1026, 100'003};

}  // namespace

TEST_CASE("content on the device is what the host computes, and ends where the tensor ends") {
  auto* context = the_context();
  if (context == nullptr) return;
  const auto memory = context->allocate(2 << 20).value();
  for (const auto type : all_types)
    for (const auto kind : kinds_of(type))
      for (const auto elements : lengths) {
        CAPTURE(env::name_of(type));
        CAPTURE(env::name_of(kind));
        CAPTURE(elements);
        const auto layout = layout_of(type, elements, elements > 1000 ? 500 : 0);
        const auto c = env::content_of(layout, kind, 77, 88);
        const auto bytes = static_cast<std::uint64_t>(layout.bytes);
        context->set(memory.address(), (bytes + 4096) / 4 * 4, untouched);
        context->fill(memory.address(), c);
        context->check_content(memory.address(), c);
        CHECK(wait_for(*context)[0].clean());
        CHECK(count_wrong_elements(*context, memory.address(), layout, c) == 0);
        std::vector<std::byte> behind(1024);
        REQUIRE(context->read(behind, memory.address() + bytes).has_value());
        CHECK(std::count(behind.begin(), behind.end(), std::byte{0xA5}) == 1024);
      }
}

TEST_CASE("an element that is not the content's is found where it is, and only it") {
  auto* context = the_context();
  if (context == nullptr) return;
  const auto memory = context->allocate(1 << 20).value();
  for (const auto type : all_types)
    for (const auto kind : kinds_of(type)) {
      CAPTURE(env::name_of(type));
      CAPTURE(env::name_of(kind));
      const auto layout = layout_of(type, 100'003);
      const auto c = env::content_of(layout, kind, 5, 6);
      const auto width = env::size_of(type);
      context->fill(memory.address(), c);
      for (const std::int64_t index : {0, 1, 50'001, 100'000, 100'002}) {
        const auto at = memory.address() + static_cast<std::uint64_t>(index) * width;
        std::vector<std::byte> original(width), other(width);
        REQUIRE(context->read(original, at).has_value());
        other = original;
        // The lowest bit: the nearest number there is (of NaN, any bit; so its sign and size).
        other[0] ^= std::byte{1};
        if (std::isnan(number_at(type, original, 0))) other = bytes_of_number(type, 1);
        REQUIRE(context->write(at, other).has_value());
        context->check_content(memory.address(), c);
        const auto found = wait_for(*context);
        CHECK(found[0].wrong == 1);
        CHECK(found[0].first == static_cast<std::uint64_t>(index));
        // Filling that element alone repairs it to the bit.
        context->fill_some(memory.address(), c, index, 1);
        context->check_content(memory.address(), c);
        CHECK(wait_for(*context)[0].clean());
      }
    }
}

TEST_CASE("some elements of another content change these elements") {
  auto* context = the_context();
  if (context == nullptr) return;
  const auto memory = context->allocate(1 << 20).value();
  const auto layout = layout_of(env::dtype::f32, 10'007);
  const auto c = env::content_of(layout, env::distribution::normal, 5, 6);
  auto other = c;
  other.stream = 7;
  context->fill(memory.address(), c);
  context->fill_some(memory.address(), other, 10'006, 1);
  context->check_content(memory.address(), c);
  context->check_content(memory.address(), other);
  const auto found = wait_for(*context);
  REQUIRE(found.size() == 2);
  CHECK(found[0].wrong == 1);
  CHECK(found[0].first == 10'006);
  CHECK(found[1].wrong == 10'006);
  CHECK(found[1].first == 0);
  // A stretch that begins and ends between blocks of four.
  context->fill(memory.address(), c);
  context->fill_some(memory.address(), other, 1021, 3334);
  context->check_content(memory.address(), c);
  context->fill_some(memory.address(), c, 1021, 3334);
  context->fill_some(memory.address(), other, 77, 0);
  context->check_content(memory.address(), c);
  const auto stretch = wait_for(*context);
  CHECK(stretch[0].wrong == 3334);
  CHECK(stretch[0].first == 1021);
  CHECK(stretch[1].clean());
  // Another key is another content, too.
  auto key = c;
  ++key.key;
  context->check_content(memory.address(), key);
  CHECK(wait_for(*context)[0].wrong > 10'000);
}

TEST_CASE("patterns are found where they were overwritten") {
  auto* context = the_context();
  if (context == nullptr) return;
  const auto memory = context->allocate(1 << 20).value();
  context->set(memory.address(), 400'012, untouched);
  context->check_pattern(memory.address(), 400'012, untouched);
  CHECK(wait_for(*context)[0].clean());
  const std::vector<std::byte> one(1, std::byte{0});
  REQUIRE(context->write(memory.address() + 400'011, one).has_value());
  REQUIRE(context->write(memory.address() + 4 * 777 + 1, one).has_value());
  context->check_pattern(memory.address(), 400'012, untouched);
  context->check_pattern(memory.address() + 4 * 778, 4 * 1000, untouched);
  const auto found = wait_for(*context);
  CHECK(found[0].wrong == 2);
  CHECK(found[0].first == 777);
  CHECK(found[1].clean());
}
