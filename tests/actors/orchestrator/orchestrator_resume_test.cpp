// The orchestrator that goes on after a death, a pause or damage to its files.
#include "base/file.hpp"
#include "storage/blobs.hpp"
#include "support/caught_stderr.hpp"
#include "tests/actors/orchestrator/orchestrator_world.hpp"

using namespace quern;
using namespace quern::actors;
using test::check_after_deaths;
using test::check_end;
using test::fixture;
using test::paused_at;
using test::warned;
using test::world;

TEST_CASE("the process dies at any moment: the next incarnation takes up every sample") {
  fixture f;
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    const auto root = f.folder.path() / ("killed" + std::to_string(seed));
    check_after_deaths(f, root, seed, [&](world& w) { check_end(w, f.config.learner.steps); });
  }
}

TEST_CASE("a lost learner costs the steps since the checkpoint, no sample twice") {
  fixture f;
  // Among so many there are groups of which one member was dropped before the learner was lost,
  // with weights that are then made anew.
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    world w(f.config, *f.tasks, f.folder.path() / ("learner" + std::to_string(seed)), true, seed);
    REQUIRE_FALSE(w.go(static_cast<int>(5 + seed % 12)));
    const incarnation_id before = w.head().incarnation();
    w.lose_messages();
    REQUIRE(w.head().learner_lost());
    CHECK(w.head().incarnation() == before + 1);
    w.meet();
    const auto end = w.go();
    REQUIRE(end);
    CHECK(end->finished);
    check_end(w, f.config.learner.steps);
  }
}

TEST_CASE("pause drains to a checkpoint, and the run goes on later") {
  fixture f;
  const auto root = f.folder.path() / "paused";
  const weights_version reached = paused_at(f, root, 9, 4);
  world w(f.config, *f.tasks, root, false, 5);
  CHECK(w.head().start().version == reached);
  const auto end = w.go();
  REQUIRE(end);
  CHECK(end->finished);
  check_end(w, f.config.learner.steps);
}

TEST_CASE("what a generator starts from is there to the end of the incarnation") {
  fixture f;
  f.config.learner.steps = 12;
  f.config.storage.checkpoint_every_steps = 1;
  const auto root = f.folder.path() / "held";
  CHECK(paused_at(f, root, 20, 7) > 0);
  world w(f.config, *f.tasks, root, false, 8);
  const std::filesystem::path first = w.head().start().model;
  CHECK(std::filesystem::exists(first / "config.json"));
  REQUIRE(w.go());
  CHECK(w.head().version() == 12);
  // One that dies now begins with these weights, and is told of the newer ones.
  CHECK(std::filesystem::exists(first / "config.json"));
}

TEST_CASE("a reader of run.db is no reason for a complete run to fail") {
  fixture f;
  f.config.learner.steps = 1;
  for (const char* reads : {"SELECT 1", "BEGIN; SELECT count(*) FROM samples"}) {
    CAPTURE(reads);
    const auto root = f.folder.path() / (reads[0] == 'B' ? "within" : "idle");
    {
      world w(f.config, *f.tasks, root, true, 5);
      const auto reader = storage::database::open(root / "run.db", storage::database::access::read);
      REQUIRE(reader);
      REQUIRE((*reader)->execute(reads));
      REQUIRE(w.go());
      CHECK(w.head().close());
      CHECK(std::filesystem::exists(root / "run.db-wal"));
    }
    const auto later = storage::database::open(root / "run.db", storage::database::access::read);
    REQUIRE(later);
    CHECK(storage::ledger::open(**later).value()->position().value().checkpoint->version == 1);
  }
}

TEST_CASE("a group whose prompt is lost is dropped with a reason, and the run goes on") {
  fixture f;
  for (const bool damaged : {true, false}) {
    CAPTURE(damaged);
    const auto root = f.folder.path() / (damaged ? "damaged prompt" : "no prompt");
    {
      world w(f.config, *f.tasks, root, true, 4);
      REQUIRE_FALSE(w.go(9));
    }
    storage::group_row lost;
    {
      const auto db = storage::database::open(root / "run.db", storage::database::access::read);
      REQUIRE(db);
      lost = storage::ledger::open(**db).value()->live_groups().value().front();
    }
    const auto file = storage::blob_store(root / "blobs").path_of(lost.prompt_hash);
    if (damaged) {
      REQUIRE(base::write_file_atomic(file, "no longer what it was"));
    } else {
      REQUIRE(std::filesystem::remove(file));
    }
    world w(f.config, *f.tasks, root, false, 5);
    const auto rows = w.head().rows().group(lost.id);
    REQUIRE(rows);
    for (const storage::sample_row& sample : rows->samples) {
      CHECK(sample.state == storage::sample_state::dropped);
      CHECK(sample.drop_reason == "prompt_lost");
    }
    const auto end = w.go();
    REQUIRE(end);
    CHECK(end->finished);
    check_end(w, f.config.learner.steps);
  }
}

TEST_CASE("a prompt that the system cannot read ends the start: its group is not dropped") {
  fixture f;
  const auto root = f.folder.path() / "unreadable prompt";
  {
    world w(f.config, *f.tasks, root, true, 4);
    REQUIRE_FALSE(w.go(9));
  }
  storage::group_row row;
  {
    const auto db = storage::database::open(root / "run.db", storage::database::access::read);
    REQUIRE(db);
    row = storage::ledger::open(**db).value()->live_groups().value().front();
  }
  const auto file = storage::blob_store(root / "blobs").path_of(row.prompt_hash);
  const auto kept = f.folder.path() / "kept";
  std::filesystem::rename(file, kept);
  std::filesystem::create_symlink(file, file);  // a link to itself: ELOOP, for root, too
  {
    auto run = storage::run_directory::open(root);
    REQUIRE(run);
    const auto refused = orchestrator::open(f.config, *run, *f.tasks, "cpp-avx2");
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == base::errc::io);
    CHECK(test::contains(refused.error().message, file.string()));
  }
  std::filesystem::remove(file);
  std::filesystem::rename(kept, file);
  world w(f.config, *f.tasks, root, false, 5);
  const auto rows = w.head().rows().group(row.id);
  REQUIRE(rows);
  for (const storage::sample_row& sample : rows->samples)
    CHECK(sample.state != storage::sample_state::dropped);
  REQUIRE(w.go());
  check_end(w, f.config.learner.steps);
}

TEST_CASE("newer checkpoints than the ledger knows are kept when a run goes on, out of the way") {
  fixture f;
  f.config.storage.checkpoint_every_steps = 1;
  const auto root = f.folder.path() / "old ledger", copy = f.folder.path() / "run.db";
  const weights_version reached = paused_at(f, root, 9, 4);
  std::filesystem::copy_file(root / "run.db", copy);
  {
    world w(f.config, *f.tasks, root, false, 5);
    REQUIRE(w.go());
    CHECK(w.head().close());
  }
  std::filesystem::copy_file(copy, root / "run.db",
                             std::filesystem::copy_options::overwrite_existing);
  std::vector<std::string> said;
  const auto opened = [&] {
    test::caught_stderr caught(f.folder.path() / "said");
    auto made = std::make_unique<world>(f.config, *f.tasks, root, false, 6);
    said = caught.lines();
    return made;
  }();
  world& w = *opened;
  CHECK(w.head().start().version == reached);
  const storage::checkpoint_store aside(root / "checkpoints/set_aside");
  REQUIRE_FALSE(aside.versions().empty());
  CHECK(aside.versions().front() == f.config.learner.steps);
  CHECK(aside.verify(f.config.learner.steps));
  for (const weights_version version : aside.versions()) {
    CAPTURE(version);
    const std::string folder = aside.folder_of(version).string();
    CHECK(warned(said,
                 {"goes on from version " + std::to_string(reached), "whole", "moved to " + folder,
                  "policy.model=" + folder + "/model", "delete the folder"}));
  }
  const auto end = w.go();
  REQUIRE(end);
  CHECK(end->finished);
  check_end(w, f.config.learner.steps);
}

TEST_CASE("a damaged checkpoint is set aside with what is left of it, a stray file only named") {
  fixture f;
  f.config.storage.checkpoint_every_steps = 1;
  const auto root = f.folder.path() / "damaged";
  const weights_version reached = paused_at(f, root, 12, 4);
  REQUIRE(reached > 1);
  const storage::checkpoint_store store(root / "checkpoints");
  const auto newest = store.folder_of(reached), aside = root / "checkpoints/set_aside";
  REQUIRE(base::write_file_atomic(newest / "notes.txt", "hi"));
  std::vector<std::string> said;
  const auto version_at_start = [&] {
    test::caught_stderr caught(f.folder.path() / "said");
    world w(f.config, *f.tasks, root, false, 5);
    said = caught.lines();
    return w.head().start().version;
  };
  CHECK(version_at_start() == reached);
  CHECK(warned(said, {(newest / "notes.txt").string(), "not in the manifest"}));
  CHECK(std::filesystem::exists(newest / "notes.txt"));
  CHECK_FALSE(std::filesystem::exists(aside));

  REQUIRE(base::write_file_atomic(newest / "state.json", "{}"));
  CHECK(version_at_start() < reached);
  const std::string moved = (aside / newest.filename()).string();
  CHECK(warned(said, {(newest / "state.json").string(), "moved to " + moved, "Its model is whole",
                      "quern export " + moved, "delete the folder"}));
  CHECK_FALSE(std::filesystem::exists(newest));
  CHECK(std::filesystem::exists(aside / newest.filename() / "notes.txt"));
  const auto left = storage::check_checkpoint(aside / newest.filename(), storage::model_part);
  REQUIRE(left);
  CHECK(left->whole());
  world w(f.config, *f.tasks, root, false, 6);
  const auto end = w.go();
  REQUIRE(end);
  CHECK(end->finished);
  check_end(w, f.config.learner.steps);
}

TEST_CASE("lost texts of variants cost prompts their exemplars, not the run its end") {
  fixture f;
  f.config.replay.without_exemplars_share = 0;
  const auto root = f.folder.path() / "holes";
  paused_at(f, root, 9, 4);
  const storage::blob_store blobs(root / "blobs");
  int lost = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root / "blobs")) {
    if (!entry.is_regular_file()) continue;
    const auto hash = base::parse_hash(entry.path().stem().string());
    REQUIRE(hash);
    if (!blobs.get(*hash).value().starts_with("int v")) continue;
    REQUIRE(std::filesystem::remove(entry.path()));
    ++lost;
  }
  CHECK(lost > 0);
  world w(f.config, *f.tasks, root, false, 5);
  const auto end = w.go();
  REQUIRE(end);
  CHECK(end->finished);
  check_end(w, f.config.learner.steps);
}
