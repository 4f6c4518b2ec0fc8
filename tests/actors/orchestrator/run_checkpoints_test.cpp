// Checkpoints of a run: what an incarnation begins with, and what makes one durable.
#include "actors/orchestrator/run_checkpoints.hpp"

#include "support/caught_stderr.hpp"
#include "tests/actors/orchestrator/orchestrator_fixture.hpp"
#include "tests/storage/ledger_support.hpp"

using namespace quern;
using namespace quern::actors;

namespace {

/// A run folder and a ledger, in which incarnation 1 began with version 0.
struct new_run {
  base::temp_folder folder = std::move(base::temp_folder::make().value());
  storage::run_directory run = storage::run_directory::create(
                                   folder.path() / "run", "quern_config: 2\n", base::json::object())
                                   .value();
  test::open_ledger begun;
  storage::ledger& rows = *begun.book;
  run_checkpoints checkpoints{run, 2};

  new_run() { REQUIRE(checkpoints.begin(0)); }

  /// The step that makes `version`.
  void step(weights_version version) {
    REQUIRE(rows.consume(begun.group_in(storage::sample_state::admitted, 1, version - 1), version));
  }
  /// What a learner does with an order.
  static checkpoint_saved written(const save_checkpoint& order) {
    REQUIRE(base::make_folders(std::filesystem::path(order.folder) / "model"));
    REQUIRE(base::make_folders(std::filesystem::path(order.folder) / "optimizer"));
    REQUIRE(
        base::write_file_atomic(std::filesystem::path(order.folder) / "model/config.json", "{}"));
    return {order.version, order.folder, "", order.incarnation};
  }
};

}  // namespace

TEST_CASE("a checkpoint is durable once the learner has written it, with what was given to it") {
  new_run r;
  CHECK_FALSE(r.checkpoints.newest(r.rows).value());
  CHECK_FALSE(r.checkpoints.saving());
  r.step(1);
  const save_checkpoint order = r.checkpoints.order(1, 1, {{"seen", 9}});
  CHECK(r.checkpoints.saving());
  CHECK(r.checkpoints.last() == 0);
  CHECK(order.version == 1);
  CHECK(std::filesystem::path(order.folder).filename() == "1-1");
  // An answer to anything else is none.
  CHECK(r.checkpoints.saved({3, order.folder, "", 1}, r.rows));
  CHECK(r.checkpoints.saving());
  test::must(r.checkpoints.saved(new_run::written(order), r.rows));
  CHECK_FALSE(r.checkpoints.saving());
  CHECK(r.checkpoints.last() == 1);
  CHECK_FALSE(std::filesystem::exists(order.folder));
  const auto newest = r.checkpoints.newest(r.rows).value();
  REQUIRE(newest);
  CHECK(newest->version == 1);
  CHECK(newest->reward_statistics == base::json{{"seen", 9}});
  CHECK(std::filesystem::exists(std::filesystem::path(newest->model) / "config.json"));
  CHECK(std::filesystem::is_directory(newest->optimizer));
}

TEST_CASE("what could not be written is an error, and changes nothing") {
  new_run r;
  r.step(1);
  const save_checkpoint order = r.checkpoints.order(1, 1, {});
  const auto told = r.checkpoints.saved({1, order.folder, "no room", 1}, r.rows);
  REQUIRE_FALSE(told);
  CHECK(test::contains(told.error().message, "could not write checkpoint v1: no room"));
  const auto missing = r.checkpoints.saved({1, order.folder, "", 1}, r.rows);
  REQUIRE_FALSE(missing);
  CHECK(test::contains(missing.error().message, "cannot read " + order.folder));
  CHECK_FALSE(r.checkpoints.newest(r.rows).value());
  CHECK(r.checkpoints.last() == 0);
}

TEST_CASE("that an older checkpoint is used is a warning with both, and the steps that are lost") {
  new_run r;
  for (weights_version version = 1; version <= 2; ++version) {
    r.step(version);
    test::must(r.checkpoints.saved(new_run::written(r.checkpoints.order(1, version, {})), r.rows));
  }
  r.step(3);
  const storage::checkpoint_store store(r.run.paths().checkpoints(), 2);
  std::vector<std::string> said;
  const auto newest = [&] {
    test::caught_stderr caught(r.folder.path() / "said");
    const auto found = r.checkpoints.newest(r.rows);
    said = std::filesystem::file_size(r.folder.path() / "said") > 0 ? caught.lines()
                                                                    : std::vector<std::string>();
    REQUIRE(found);
    REQUIRE(*found);
    return (*found)->version;
  };
  CHECK(newest() == 2);
  CHECK(said.empty());
  SUBCASE("missing") {
    std::filesystem::remove_all(store.folder_of(2));
  }
  SUBCASE("damaged") {
    std::filesystem::remove(store.folder_of(2) / "state.json");
  }
  CHECK(newest() == 1);
  REQUIRE(said.size() == 2);
  CHECK(test::contains(said[0], "v00000002"));
  CHECK(test::contains(said[1], " warning "));
  CHECK(test::contains(said[1], "from checkpoint 1, not from checkpoint 2"));
  CHECK(test::contains(said[1], "steps 2-3 are trained again"));
}

TEST_CASE("an incarnation begins without what was half written or is newer than its weights") {
  new_run r;
  r.step(1);
  test::must(r.checkpoints.saved(new_run::written(r.checkpoints.order(1, 1, {})), r.rows));
  r.step(2);
  const save_checkpoint lost = r.checkpoints.order(1, 2, {});
  const checkpoint_saved late = new_run::written(lost);
  CHECK(r.checkpoints.begin(1));
  CHECK_FALSE(r.checkpoints.saving());
  CHECK(r.checkpoints.last() == 1);
  CHECK_FALSE(std::filesystem::exists(lost.folder));
  CHECK(r.checkpoints.saved(late, r.rows));
  CHECK(r.checkpoints.last() == 1);
  CHECK(r.checkpoints.begin(0));
  const storage::checkpoint_store store(r.run.paths().checkpoints(), 2);
  CHECK(store.versions().empty());
}
