// The rule that says what limits a kernel, each line of it with its neighbour that must differ.
#include "env/judge/roofline.hpp"

#include "support/test.hpp"

using namespace quern::env;
using quern::test::contains;

namespace {

/// 4 GB/s and 10 T/s make round numbers: a kilobyte takes 0.25 us, a million operations 0.1 us.
work_report work(std::int64_t bytes, std::int64_t flops) {
  work_report w;
  w.bytes = bytes;
  w.flops = flops;
  w.bytes_per_s = 4'000'000'000;
  w.flops_per_s = 10'000'000'000'000;
  w.multiprocessors = 100;
  w.threads = 2048;
  return w;
}

launch_report launch(std::int64_t blocks, std::int64_t threads, std::int64_t resident,
                     std::int64_t count = 1) {
  launch_report l;
  l.kernel = "k";
  l.count = count;
  l.blocks = blocks;
  l.threads = threads;
  l.registers = 32;
  l.resident_blocks = resident;
  return l;
}

limiter limit(work_report w, double call_ns, std::vector<launch_report> launches) {
  w.launches = std::move(launches);
  return place_on_roofline(w, call_ns).limited_by;
}

const std::vector<launch_report> wide{launch(4000, 256, 8)};

}  // namespace

TEST_CASE("near the roof it is what the roof is made of") {
  // 40 kB are 10 us, 300 million operations 30 us.
  CHECK(limit(work(40'000, 0), 12'000, wide) == limiter::memory);
  CHECK(limit(work(40'000, 300'000'000), 40'000, wide) == limiter::compute);
  CHECK(limit(work(40'000, 90'000'000), 12'000, wide) == limiter::memory);
  // 59 % and less is not near.
  CHECK(limit(work(40'000, 0), 17'000, wide) == limiter::latency);
  CHECK(limit(work(40'000, 0), 16'600, wide) == limiter::memory);
}

TEST_CASE("shares, intensity and ridge are numbers that can be checked by hand") {
  work_report w = work(40'000, 100'000'000);
  w.launches = {launch(1600, 256, 4, 2), launch(10, 32, 8, 3)};
  const auto p = place_on_roofline(w, 40'000);
  CHECK(p.memory_ns == doctest::Approx(10'000));
  CHECK(p.compute_ns == doctest::Approx(10'000));
  CHECK(p.memory_share == doctest::Approx(0.25));
  CHECK(p.intensity == doctest::Approx(2500));
  CHECK(p.ridge == doctest::Approx(2500));
  CHECK(p.launches == 5);
  CHECK(p.launch_share == doctest::Approx(5 * launch_cost_ns / 40'000));
  CHECK(p.occupancy == doctest::Approx(0.5));
  CHECK(p.waves == doctest::Approx(4));
  // Nothing is more than all of the time, however wrong the cost is.
  CHECK(place_on_roofline(w, 10).memory_share == 1);
}

TEST_CASE("far from it: launches, then blocks, local memory, threads, and what remains") {
  const auto slow = work(40'000, 0);  // 10 us of 50
  CHECK(limit(slow, 50'000, {launch(4000, 256, 8, 10)}) == limiter::launches);
  CHECK(limit(slow, 50'001, {launch(4000, 256, 8, 9)}) == limiter::latency);
  CHECK(limit(slow, 50'000, {launch(99, 256, 8)}) == limiter::too_few_blocks);
  CHECK(limit(slow, 50'000, {launch(100, 256, 8)}) == limiter::latency);
  auto spilt = launch(4000, 256, 8);
  spilt.local_bytes = 64;
  CHECK(limit(slow, 50'000, {spilt}) == limiter::local_memory);
  CHECK(limit(slow, 50'000, {launch(4000, 128, 3)}) == limiter::few_threads);
  CHECK(limit(slow, 50'000, {launch(4000, 128, 4)}) == limiter::latency);
  // The largest launch decides, not the last.
  CHECK(limit(slow, 50'000, {launch(4000, 256, 8), launch(1, 32, 1)}) == limiter::latency);
}

TEST_CASE("host code, a task without cost, and no time") {
  CHECK(limit(work(40'000, 0), 12'000, {}) == limiter::memory);
  CHECK(limit(work(40'000, 0), 50'000, {}) == limiter::latency);
  CHECK(limit(work(0, 0), 12'000, wide) == limiter::unknown);
  CHECK(limit(work(40'000, 0), 0, wide) == limiter::unknown);
  auto blind = work(40'000, 0);
  blind.bytes_per_s = 0;
  CHECK(limit(blind, 12'000, wide) == limiter::unknown);
}

TEST_CASE("a person reads traffic, arithmetic, launches and what limits") {
  verdict v;
  CHECK(roofline_text(v).empty());
  v.work = work(40'000, 1'000'000);
  CHECK(roofline_text(v).empty());
  v.time.emplace();
  v.time->cand_ns = {12'000, 12'000, 90'000};
  v.work->launches = wide;
  const auto text = roofline_text(v);
  CHECK(contains(text, "10.00 us at 4 GB/s, 83.3 % of the time"));
  CHECK(contains(text, "4000 blocks of 256 threads, 32 registers"));
  CHECK(contains(text, "limited by memory"));
  v.work->launches.clear();
  CHECK(contains(roofline_text(v), "not looked into"));
}

TEST_CASE("the share of the roofline: of what takes longer, of the median time, at most 1") {
  verdict v;
  CHECK_FALSE(roofline_share(v));
  v.work = work(40'000, 1'000'000);  // 10 us of traffic, 0.1 us of arithmetic
  CHECK_FALSE(roofline_share(v));    // there is no time
  v.time.emplace();
  v.time->cand_ns = {40'000, 40'000, 90'000};
  CHECK(roofline_share(v).value() == doctest::Approx(0.25));
  v.work->flops = 300'000'000;
  CHECK(roofline_share(v).value() == doctest::Approx(0.75));
  v.time->cand_ns = {5'000};
  CHECK(roofline_share(v).value() == 1);
  v.work->bytes = v.work->flops = 0;
  CHECK_FALSE(roofline_share(v));  // the task states no cost
}

TEST_CASE("on a core nothing is said of launches, and of arithmetic where the task states some") {
  verdict v;
  v.work = work(40'000, 0);
  v.work->multiprocessors = v.work->threads = 0;
  v.time.emplace();
  v.time->cand_ns = {40'000};
  const auto text = roofline_text(v);
  CHECK(contains(text, "25.0 % of the time"));
  CHECK(contains(text, "states no arithmetic"));
  CHECK_FALSE(contains(text, "launches"));
  v.work->flops = 10;
  CHECK(contains(roofline_text(v), "limited by latency"));
  CHECK(contains(roofline_text(v), "arithmetic 10 operations"));
  v.work->multiprocessors = 1;
  CHECK(contains(roofline_text(v), "launches"));
}

TEST_CASE("work and launches survive a verdict's JSON") {
  verdict v;
  v.kind = verdict_kind::ok;
  v.work = work(40'000, 1'000'000);
  v.work->launches = {launch(4000, 256, 8, 3)};
  CHECK(verdict_from_json(to_json(v)).value() == v);
  auto json = to_json(v);
  json["work"]["launches"][0]["blocks"] = -1;
  CHECK_FALSE(verdict_from_json(json).has_value());
  json = to_json(v);
  json["work"]["launches"][0].erase("kernel");
  CHECK(verdict_from_json(json).has_value());
}
