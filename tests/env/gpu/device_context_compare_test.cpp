// Comparisons on the device: the tolerance's edge, NaN and infinities, integers, f64 as what is
// wanted, bits; findings in their order; errors that are told.
#include <limits>

#include "env/gpu/device_context_fixture.hpp"

using namespace quern;
using namespace quern::test;

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();
const double no_number = std::nan("");

struct compared {
  double got, want;
  bool right;
};

/// One finding for each pair, compared alone.
std::vector<env::device_finding> compare_pairs(env::device_context& context, env::dtype type,
                                               const std::vector<compared>& pairs,
                                               const env::tolerance& limit, bool wide) {
  std::vector<double> got, want;
  for (const auto& p : pairs) {
    got.push_back(p.got);
    want.push_back(p.want);
  }
  const auto want_type = wide ? env::dtype::f64 : type;
  const device_values left(context, type, got), right(context, want_type, want);
  const auto one = layout_of(type, 1);
  for (std::size_t i = 0; i < pairs.size(); ++i)
    context.compare(left.address() + i * env::size_of(type),
                    right.address() + i * env::size_of(want_type), one, limit, wide);
  return wait_for(context);
}

/// What holds of every floating type; numbers that all of them hold exactly.
const std::vector<compared> floating_rules{
    {1, 1, true},
    {0, -0.0, true},
    {1.25, 1, true},     // atol 0.125 + rtol 0.125 * 1, exactly
    {1.375, 1, false},   // beyond
    {0.75, 1, true},     // on the other side
    {0.625, 1, false},   //
    {-1.25, -1, true},   // of |want|
    {10, 8, false},      // atol 0.125 + 1 < 2
    {9, 8, true},        //
    {0.125, 0, true},    // atol alone
    {0.1875, 0, false},  //
    {no_number, no_number, true},
    {no_number, 1, false},
    {1, no_number, false},
    {infinite, infinite, true},
    {-infinite, -infinite, true},
    {infinite, -infinite, false},
    {infinite, 1, false},
    {1, infinite, false},
    {infinite, no_number, false},
    {no_number, -infinite, false},
};

}  // namespace

TEST_CASE("floating elements are right within the tolerance, NaN and infinities where wanted") {
  auto* context = the_context();
  if (context == nullptr) return;
  for (const auto type : all_types) {
    if (!env::is_floating(type)) continue;
    for (const bool wide : {false, true}) {
      CAPTURE(env::name_of(type));
      CAPTURE(wide);
      const auto found = compare_pairs(*context, type, floating_rules, {0.125, 0.125}, wide);
      REQUIRE(found.size() == floating_rules.size());
      for (std::size_t i = 0; i < found.size(); ++i) {
        CAPTURE(floating_rules[i].got);
        CAPTURE(floating_rules[i].want);
        CHECK(found[i].clean() == floating_rules[i].right);
      }
    }
  }
}

TEST_CASE("wide comparisons see what the narrow type would round away") {
  auto* context = the_context();
  if (context == nullptr) return;
  const std::vector<compared> pairs{{1, 1 + 1e-9, false}, {1, 1 + 1e-12, true}};
  for (const auto type : {env::dtype::f32, env::dtype::bf16, env::dtype::f16}) {
    const auto found = compare_pairs(*context, type, pairs, {1e-10, 0}, true);
    CHECK_FALSE(found[0].clean());
    CHECK(found[1].clean());
    CHECK(compare_pairs(*context, type, pairs, {1e-10, 0}, false)[0].clean());
  }
}

TEST_CASE("integers are equal or wrong, whatever the tolerance") {
  auto* context = the_context();
  if (context == nullptr) return;
  const std::vector<compared> pairs{{7, 7, true}, {7, 8, false}, {200, 199, false}, {0, 0, true}};
  for (const auto type : {env::dtype::i32, env::dtype::i64, env::dtype::u8}) {
    const auto found = compare_pairs(*context, type, pairs, {100, 100}, false);
    for (std::size_t i = 0; i < pairs.size(); ++i)
      CHECK(found[i].clean() == pairs[i].right);
  }
}

TEST_CASE("wrong elements of a tensor are counted, and the first of them named") {
  auto* context = the_context();
  if (context == nullptr) return;
  constexpr std::size_t elements = 100'003;
  for (const auto type : all_types) {
    CAPTURE(env::name_of(type));
    std::vector<double> values(elements);
    for (std::size_t i = 0; i < elements; ++i)
      values[i] = static_cast<double>(i % 100);
    const device_values want(*context, type, values);
    for (const std::size_t last : {std::size_t{0}, std::size_t{65'537}, elements - 1}) {
      auto changed = values;
      changed[elements - 1] += 3;
      changed[last] = values[last] + 5;
      const device_values got(*context, type, changed);
      const std::uint64_t wrong = last == elements - 1 ? 1 : 2;
      context->compare(got.address(), want.address(), want.layout, {0.25, 0});
      context->same_bits(got.address(), want.address(), want.layout);
      context->same_bits(want.address(), want.address(), want.layout);
      const auto found = wait_for(*context);
      REQUIRE(found.size() == 3);
      for (std::size_t i = 0; i < 2; ++i) {
        CHECK(found[i].wrong == wrong);
        CHECK(found[i].first == last);
      }
      CHECK(found[2].clean());
    }
    // What lies behind the last element is nobody's business.
    auto shorter = want.layout;
    --shorter.elements;
    auto changed = values;
    changed[elements - 1] += 3;
    const device_values got(*context, type, changed);
    context->compare(got.address(), want.address(), shorter, {0, 0});
    context->same_bits(got.address(), want.address(), shorter);
    for (const auto& f : wait_for(*context))
      CHECK(f.clean());
  }
}

TEST_CASE("bits: signs of zero differ, any NaN is like any other") {
  auto* context = the_context();
  if (context == nullptr) return;
  const auto memory = context->allocate(64).value();
  const std::uint32_t a[] = {0x00000000, 0x7FC00000, 0x7FC00000, 0x3F800000};
  const std::uint32_t b[] = {0x80000000, 0xFFC01234, 0x7F800000, 0x3F800001};
  REQUIRE(context->write(memory.address(), std::as_bytes(std::span(a))).has_value());
  REQUIRE(context->write(memory.address() + 16, std::as_bytes(std::span(b))).has_value());
  for (std::uint64_t i = 0; i < 4; ++i)
    context->same_bits(memory.address() + 4 * i, memory.address() + 16 + 4 * i,
                       layout_of(env::dtype::f32, 1));
  const auto found = wait_for(*context);
  CHECK_FALSE(found[0].clean());
  CHECK(found[1].clean());
  CHECK_FALSE(found[2].clean());
  CHECK_FALSE(found[3].clean());
}

TEST_CASE("copies, and findings that start anew after every wait") {
  auto* context = the_context();
  if (context == nullptr) return;
  const device_values from(*context, env::dtype::i32, {1, 2, 3, 4, 5});
  const device_values to(*context, env::dtype::i32, {0, 0, 0, 0, 9});
  context->same_bits(to.address(), from.address(), from.layout);
  CHECK(wait_for(*context)[0].wrong == 5);
  context->copy(to.address(), from.address(), 16);
  context->same_bits(to.address(), from.address(), from.layout);
  const auto found = wait_for(*context);
  REQUIRE(found.size() == 1);
  CHECK(found[0].wrong == 1);
  CHECK(found[0].first == 4);
  CHECK(wait_for(*context).empty());
}

TEST_CASE("what the context cannot do is told at the next wait, once") {
  auto* context = the_context();
  if (context == nullptr) return;
  const auto memory = context->allocate(1 << 16).value();
  context->set(memory.address() + 2, 4, 0);
  const auto odd = context->wait();
  REQUIRE_FALSE(odd.has_value());
  CHECK(contains(odd.error().message, "words of 4 bytes"));
  CHECK(context->wait().has_value());
  const auto layout = layout_of(env::dtype::f32, 10);
  const auto c = env::content_of(layout, env::distribution::normal, 1, 1);
  for (const auto& [first, count] : {std::pair{10, 1}, {-1, 1}, {5, 6}, {0, -1}}) {
    context->fill_some(memory.address(), c, first, count);
    CHECK_FALSE(context->wait().has_value());
  }
  CHECK(context->wait().has_value());
  for (int i = 0; i <= QUERN_MOST_FINDINGS; ++i)
    context->check_pattern(memory.address(), 4, 0);
  const auto many = context->wait();
  REQUIRE_FALSE(many.has_value());
  CHECK(contains(many.error().message, "more than 4096 checks"));
  CHECK(context->wait().has_value());
}

TEST_CASE("memory is given back, and its amount is the device's granularity") {
  auto* context = the_context();
  if (context == nullptr) return;
  const auto granularity = context->facts().granularity;
  REQUIRE(granularity > 0);
  auto one = context->allocate(1).value();
  CHECK(one.bytes() == granularity);
  CHECK(one.fd() >= 0);
  const auto before = context->free_bytes().value();
  auto large = context->allocate(1ULL << 30).value();
  CHECK(context->free_bytes().value() + (1ULL << 30) <= before + (64ULL << 20));
  large = std::move(one);
  CHECK(large.bytes() == granularity);
  CHECK(one.empty());
  CHECK(context->free_bytes().value() + (64ULL << 20) >= before);
  CHECK_FALSE(context->allocate(1ULL << 50).has_value());
  CHECK(context->bandwidth(64 << 20).value() > 1e10);
}
