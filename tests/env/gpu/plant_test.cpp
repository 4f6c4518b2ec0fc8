// Planted elements: how surely they find out a kernel that looks at a sample, and whether the time
// of their calls counts.
#include <algorithm>
#include <cmath>
#include <set>

#include "env/device/content.hpp"
#include "env/gpu/calls.hpp"
#include "env/task/task_codec.hpp"
#include "env/tensor_task/tensor_body.hpp"
#include "support/test.hpp"

using namespace quern;

namespace {

/// Share of planted calls that show a softmax wrong which looks at every `step`th element of a row
/// and leaves the maximum off where none is large.
double caught_by_plants(const env::device_instance& d, std::int64_t step) {
  env::order_maker orders(12);
  const auto& layout = d.at.inputs[0];
  const std::int64_t row = layout.shape.back();
  constexpr int count = 2000;
  int caught = 0;
  for (int i = 0; i < count; ++i) {
    auto o = orders.fresh(0, 0);
    orders.plant(o, d);
    if (o.changed_run != 1 || o.changed_kind != QUERN_LARGE) continue;
    const auto c = env::content_of(layout, env::distribution::large, o.key, o.changed_stream);
    std::set<std::int64_t> wrong_rows, careful_rows;
    for (std::int64_t n = 0; n < o.changed_count; ++n) {
      const std::int64_t at = o.changed_first + n * o.changed_stride;
      const float value = env::content::floats_at(c, static_cast<std::uint64_t>(at / 4)).v[at % 4];
      if (at % row % step == 0 && std::abs(value) >= 40) careful_rows.insert(at / row);
      if (value > 88.8F) wrong_rows.insert(at / row);
    }
    caught += std::any_of(wrong_rows.begin(), wrong_rows.end(),
                          [&](std::int64_t r) { return !careful_rows.contains(r); })
                  ? 1
                  : 0;
  }
  return static_cast<double>(caught) / count;
}

}  // namespace

TEST_CASE("planted elements are missed by a sample, and not by a kernel that looks at all") {
  const auto path = quern::test::source_dir() / "tests/hostile/cuda/softmax.task.yaml";
  const auto what = env::load_task(path).value();
  const auto d = env::make_device_instance(what, env::tensors_of(what).sizes).value();
  CHECK(caught_by_plants(d, 32) > 0.06);
  CHECK(caught_by_plants(d, 1) == 0);
}

TEST_CASE("a call's time counts with a few planted elements, not with stretches or another round") {
  const auto path = quern::test::source_dir() / "tests/hostile/cuda/softmax.task.yaml";
  const auto what = env::load_task(path).value();
  const auto d = env::make_device_instance(what, env::tensors_of(what).sizes).value();
  env::order_maker orders(13);
  CHECK(env::counts_in_time(orders.fresh(0, 0), d));
  CHECK_FALSE(env::counts_in_time(orders.fresh(1, 0), d));
  CHECK(env::counts_in_time(orders.changed(orders.fresh(0, 0), d, 0), d));
  int counted = 0;
  constexpr int count = 2000;
  for (int i = 0; i < count; ++i) {
    auto o = orders.fresh(0, 0);
    orders.plant(o, d);
    const bool counts = env::counts_in_time(o, d);
    counted += counts ? 1 : 0;
    CHECK(counts == (o.changed_count <= d.at.inputs[0].elements / 4096));
  }
  // Most of the single ones, few of the stretches.
  CHECK(counted > count * 2 / 5);
  CHECK(counted < count * 4 / 5);
}

TEST_CASE("floating content that repeats a value is mixed with no other") {
  const auto softmax =
      env::load_task(quern::test::source_dir() / "tests/hostile/cuda/softmax.task.yaml").value();
  const auto histogram =
      env::load_task(quern::test::source_dir() / "tests/hostile/cuda/histogram.task.yaml").value();
  std::set<std::int32_t> planted[2];
  for (const auto* what : {&softmax, &histogram}) {
    const bool integers = what == &histogram;
    const auto d = env::make_device_instance(*what, env::tensors_of(*what).sizes).value();
    env::order_maker orders(14);
    for (int i = 0; i < 3000; ++i) {
      const auto round = static_cast<std::int32_t>(orders.random().below(d.rounds.size()));
      auto o = orders.fresh(round, 0);
      orders.plant(o, d);
      if (o.changed_input < 0) continue;
      const auto background = d.tensors.kinds[round][o.changed_input];
      CHECK(o.changed_kind != background);
      if (!integers) CHECK(background != QUERN_CONSTANT);
      if (!integers) CHECK(background != QUERN_SPARSE);
      planted[integers ? 1 : 0].insert(o.changed_kind);
    }
  }
  CHECK(planted[0] ==
        std::set<std::int32_t>{QUERN_NORMAL, QUERN_LARGE, QUERN_SPARSE, QUERN_SORTED});
  CHECK(planted[1].contains(QUERN_CONSTANT));
}

TEST_CASE("only planted calls have a wider limit, and a loose one is not made void") {
  const auto path = quern::test::source_dir() / "tests/hostile/cuda/softmax.task.yaml";
  const auto what = env::load_task(path).value();
  const auto d = env::make_device_instance(what, env::tensors_of(what).sizes).value();
  env::order_maker orders(15);
  const env::tolerance tight{1e-6, 1e-4}, loose{0.02, 0.016}, exact{0, 0};
  const auto fresh = orders.fresh(0, 0);
  CHECK(env::limit_of(fresh, d, tight) == tight);
  CHECK(env::limit_of(orders.changed(fresh, d, 0), d, tight) == tight);
  auto planted = fresh;
  orders.plant(planted, d);
  REQUIRE(planted.changed_input >= 0);
  const auto wide = env::limit_of(planted, d, tight);
  CHECK(wide.atol == doctest::Approx(64e-6));
  CHECK(wide.rtol == doctest::Approx(64e-4));
  const auto less = env::limit_of(planted, d, loose);
  CHECK(less.rtol == doctest::Approx(0.05));
  CHECK(less.atol == doctest::Approx(0.0625));
  CHECK(env::limit_of(planted, d, exact) == exact);
  const env::tolerance void_of_it{1, 0.5};
  CHECK(env::limit_of(planted, d, void_of_it) == void_of_it);
}

namespace {

/// Largest relative error of a softmax in single precision whose sum goes term by term, over rows
/// of `background` with one element of `large` content, as a beginner's kernel computes it.
double error_of_plain_softmax(std::int32_t background) {
  constexpr int columns = 4096, rows = 200;
  const auto element = [](std::int32_t kind, std::uint64_t stream, int at) {
    quern_content c{};
    c.kind = kind;
    c.key = 5;
    c.stream = stream;
    c.row = c.elements = columns;
    return env::content::floats_at(c, static_cast<std::uint64_t>(at / 4)).v[at % 4];
  };
  double worst = 0;
  for (std::uint64_t row = 0; row < rows; ++row) {
    std::vector<float> x(columns);
    for (int at = 0; at < columns; ++at)
      x[static_cast<std::size_t>(at)] = element(background, row, at);
    x[row * 20] = element(QUERN_LARGE, row, static_cast<int>(row * 20)) / 16;
    const float top = *std::max_element(x.begin(), x.end());
    float sum = 0;
    double exact = 0;
    for (const float v : x) {
      sum += std::exp(v - top);
      exact += std::exp(static_cast<double>(v) - static_cast<double>(top));
    }
    worst = std::max(worst, std::abs(static_cast<double>(sum) / exact - 1));
  }
  return worst;
}

}  // namespace

TEST_CASE(
    "equal terms round alike: a planted element makes an honest sum wrong, among others not") {
  const double constant = error_of_plain_softmax(QUERN_CONSTANT);
  const double normal = error_of_plain_softmax(QUERN_NORMAL);
  std::printf(
      "softmax of 4,096 columns, summed term by term: off by %.1e where the others are "
      "equal, %.1e where they are normal\n",
      constant, normal);
  CHECK(constant > 4e-5);
  CHECK(normal < constant / 5);
}
