// From which variants exemplars are chosen: the schedule, and the highest buckets.
#include "actors/decide/exemplar_schedule.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "actors/decide/exemplar_selector.hpp"
#include "support/test.hpp"

namespace {

using namespace quern;
using namespace quern::actors;

exemplar_schedule schedule_of(const std::string& text) {
  const auto made = exemplar_schedule::parse(text);
  REQUIRE_MESSAGE(made, (made ? "" : made.error().message));
  return *made;
}

TEST_CASE("a schedule begins with its first source and changes at the steps that it names") {
  const exemplar_schedule plain;
  CHECK(plain.at(0) == exemplar_source::all);
  CHECK(plain.at(1'000'000) == exemplar_source::all);
  const auto made = schedule_of("seeds, own:4 ,best:12");
  for (const auto& [version, source] : std::vector<std::pair<std::int64_t, exemplar_source>>{
           {0, exemplar_source::seeds},
           {3, exemplar_source::seeds},
           {4, exemplar_source::own},
           {11, exemplar_source::own},
           {12, exemplar_source::best},
           {1'000'000'000, exemplar_source::best}}) {
    CAPTURE(version);
    CHECK(made.at(version) == source);
  }
}

TEST_CASE("any schedule with rising steps is read, and is that of a plain search through it") {
  const std::vector<exemplar_source> sources = {exemplar_source::all, exemplar_source::seeds,
                                                exemplar_source::own, exemplar_source::best};
  for (std::uint64_t round = 0; round < 300; ++round) {
    base::random_stream random(3, "schedule", {round});
    std::vector<std::pair<std::int64_t, exemplar_source>> phases;
    std::string text;
    std::int64_t step = 0;
    for (std::uint64_t left = 1 + random.below(6); left > 0; --left) {
      const exemplar_source source = sources[random.below(sources.size())];
      text += phases.empty() ? std::string(to_string(source))
                             : fmt::format(",{}:{}", to_string(source), step);
      phases.emplace_back(step, source);
      step += 1 + static_cast<std::int64_t>(random.below(5));
    }
    CAPTURE(text);
    const auto made = schedule_of(text);
    for (std::int64_t version = 0; version < step + 3; ++version) {
      const auto last = std::find_if(phases.rbegin(), phases.rend(), [version](const auto& phase) {
        return phase.first <= version;
      });
      CHECK(made.at(version) == last->second);
    }
  }
}

TEST_CASE("a schedule that cannot be read is refused by its part") {
  for (const auto& [text, said] : std::vector<std::pair<std::string, std::string>>{
           {"", "'' is none of all, seeds, own, best"},
           {"seed", "'seed' is none of all, seeds, own, best"},
           {"seeds,own:4,", "'' is none of"},
           {"seeds:1", "write seeds without a step"},
           {"seeds,own", "'own' needs a step above 0"},
           {"seeds,own:0", "'own:0' needs a step above 0"},
           {"seeds,own:-3", "'own:-3' needs a step"},
           {"seeds,own:4,best:4", "'best:4' needs a step above 4"},
           {"seeds,own:4x", "'own:4x' needs a step"},
           {"seeds,own:1000000001", "at most 1000000000"}}) {
    CAPTURE(text);
    const auto refused = exemplar_schedule::parse(text);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == base::errc::invalid_argument);
    CHECK(refused.error().message.find("replay.exemplar_schedule is '" + text) == 0);
    CHECK(refused.error().message.find(said) != std::string::npos);
  }
}

TEST_CASE("highest only: no variant outside of the highest buckets, and each of these is drawn") {
  for (std::uint64_t round = 0; round < 500; ++round) {
    base::random_stream random(5, "buckets", {round});
    std::vector<storage::bucket_summary> buckets;
    for (int bucket = 0; bucket < 9; ++bucket) {
      const auto count = static_cast<std::int64_t>(random.below(4));
      if (count > 0) buckets.push_back({bucket, bucket * 25, count, count * (bucket * 25 + 5)});
    }
    exemplar_options options;
    options.count = 1 + static_cast<std::int64_t>(random.below(4));
    options.highest_only = true;
    CAPTURE(round);
    const auto picks = choose_exemplars(buckets, options, {7, "exemplar", {round}});
    REQUIRE(picks);
    const std::size_t kept = std::min(buckets.size(), static_cast<std::size_t>(options.count));
    // With as many buckets as are shown, one variant of each; with fewer, all of them have one.
    for (std::size_t k = buckets.size() - kept; k < buckets.size(); ++k) {
      CHECK(std::any_of(picks->begin(), picks->end(), [&](const exemplar_pick& pick) {
        return pick.bucket == buckets[k].bucket;
      }));
    }
    for (const exemplar_pick& pick : *picks)
      CHECK(pick.bucket >= buckets[buckets.size() - kept].bucket);
  }
  // The control: without it lower buckets are shown, too.
  bool lower = false;
  for (std::uint64_t group = 0; group < 100; ++group) {
    const auto picks = choose_exemplars(
        std::vector<storage::bucket_summary>{{0, 0, 1, 10}, {1, 25, 1, 30}, {2, 50, 1, 60}}, {},
        {7, "exemplar", {group}});
    lower = lower || picks.value().front().bucket == 0;
  }
  CHECK(lower);
}

}  // namespace
