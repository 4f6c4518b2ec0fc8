// An engine that is not the project's own behind a generator: requests are checked, weights are
// announced, checked and handed over, versions are the generator's.
#include <algorithm>
#include <map>

#include "policy/engine/generation_engine.hpp"
#include "policy/engine/generation_requests.hpp"
#include "policy/engine/small_models.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::policy;
using quern::test::ask;
using quern::test::small_config;
using quern::test::some_tokens;

namespace {

/// What the server has seen.
struct server {
  std::map<std::uint64_t, generation_request> asked;
  std::vector<std::int64_t> versions;
  float first_weight = 0;
};

/// Repeats the prompt's last token, as a server does that is asked over a network.
class echo final : public generation_engine {
 public:
  explicit echo(server& seen) : seen_(seen) {}
  void submit(std::span<const generation_request> requests) override {
    for (const generation_request& r : requests)
      seen_.asked[r.id] = r;
  }
  bool cancel(std::uint64_t id) override { return seen_.asked.erase(id) > 0; }
  std::vector<generation_result> step() override {
    std::vector<generation_result> done;
    for (const auto& [id, r] : seen_.asked) {
      generation_result one;
      one.id = id;
      one.tokens.assign(static_cast<std::size_t>(r.max_tokens), r.prompt.back());
      one.log_probs.assign(one.tokens.size(), -1);
      one.segments = {{0, seen_.versions.empty() ? 0 : seen_.versions.back(), {}}};
      one.reason = finish_reason::length;
      done.push_back(std::move(one));
    }
    seen_.asked.clear();
    return done;
  }
  bool in_flight(std::uint64_t id) const override { return seen_.asked.contains(id); }
  std::size_t in_flight() const override { return seen_.asked.size(); }
  bool idle() const override { return seen_.asked.empty(); }
  base::status install(parameter_arena& staged, std::int64_t version,
                       const base::hash128& hash) override {
    CHECK(staged.hash() == hash);
    seen_.versions.push_back(version);
    seen_.first_weight = staged.flat[0].item<float>();
    return {};
  }
  const generator_counters& counters() const override { return counters_; }

 private:
  server& seen_;
  generator_counters counters_;
};

}  // namespace

TEST_CASE("another engine is behind the same generator") {
  const auto weights = [](std::uint64_t seed) {
    return parameter_arena::random(small_config(architecture::qwen3), seed).value();
  };
  const parameter_arena before = weights(3), after = weights(4);
  server seen;
  generator_options options;
  options.capacity = 20;
  generator engine =
      std::move(generator::make(before, 5, options, std::make_unique<echo>(seen))).value();
  CHECK(engine.weights_hash() == before.hash());

  const generation_request longer = ask(1, some_tokens(30, 1), 4);
  CHECK_FALSE(engine.submit({&longer, 1}));
  CHECK(seen.asked.empty());
  const generation_request good = ask(2, some_tokens(6, 1), 4);
  REQUIRE(engine.submit({&good, 1}));
  CHECK_FALSE(engine.submit({&good, 1}));
  CHECK(engine.in_flight() == 1);
  const auto results = engine.run();
  REQUIRE(results.size() == 1);
  CHECK(results[0].tokens == std::vector<std::int32_t>(4, good.prompt.back()));

  CHECK_FALSE(engine.announce(5, after.hash()));
  REQUIRE(engine.announce(6, after.hash()));
  CHECK_FALSE(engine.commit());  // nothing was written
  CHECK(seen.versions.empty());
  REQUIRE(engine.announce(6, after.hash()));
  engine.staging()->flat.copy_(after.flat);
  REQUIRE(engine.commit());
  CHECK(seen.versions == std::vector<std::int64_t>{6});
  CHECK(seen.first_weight == after.flat[0].item<float>());
  CHECK(engine.version() == 6);
}
