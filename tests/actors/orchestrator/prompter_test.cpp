// Which variants of the archive a prompt shows, by replay.exemplar_schedule.
#include "actors/orchestrator/prompter.hpp"

#include <set>

#include "../../storage/ledger_support.hpp"
#include "actors/measured_as.hpp"
#include "orchestrator_fixture.hpp"

using namespace quern;
using namespace quern::actors;
using test::must;

namespace {

/// An archive with variants of the first task: two of the grammar, then those of the policy.
struct archive_of_a_task : test::open_ledger {
  test::fixture run;
  storage::blob_store blobs{run.folder.path() / "blobs"};
  std::unique_ptr<storage::archive> archive = must(storage::archive::open(*db, blobs));
  std::uint64_t sources = 0;

  std::int64_t record(std::int64_t speedup_e2, std::int64_t version, std::int64_t sample) {
    storage::variant made;
    made.key = {run.tasks->tasks()[0].id, "cpp-avx2", measured_as(run.config)};
    made.source_hash = {1, ++sources};
    made.speedup_e2 = speedup_e2;
    made.version = version;
    made.sample = sample;
    return must(archive->record(made, "kernel " + std::to_string(sources))).id;
  }

  /// All variants that 60 prompts as of `version` show.
  std::set<std::int64_t> shown(const std::string& schedule, std::int64_t version) {
    run.config.replay.exemplar_schedule = schedule;
    const prompter prompts = must(prompter::make(run.config, "cpp-avx2"));
    std::set<std::int64_t> variants;
    for (std::int64_t sequence = 0; sequence < 60; ++sequence) {
      const auto chosen = must(prompts.choose(run.tasks->tasks()[0], *archive, sequence, version));
      for (const shown_exemplar& exemplar : chosen)
        variants.insert(exemplar.variant);
      // A prompt that is made again shows the same.
      const auto again = must(prompts.choose(run.tasks->tasks()[0], *archive, sequence, version));
      REQUIRE(again.size() == chosen.size());
      for (std::size_t k = 0; k < chosen.size(); ++k)
        CHECK(again[k].variant == chosen[k].variant);
    }
    return variants;
  }
};

using ids = std::set<std::int64_t>;

}  // namespace

TEST_CASE("prompts show seed variants, then the policy's own kernels, then the best of these") {
  archive_of_a_task f;
  const auto seed = f.record(100, 0, 0);
  const auto fast_seed = f.record(900, 0, 0);
  const auto slow = f.record(60, 2, 1);
  const auto middle = f.record(160, 2, 2);
  const auto fast = f.record(260, 3, 3);
  const std::string schedule = "seeds,own:3,best:5";
  CHECK(f.shown(schedule, 2) == ids{seed, fast_seed});
  CHECK(f.shown(schedule, 3) == ids{slow, middle, fast});
  CHECK(f.shown(schedule, 5) == ids{middle, fast});
  // The control: without a schedule any are shown.
  CHECK(f.shown("all", 5) == ids{seed, fast_seed, slow, middle, fast});
}

TEST_CASE("a task without enough kernels of a source shows any") {
  archive_of_a_task f;
  const auto seed = f.record(100, 0, 0);
  CHECK(f.shown("own", 5).empty());
  const auto other = f.record(300, 0, 0);
  CHECK(f.shown("own", 5) == ids{seed, other});
  const auto first = f.record(200, 1, 1);
  CHECK(f.shown("best", 5) == ids{seed, other, first});
  const auto second = f.record(400, 4, 2);
  CHECK(f.shown("best", 5) == ids{first, second});
  // As of version 3 the second was not written yet.
  CHECK(f.shown("best", 3) == ids{seed, other, first});
}

TEST_CASE("a schedule that cannot be read ends the run before it begins") {
  archive_of_a_task f;
  f.run.config.replay.exemplar_schedule = "seeds,mine:4";
  const auto refused = prompter::make(f.run.config, "cpp-avx2");
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message.find("'mine' is none of all, seeds, own, best") !=
        std::string::npos);
}
