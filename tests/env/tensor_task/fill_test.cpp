// Input content: what each distribution means, that it is addressed, and that every timed call gets
// another one.
#include "env/tensor_task/fill.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "env/tensor_task/float_bits.hpp"
#include "support/test.hpp"

using namespace quern;
using env::distribution;
using env::dtype;
using env::tensor_bytes;

namespace {

env::tensor_layout layout_of(dtype type, std::vector<std::int64_t> shape, std::int64_t below = 0) {
  env::tensor_layout result;
  result.name = std::string("x");
  result.type = type;
  result.shape = std::move(shape);
  for (const std::int64_t extent : result.shape)
    result.elements *= extent;
  result.bytes = result.elements * static_cast<std::int64_t>(env::size_of(type));
  result.below = below;
  return result;
}

tensor_bytes filled(const env::tensor_layout& layout, distribution kind,
                    env::content_address where = {1, 0, 0}) {
  tensor_bytes bytes(static_cast<std::size_t>(layout.bytes));
  const auto done = env::fill_input(layout, kind, where, bytes);
  REQUIRE_MESSAGE(done.has_value(), done.error().message);
  return bytes;
}

tensor_bytes refreshed(const env::tensor_layout& layout, distribution kind,
                       const tensor_bytes& base, std::uint64_t call) {
  tensor_bytes bytes(base.size());
  const auto done = env::refresh_input(layout, kind, {1, 0, 0}, call, base, bytes);
  REQUIRE_MESSAGE(done.has_value(), done.error().message);
  return bytes;
}

template <class T>
std::vector<T> values_of(const tensor_bytes& bytes) {
  std::vector<T> result(bytes.size() / sizeof(T));
  std::memcpy(result.data(), bytes.data(), bytes.size());
  return result;
}

std::vector<double> widened(const tensor_bytes& bytes, dtype type) {
  std::vector<double> result;
  const auto add = [&]<class T>(T) {
    for (const T value : values_of<T>(bytes))
      result.push_back(static_cast<double>(value));
  };
  if (type == dtype::f32) add(float{});
  if (type == dtype::f64) add(double{});
  if (type == dtype::i32) add(std::int32_t{});
  if (type == dtype::i64) add(std::int64_t{});
  if (type == dtype::u8) add(std::uint8_t{});
  if (type == dtype::bf16) {
    for (const auto bits : values_of<std::uint16_t>(bytes))
      result.push_back(static_cast<double>(env::from_bf16(bits)));
  }
  if (type == dtype::f16) {
    for (const auto bits : values_of<std::uint16_t>(bytes))
      result.push_back(static_cast<double>(env::from_f16(bits)));
  }
  return result;
}

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values)
    sum += value;
  return sum / static_cast<double>(values.size());
}

double deviation_of(const std::vector<double>& values) {
  const double mean = mean_of(values);
  double sum = 0;
  for (const double value : values)
    sum += (value - mean) * (value - mean);
  return std::sqrt(sum / static_cast<double>(values.size()));
}

bool rows_ascend(const std::vector<double>& values, std::size_t row) {
  for (std::size_t i = 1; i < values.size(); ++i) {
    if (i % row != 0 && values[i] < values[i - 1]) return false;
  }
  return true;
}

double least_normal(dtype type) {
  if (type == dtype::f64) return 0x1p-1022;
  return type == dtype::f16 ? 0x1p-14 : 0x1p-126;
}

/// That fresh content of one type is of its kind; bounds allow for 12288 elements drawn in blocks.
void check_meaning(distribution kind, const std::vector<double>& v, dtype type, std::size_t row,
                   std::int64_t below) {
  const auto count = static_cast<double>(v.size());
  const auto share = [&](auto is) {
    return static_cast<double>(std::count_if(v.begin(), v.end(), is)) / count;
  };
  if (below > 0) {
    CHECK(*std::min_element(v.begin(), v.end()) >= 0);
    CHECK(*std::max_element(v.begin(), v.end()) < static_cast<double>(below));
  }
  switch (kind) {
    case distribution::normal:
    case distribution::large: {
      const double scale = kind == distribution::large ? 64 : 1;
      CHECK(std::fabs(mean_of(v)) < 0.08 * scale);
      CHECK(std::fabs(deviation_of(v) / scale - 1) < 0.07);
      CHECK(std::fabs(share([&](double x) { return std::fabs(x) > 2 * scale; }) - 0.0455) < 0.02);
      break;
    }
    case distribution::uniform:
      if (below > 0) {
        CHECK(std::fabs(mean_of(v) / static_cast<double>(below) - 0.5) < 0.02);
        break;
      }
      CHECK(*std::min_element(v.begin(), v.end()) >= -1);
      CHECK(*std::max_element(v.begin(), v.end()) <= 1);
      CHECK(std::fabs(deviation_of(v) * std::sqrt(3.0) - 1) < 0.03);
      break;
    case distribution::sparse:
      CHECK(std::fabs(share([](double x) { return x == 0; }) - 0.8984) < 0.03);
      break;
    case distribution::sorted:
      CHECK(rows_ascend(v, row));
      if (below == 0) CHECK(std::fabs(deviation_of(v) - 1) < 0.1);
      break;
    case distribution::constant:
      CHECK(std::set<double>(v.begin(), v.end()).size() == 1);
      break;
    case distribution::denormal:
      CHECK(share([&](double x) { return x != 0 && std::fabs(x) < least_normal(type); }) == 1);
      CHECK(std::fabs(share([](double x) { return x < 0; }) - 0.5) < 0.05);
      break;
    case distribution::positive:
      CHECK(*std::min_element(v.begin(), v.end()) >= 0.5);
      CHECK(*std::max_element(v.begin(), v.end()) <= 1.5);
      CHECK(std::fabs(mean_of(v) - 1) < 0.02);
      break;
    case distribution::special:
      CHECK(std::fabs(share([](double x) { return !std::isfinite(x); }) - 12.0 / 256) < 0.02);
      break;
  }
}

constexpr dtype floating_types[] = {dtype::f32, dtype::f64, dtype::bf16, dtype::f16};
constexpr dtype integer_types[] = {dtype::i32, dtype::i64, dtype::u8};

}  // namespace

TEST_CASE("floating distributions mean what they say, in every type") {
  for (const dtype type : floating_types) {
    CAPTURE(env::name_of(type));
    const auto layout = layout_of(type, {400, 250});
    const auto normal = widened(filled(layout, distribution::normal), type);
    CHECK(std::fabs(mean_of(normal)) < 0.02);
    CHECK(std::fabs(deviation_of(normal) - 1) < 0.02);
    const auto tails =
        std::count_if(normal.begin(), normal.end(), [](double v) { return std::fabs(v) > 2; });
    CHECK(std::fabs(static_cast<double>(tails) / 1e5 - 0.0455) < 0.004);

    const auto uniform = widened(filled(layout, distribution::uniform), type);
    CHECK(*std::min_element(uniform.begin(), uniform.end()) >= -1);
    CHECK(*std::max_element(uniform.begin(), uniform.end()) <= 1);
    CHECK(std::fabs(deviation_of(uniform) - 1 / std::sqrt(3.0)) < 0.01);

    CHECK(std::fabs(deviation_of(widened(filled(layout, distribution::large), type)) - 64) < 1.3);

    const auto sparse = widened(filled(layout, distribution::sparse), type);
    const auto zeros = std::count(sparse.begin(), sparse.end(), 0.0);
    CHECK(std::fabs(static_cast<double>(zeros) / 1e5 - 0.8984) < 0.01);
    CHECK(deviation_of(sparse) > 0.25);

    const auto sorted = widened(filled(layout, distribution::sorted), type);
    CHECK(rows_ascend(sorted, 250));
    CHECK(std::fabs(deviation_of(sorted) - 1) < 0.02);

    const auto constant = widened(filled(layout, distribution::constant), type);
    CHECK(std::set<double>(constant.begin(), constant.end()).size() == 1);
    CHECK(std::fabs(constant[0]) >= 0.25);

    const auto positive = widened(filled(layout, distribution::positive), type);
    CHECK(*std::min_element(positive.begin(), positive.end()) >= 0.5);
    CHECK(*std::max_element(positive.begin(), positive.end()) <= 1.5);

    const auto special = widened(filled(layout, distribution::special), type);
    const auto infinite =
        std::count_if(special.begin(), special.end(), [](double v) { return std::isinf(v); });
    const auto nans =
        std::count_if(special.begin(), special.end(), [](double v) { return std::isnan(v); });
    CHECK(infinite > 2500);
    CHECK(nans > 1200);
    CHECK(infinite + nans < 6000);
  }
}

TEST_CASE("subnormal inputs are subnormal, of either sign, and stay so in every call") {
  const auto layout = layout_of(dtype::f32, {10000});
  const auto wide = layout_of(dtype::f64, {10000});
  for (std::uint64_t call = 0; call < 5; ++call) {
    auto bytes = filled(layout, distribution::denormal);
    auto wide_bytes = filled(wide, distribution::denormal);
    if (call > 0) {
      bytes = refreshed(layout, distribution::denormal, bytes, call);
      wide_bytes = refreshed(wide, distribution::denormal, wide_bytes, call);
    }
    int negative = 0;
    for (const float value : values_of<float>(bytes)) {
      REQUIRE(std::fpclassify(value) == FP_SUBNORMAL);
      negative += std::signbit(value) ? 1 : 0;
    }
    for (const double value : values_of<double>(wide_bytes))
      REQUIRE(std::fpclassify(value) == FP_SUBNORMAL);
    CHECK(std::abs(negative - 5000) < 300);
  }
}

TEST_CASE("integer inputs stay below their bound and mean what they say") {
  for (const dtype type : integer_types) {
    CAPTURE(env::name_of(type));
    for (const std::int64_t below : {1, 2, 7, 200}) {
      CAPTURE(below);
      const auto layout = layout_of(type, {100, 50}, below);
      for (const auto kind : {distribution::uniform, distribution::sparse, distribution::sorted,
                              distribution::constant}) {
        CAPTURE(env::name_of(kind));
        const auto base = filled(layout, kind);
        const auto values = widened(base, type);
        CHECK(*std::min_element(values.begin(), values.end()) >= 0);
        CHECK(*std::max_element(values.begin(), values.end()) < static_cast<double>(below));
        const auto zeros = std::count(values.begin(), values.end(), 0.0);
        for (std::uint64_t call = 1; call < 20; ++call) {
          const auto fresh = widened(refreshed(layout, kind, base, call), type);
          CHECK(*std::min_element(fresh.begin(), fresh.end()) >= 0);
          CHECK(*std::max_element(fresh.begin(), fresh.end()) < static_cast<double>(below));
          if (kind == distribution::sorted) CHECK(rows_ascend(fresh, 50));
          // Blocks of 128 bytes are drawn with replacement: their zeros are kept on average.
          if (kind == distribution::sparse)
            CHECK(std::abs(std::count(fresh.begin(), fresh.end(), 0.0) - zeros) <= 150);
          if (kind == distribution::constant)
            CHECK(std::set<double>(fresh.begin(), fresh.end()).size() == 1);
        }
        if (kind == distribution::sorted) CHECK(rows_ascend(values, 50));
        if (kind == distribution::uniform && below == 7) {
          for (int v = 0; v < 7; ++v) {
            CHECK(std::abs(static_cast<double>(std::count(values.begin(), values.end(), v)) -
                           5000.0 / 7) < 120);
          }
        }
      }
    }
  }
  const auto layout = layout_of(dtype::i64, {1000}, INT64_MAX);
  const auto base = filled(layout, distribution::uniform);
  for (const auto& bytes : {base, refreshed(layout, distribution::uniform, base, 3)}) {
    for (const auto value : values_of<std::int64_t>(bytes))
      CHECK(value >= 0);
  }
}

TEST_CASE(
    "content is addressed: seed, input and round tell tensors apart, order of making does not") {
  const auto layout = layout_of(dtype::f32, {1000});
  const auto base = filled(layout, distribution::normal, {7, 1, 2});
  CHECK(base == filled(layout, distribution::normal, {7, 1, 2}));
  CHECK(base != filled(layout, distribution::normal, {8, 1, 2}));
  CHECK(base != filled(layout, distribution::normal, {7, 0, 2}));
  CHECK(base != filled(layout, distribution::normal, {7, 1, 3}));
  // A shorter tensor of the same address is a prefix: elements depend on their index only.
  const auto shorter = filled(layout_of(dtype::f32, {10}), distribution::normal, {7, 1, 2});
  CHECK(std::equal(shorter.begin(), shorter.end(), base.begin()));
}

TEST_CASE("every timed call gets content of its own that keeps the distribution") {
  for (const dtype type : floating_types) {
    CAPTURE(env::name_of(type));
    const auto layout = layout_of(type, {40, 250});
    const auto base = filled(layout, distribution::normal);
    const auto old = widened(base, type);
    std::set<tensor_bytes> seen{base};
    for (std::uint64_t call = 1; call <= 50; ++call) {
      const auto bytes = refreshed(layout, distribution::normal, base, call);
      CHECK(bytes == refreshed(layout, distribution::normal, base, call));
      seen.insert(bytes);
      const auto fresh = widened(bytes, type);
      std::size_t same = 0;
      for (std::size_t i = 0; i < fresh.size(); ++i)
        same += fresh[i] == old[i] ? 1 : 0;
      // 16-bit types have few values: neighbours can coincide.
      CHECK(same <= (env::size_of(type) == 2 ? fresh.size() / 50 : 1));
      CHECK(std::fabs(deviation_of(fresh) / deviation_of(old) - 1) < 0.07);
    }
    CHECK(seen.size() == 51);
  }
}

TEST_CASE("fresh content keeps zeros, order, constants and special values") {
  const auto layout = layout_of(dtype::f32, {64, 33});
  const auto fresh_of = [&](distribution kind, std::uint64_t call) {
    return widened(refreshed(layout, kind, filled(layout, kind), call), dtype::f32);
  };
  const auto old_of = [&](distribution kind) { return widened(filled(layout, kind), dtype::f32); };
  for (std::uint64_t call = 0; call < 30; ++call) {
    const auto sparse = fresh_of(distribution::sparse, call);
    const auto old_sparse = old_of(distribution::sparse);
    CHECK(std::abs(std::count(sparse.begin(), sparse.end(), 0.0) -
                   std::count(old_sparse.begin(), old_sparse.end(), 0.0)) <= 150);
    CHECK(sparse != old_sparse);
    const auto sorted = fresh_of(distribution::sorted, call);
    CHECK(rows_ascend(sorted, 33));
    CHECK(sorted != old_of(distribution::sorted));
    const auto constant = fresh_of(distribution::constant, call);
    CHECK(std::set<double>(constant.begin(), constant.end()).size() == 1);
    CHECK(constant[0] != old_of(distribution::constant)[0]);
    for (const double value : fresh_of(distribution::positive, call)) {
      CHECK(value >= 0.5);
      CHECK(value <= 1.5);
    }
    const auto special = fresh_of(distribution::special, call);
    const auto old_special = old_of(distribution::special);
    const auto not_finite = [](double v) { return !std::isfinite(v); };
    CHECK(std::abs(std::count_if(special.begin(), special.end(), not_finite) -
                   std::count_if(old_special.begin(), old_special.end(), not_finite)) <= 60);
  }
  const auto one = layout_of(dtype::f32, {});
  const auto base = filled(one, distribution::normal);
  CHECK(refreshed(one, distribution::normal, base, 1) != base);
}

TEST_CASE("every type and distribution keeps its meaning from call to call, and no element") {
  for (const dtype type :
       {dtype::f32, dtype::f64, dtype::bf16, dtype::f16, dtype::i32, dtype::i64, dtype::u8}) {
    for (int k = 0; k < env::distribution_count; ++k) {
      const auto kind = static_cast<distribution>(k);
      const bool integer = !env::is_floating(type);
      if (integer && !env::has_integer_form(kind)) continue;
      CAPTURE(env::name_of(type));
      CAPTURE(env::name_of(kind));
      const std::int64_t below = !integer ? 0 : type == dtype::u8 ? 200 : 100000;
      const auto layout = layout_of(type, {128, 96}, below);
      const auto base = filled(layout, kind);
      auto before = widened(base, type);
      const auto count = static_cast<double>(before.size());
      for (std::uint64_t call = 1; call <= 6; ++call) {
        const auto bytes = refreshed(layout, kind, base, call);
        CHECK(bytes == refreshed(layout, kind, base, call));
        const auto now = widened(bytes, type);
        check_meaning(kind, now, type, 96, below);
        std::size_t same = 0, free = 0;
        for (std::size_t i = 0; i < now.size(); ++i) {
          const bool stays = now[i] == 0 || !std::isfinite(now[i]);
          free += stays ? 0 : 1;
          same += !stays && now[i] == before[i] ? 1 : 0;
        }
        const bool few = env::size_of(type) <= 2 || (integer && kind == distribution::sorted);
        CHECK(static_cast<double>(same) <= (few ? 0.15 : 0.002) * count);
        if (kind == distribution::sparse || kind == distribution::special)
          CHECK(free > now.size() / 20);
        before = now;
      }
    }
  }
}

TEST_CASE("content of one call is no image of the base or of another call") {
  // Three quotients, or differences, of neighbours tell a place even when all was scaled or added
  // to: in content that is rotated and scaled each of them is found again.
  for (const auto kind : {distribution::normal, distribution::large, distribution::uniform}) {
    CAPTURE(env::name_of(kind));
    const auto layout = layout_of(dtype::f32, {20000});
    const auto base = filled(layout, kind);
    const auto traces_of = [](const std::vector<double>& v) {
      std::set<std::array<std::int64_t, 3>> traces;
      const auto coarse = [](double q) {
        return static_cast<std::int64_t>(std::llround(std::clamp(std::fabs(q), 0.0, 1e6) * 1e3));
      };
      for (std::size_t i = 0; i + 3 < v.size(); ++i)
        traces.insert({coarse(v[i + 1] / v[i]), coarse(v[i + 2] / v[i]), coarse(v[i + 3] / v[i])});
      return traces;
    };
    const auto known = traces_of(widened(base, dtype::f32));
    const auto first = traces_of(widened(refreshed(layout, kind, base, 1), dtype::f32));
    std::size_t found = 0;
    for (const auto& trace : traces_of(widened(refreshed(layout, kind, base, 2), dtype::f32)))
      found += known.contains(trace) || first.contains(trace) ? 1 : 0;
    CHECK(found <= 20);
    // Nor is the order statistics' curve the base's, scaled.
    auto sizes = widened(refreshed(layout, kind, base, 3), dtype::f32);
    auto old_sizes = widened(base, dtype::f32);
    for (auto* list : {&sizes, &old_sizes}) {
      for (double& v : *list)
        v = std::fabs(v);
      std::sort(list->begin(), list->end());
    }
    std::set<std::int64_t> ratios;
    for (std::size_t i = 1000; i < sizes.size(); ++i)
      ratios.insert(std::llround(sizes[i] / old_sizes[i] * 1e6));
    CHECK(ratios.size() > 1000);
  }
  for (const dtype type : integer_types) {
    CAPTURE(env::name_of(type));
    const std::int64_t below = type == dtype::u8 ? 256 : 5000;
    const auto layout = layout_of(type, {10000}, below);
    const auto base = filled(layout, distribution::uniform);
    const auto traces_of = [&](const std::vector<double>& v) {
      std::set<std::array<std::int64_t, 4>> traces;
      const auto step = [&](std::size_t i) {
        const auto difference = static_cast<std::int64_t>(v[i + 1] - v[i]);
        return (difference + below) % below;
      };
      for (std::size_t i = 0; i + 4 < v.size(); ++i)
        traces.insert({step(i), step(i + 1), step(i + 2), step(i + 3)});
      return traces;
    };
    const auto known = traces_of(widened(base, type));
    std::size_t found = 0;
    for (const auto& trace :
         traces_of(widened(refreshed(layout, distribution::uniform, base, 2), type)))
      found += known.contains(trace) ? 1 : 0;
    CHECK(found <= 5);
  }
}

TEST_CASE("blocks of one call come from places of their own, and their sums tell nothing") {
  // Even who knows where in the base a block comes from learns next to nothing of its sum: the
  // signs are new. Best guess of all: the closest sum of any 32 neighbours in the base.
  const auto layout = layout_of(dtype::f32, {32 * 64});
  const auto base = filled(layout, distribution::normal);
  const auto old = widened(base, dtype::f32);
  const auto now = widened(refreshed(layout, distribution::normal, base, 9), dtype::f32);
  std::set<std::size_t> places;
  int alike = 0;
  for (std::size_t block = 0; block < 64; ++block) {
    // The place is where all sizes are within half a binade.
    for (std::size_t place = 0; place + 32 <= old.size(); ++place) {
      bool match = true;
      double was = 0, is = 0;
      for (std::size_t i = 0; i < 32 && match; ++i) {
        const double a = std::fabs(old[place + i]), b = std::fabs(now[32 * block + i]);
        match = a < 1.51 * b && b < 1.51 * a;
        was += old[place + i];
        is += now[32 * block + i];
      }
      if (!match) continue;
      places.insert(place);
      alike += std::fabs(was - is) < 0.5 ? 1 : 0;
    }
  }
  CHECK(places.size() > 55);
  CHECK(alike < 15);
}

TEST_CASE("tensors of a few elements, and sizes beside those of blocks") {
  for (const std::int64_t elements : {1, 2, 5, 15, 16, 31, 32, 33, 63, 65, 127, 128, 129, 4097}) {
    CAPTURE(elements);
    for (const dtype type : {dtype::f32, dtype::f64, dtype::f16}) {
      const auto layout = layout_of(type, {elements});
      const auto base = filled(layout, distribution::uniform);
      std::set<tensor_bytes> seen{base};
      for (std::uint64_t call = 0; call < 8; ++call)
        seen.insert(refreshed(layout, distribution::uniform, base, call));
      CHECK(seen.size() >= (type == dtype::f16 && elements == 1 ? 8 : 9));
    }
    for (const dtype type : integer_types) {
      const std::int64_t most = type == dtype::u8    ? 256
                                : type == dtype::i32 ? 1LL << 31
                                                     : INT64_MAX;
      const auto layout = layout_of(type, {elements}, most);
      for (const auto kind : {distribution::uniform, distribution::sparse, distribution::sorted}) {
        const auto base = filled(layout, kind);
        for (std::uint64_t call = 0; call < 8; ++call) {
          const auto now = widened(refreshed(layout, kind, base, call), type);
          for (const double value : now) {
            CHECK(value >= 0);
            CHECK(value <= static_cast<double>(most));
          }
          if (kind == distribution::sorted)
            CHECK(rows_ascend(now, static_cast<std::size_t>(elements)));
        }
      }
    }
  }
}

TEST_CASE("wrong buffers and impossible distributions are refused") {
  const auto layout = layout_of(dtype::f32, {10});
  tensor_bytes small(39);
  tensor_bytes right(40);
  CHECK_FALSE(env::fill_input(layout, distribution::normal, {}, small).has_value());
  CHECK_FALSE(env::refresh_input(layout, distribution::normal, {}, 1, small, right).has_value());
  CHECK_FALSE(
      env::fill_input(layout_of(dtype::i32, {10}, 5), distribution::normal, {}, right).has_value());
  CHECK_FALSE(
      env::fill_input(layout_of(dtype::i32, {10}), distribution::uniform, {}, right).has_value());
}

TEST_CASE("16-bit formats round to nearest, ties to even") {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    if (!std::isnan(env::from_f16(half))) REQUIRE(env::to_f16(env::from_f16(half)) == half);
    if (!std::isnan(env::from_bf16(half))) REQUIRE(env::to_bf16(env::from_bf16(half)) == half);
  }
  CHECK(env::to_f16(65519.0F) == 0x7BFF);
  CHECK(env::to_f16(65520.0F) == 0x7C00);
  CHECK(env::to_f16(1.0F + 0x1p-11F) == 0x3C00);
  CHECK(env::to_f16(1.0F + 3 * 0x1p-11F) == 0x3C02);
  CHECK(env::to_f16(0x1p-25F) == 0);
  CHECK(env::to_f16(0x1.8p-25F) == 1);
  CHECK(std::isnan(env::from_f16(env::to_f16(NAN))));
  CHECK(std::isnan(env::from_bf16(env::to_bf16(NAN))));
  base::random_stream random(3, "half");
  for (int i = 0; i < 20000; ++i) {
    const auto value = static_cast<float>(
        std::ldexp(random.uniform() * 2 - 1, static_cast<int>(random.between(-26, 15))));
    const std::uint16_t half = env::to_f16(value);
    const float error = std::fabs(env::from_f16(half) - value);
    const float above = std::fabs(env::from_f16(static_cast<std::uint16_t>(half + 1)) - value);
    REQUIRE(error <= above);
    if ((half & 0x7FFF) != 0)
      REQUIRE(error <= std::fabs(env::from_f16(static_cast<std::uint16_t>(half - 1)) - value));
  }
}
