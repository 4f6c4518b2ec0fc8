// What generators tell of their cache and of new weights, summed up between two lines of metrics.
#include "actors/decide/generator_work.hpp"

#include "support/test.hpp"

using namespace quern;
using namespace quern::actors;

TEST_CASE("what a generator tells is taken as news of what it told before") {
  generator_work before;
  CHECK(news_of({1, 10, 40, 2, 500}, before) == generator_work{1, 10, 40, 2, 500});
  CHECK(news_of({1, 25, 60, 3, 900}, before) == generator_work{0, 15, 20, 1, 400});
  CHECK(news_of({1, 25, 60, 3, 900}, before) == generator_work{});
}

TEST_CASE("several generators make one mean, over all of their passes and installations") {
  generator_work sum;
  sum += {2, 30, 40, 1, 1'000'000'000};
  sum += {1, 0, 60, 3, 1'000'000'000};
  const auto told = to_json(sum);
  CHECK(told["kv_use"].get<double>() == doctest::Approx(0.3));
  CHECK(told["preemptions"] == 3);
  CHECK(told["installs"] == 4);
  CHECK(told["install_s"].get<double>() == doctest::Approx(0.5));
  const auto nothing = to_json(generator_work{});
  CHECK(nothing["kv_use"].is_null());
  CHECK(nothing["install_s"].is_null());
  CHECK(nothing["preemptions"] == 0);
}
