// Checkpoints that will not fit are refused before a run begins.
#include "actors/config/disk_check.hpp"
#include "actors/config/fresh_model.hpp"
#include "actors/config/preflight.hpp"
#include "base/file.hpp"
#include "base/program.hpp"
#include "storage/checkpoint.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::actors;
using test::contains;

namespace {

struct disk_fixture {
  base::temp_folder folder = std::move(base::temp_folder::make().value());
  run_config config;
  policy::model_config model;

  disk_fixture() {
    config.learner.steps = 100;
    config.storage.checkpoint_every_steps = 10;
    config.storage.keep_checkpoints = 3;
    model = fresh_model(config, config.policy.vocabulary, 0);
  }
  std::uint64_t bytes(std::int64_t checkpoints) const {
    return static_cast<std::uint64_t>(checkpoints * checkpoint_bytes(config, model));
  }
  bool fits(std::uint64_t free) const {
    return check_disk(config, model, folder.path(), free).has_value();
  }
};

}  // namespace

TEST_CASE("those that stay at a time and the one that is being written need room") {
  disk_fixture f;
  // Three, the one that an incarnation began with, and the next.
  CHECK(f.fits(f.bytes(5)));
  CHECK_FALSE(f.fits(f.bytes(5) - 1));
  CHECK(check_disk(f.config, f.model, f.folder.path(), std::nullopt));
  const auto refused = check_disk(f.config, f.model, f.folder.path(), 1024);
  REQUIRE_FALSE(refused);
  for (const std::string& part :
       {std::string("1.0 KiB free"), std::string("run.folder"), f.folder.path().string(),
        std::string("5 more of"), std::string("storage.keep_checkpoints is 3")})
    CHECK(contains(refused.error().message, part));
  // A run that makes two needs no room for four.
  f.config.learner.steps = 20;
  CHECK(f.fits(f.bytes(2)));
  CHECK_FALSE(f.fits(f.bytes(2) - 1));
  // Stage sft holds none.
  f.config.learner.steps = 100;
  f.config.stage = "sft";
  CHECK(f.fits(f.bytes(4)));
  CHECK_FALSE(f.fits(f.bytes(4) - 1));
}

TEST_CASE("temporary files need room, too") {
  const std::filesystem::path folder = "/tmp/small";
  CHECK(check_temporary_room(folder, std::nullopt));
  CHECK(check_temporary_room(folder, least_temporary_bytes));
  const auto refused = check_temporary_room(folder, least_temporary_bytes - 1);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == base::errc::exhausted);
  for (const std::string part : {"/tmp/small", "16.0 MiB are needed", "TMPDIR"})
    CHECK(contains(refused.error().message, part));
}

TEST_CASE("what is there already needs no room; a complete run needs none") {
  disk_fixture f;
  storage::checkpoint_store store(f.folder.path() / "checkpoints");
  for (const std::int64_t version : {10, 20}) {
    REQUIRE(store.write(version, [](const std::filesystem::path& draft) {
      return base::write_file_atomic(draft / "x", "x");
    }));
    REQUIRE(store.publish(version));
  }
  CHECK(f.fits(f.bytes(3)));
  CHECK_FALSE(f.fits(f.bytes(3) - 1));
  f.config.learner.steps = 20;
  CHECK(f.fits(0));
}

TEST_CASE("stages need room for the checkpoints of all of them") {
  disk_fixture f;
  std::vector<stage_plan> stages = {{"1-sft", f.config}, {"2-contrastive", f.config}};
  stages[1].config.learner.steps = 20;
  const auto check = [&](std::uint64_t free) {
    return check_disk_of_chain(stages, f.model, f.folder.path(), free);
  };
  // Five at a time of the first one, two of the second.
  CHECK(check(f.bytes(7)));
  const auto refused = check(f.bytes(7) - 1);
  REQUIRE_FALSE(refused);
  for (const char* part : {"all stages", "1-sft: ", "2-contrastive: ", "run.folder"})
    CHECK(contains(refused.error().message, part));
  CHECK(check_disk_of_chain(stages, f.model, f.folder.path(), std::nullopt));
  // Each alone would fit; and one that is complete needs none.
  CHECK(f.fits(f.bytes(7) - 1));
  storage::checkpoint_store store(f.folder.path() / "1-sft" / "checkpoints");
  REQUIRE(store.write(100, [](const std::filesystem::path& draft) {
    return base::write_file_atomic(draft / "x", "x");
  }));
  REQUIRE(store.publish(100));
  CHECK(check(f.bytes(2)));
  CHECK_FALSE(check(f.bytes(2) - 1));
}

TEST_CASE("before a run begins the disk is asked") {
  if (!base::sibling_program("quern-torch") || !base::sibling_program("quern-runner"))
    return test::skip("quern-torch or quern-runner is not built");
  disk_fixture f;
  f.config.env.sandbox = "best_effort";
  f.config.stage = "sft";
  f.config.policy.width = 512;
  f.config.policy.layers = 8;
  f.config.storage.checkpoint_every_steps = 1;
  f.config.storage.keep_checkpoints = 1000;
  f.config.learner.steps = 1'000'000;
  f.model = fresh_model(f.config, f.config.policy.vocabulary, 0);
  if (f.fits(std::filesystem::space(f.folder.path()).available))
    return test::skip("this disk has room for 1001 checkpoints");
  const auto checked = preflight(f.config, f.folder.path() / "run", run_beginning::fresh);
  REQUIRE_FALSE(checked);
  CHECK(contains(checked.error().message, "storage.keep_checkpoints is 1000"));
}
