// Weights over a link of two, as threads of this process over Gloo: layouts, hashes, and what the
// end of one generator costs.
#include "policy/engine/weight_link.hpp"

#include <thread>

#include "base/file.hpp"
#include "policy/engine/arena.hpp"
#include "policy/engine/small_models.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::policy;
using base::operator""_s;

namespace {

struct ends {
  std::unique_ptr<weight_link> learner, generator;
};

ends open_link(const std::filesystem::path& socket) {
  ends made;
  rendezvous_options where{"unix:" + socket.string(), 0, 2, {60_s, 1_s, 2_s}};
  std::jthread other([&, there = where]() mutable {
    there.rank = 1;
    auto link = weight_link::open(there, at::kCPU);
    if (link) made.generator = std::move(*link);
  });
  auto link = weight_link::open(where, at::kCPU);
  other.join();
  REQUIRE_MESSAGE(link, (link ? "" : link.error().message));
  REQUIRE(made.generator);
  made.learner = std::move(*link);
  return made;
}

}  // namespace

TEST_CASE("an arena laid out for four ranks arrives in a plain one, and its hash tells it") {
  const auto folder = base::temp_folder::make().value();
  const model_config config = quern::test::small_config(architecture::qwen3);
  layout four;
  four.ranks = 4;
  const parameter_arena source =
      parameter_arena::random(config, 8, at::kFloat, at::kCPU, four).value();
  parameter_arena target = parameter_arena::zeros(config).value();
  REQUIRE(source.flat.numel() != target.flat.numel());
  const transfer_plan plan = make_plan(source.layout, target.layout).value();
  ends link = open_link(folder.path() / "m");
  std::jthread receiving([&] {
    CHECK(link.generator->warm_up(3));
    CHECK(link.generator->receive(plan, target.flat, 3));
  });
  CHECK(link.learner->warm_up(3));
  CHECK(link.learner->send(plan, source.flat, 3));
  receiving.join();
  CHECK(target.hash() == source.hash());
  CHECK_FALSE(link.learner->receive(plan, target.flat, 3));
  CHECK_FALSE(link.learner->send(plan, at::Tensor(target.flat.narrow(0, 0, 10)), 3));
}

TEST_CASE("a generator that dies ends its own link, not the other one") {
  const auto folder = base::temp_folder::make().value();
  const parameter_arena source =
      parameter_arena::random(quern::test::small_config(architecture::qwen2), 8).value();
  const transfer_plan plan = make_plan(source.layout, source.layout).value();
  ends dying = open_link(folder.path() / "a"), living = open_link(folder.path() / "b");
  dying.generator->link().cut();
  dying.generator.reset();
  const auto failed = dying.learner->send(plan, source.flat, 7);
  REQUIRE_FALSE(failed);
  CAPTURE(failed.error().message);
  CHECK(quern::test::contains(failed.error().message, "rank 1 is gone"));
  CHECK(quern::test::contains(failed.error().message, "version 7"));
  parameter_arena target = source.like();
  std::jthread receiving([&] { CHECK(living.generator->receive(plan, target.flat, 7)); });
  CHECK(living.learner->send(plan, source.flat, 7));
  receiving.join();
  CHECK(target.hash() == source.hash());
}

TEST_CASE("nothing is sent before it is asked for, and what comes is known by its version") {
  const auto folder = base::temp_folder::make().value();
  const parameter_arena source =
      parameter_arena::random(quern::test::small_config(architecture::qwen2), 8).value();
  const transfer_plan plan = make_plan(source.layout, source.layout).value();
  ends link = open_link(folder.path() / "m");
  parameter_arena target = source.like();
  std::jthread receiving([&] {
    CHECK(link.generator->agree(plan, at::kFloat));
    for (const std::int64_t expected : {3, 8}) {
      const auto version = link.generator->ask();
      REQUIRE(version);
      CHECK(*version == expected);
      CHECK(link.generator->receive(plan, target.flat, *version));
    }
    // Waiting to be sent something ends with the other end, too.
    CHECK_FALSE(link.generator->ask());
  });
  CHECK(link.learner->agree(plan, at::kFloat));
  for (const std::int64_t version : {3, 8}) {
    CHECK(link.learner->wait_until_asked());
    CHECK(link.learner->offer(version));
    CHECK(link.learner->send(plan, source.flat, version));
  }
  CHECK(link.learner->wait_until_asked());
  link.learner->link().cut();
  receiving.join();
  CHECK(target.hash() == source.hash());
}

TEST_CASE("ends with other plans or elements do not agree") {
  const auto folder = base::temp_folder::make().value();
  const parameter_arena arena =
      parameter_arena::random(quern::test::small_config(architecture::qwen2), 8).value();
  const transfer_plan plan = make_plan(arena.layout, arena.layout).value();
  ends link = open_link(folder.path() / "m");
  std::jthread other([&] { CHECK_FALSE(link.generator->agree(plan, at::kBFloat16)); });
  const auto agreed = link.learner->agree(plan, at::kFloat);
  other.join();
  REQUIRE_FALSE(agreed);
  CHECK(agreed.error().code == base::errc::conflict);
  CHECK(quern::test::contains(agreed.error().message, "BFloat16"));
}
