// The policy behind what a person names, or a true reason why there is none.
#include "actors/config/policy_folder.hpp"

#include "../../storage/ledger_support.hpp"
#include "actors/config/config_file.hpp"
#include "actors/config/stages.hpp"
#include "base/file.hpp"
#include "storage/checkpoint.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::actors;
using test::contains;
namespace fs = std::filesystem;

namespace {

struct named_folder {
  base::temp_folder folder = std::move(base::temp_folder::make().value());
  fs::path chain = fs::canonical(folder.path()) / "chain";

  void make_chain() {
    run_config first, second;
    second.policy.model.clear();
    REQUIRE(create_chain(chain, {{"1-self_train", first}, {"2-contrastive", second}}));
  }
  static void begin(const fs::path& run) {
    REQUIRE(base::make_folders(run / "checkpoints"));
    REQUIRE(base::write_file_atomic(run / "meta.json", "{}"));
    run_config config;
    config.policy.model = "some/policy";
    REQUIRE(base::write_file_atomic(run / "config.yaml", to_yaml(config)));
  }
  static void save(const fs::path& run, std::int64_t version) {
    storage::checkpoint_store store(run / "checkpoints");
    REQUIRE(store.write(version, [](const fs::path& draft) -> base::status {
      QUERN_CHECK(base::make_folders(draft / "model"));
      return base::write_file_atomic(draft / "model/config.json", "{}");
    }));
    REQUIRE(store.publish(version));
  }
  static std::string refusal(const fs::path& name) {
    const auto found = find_policy(name);
    REQUIRE_FALSE(found);
    CHECK(found.error().code == base::errc::not_found);
    return found.error().message;
  }
};

}  // namespace

TEST_CASE("a chain stands for its last stage that has a checkpoint, and says which") {
  named_folder f;
  f.make_chain();
  CHECK(contains(named_folder::refusal(f.chain),
                 "a chain of 2 stages, none of which has a checkpoint"));
  CHECK(contains(named_folder::refusal(f.chain), "quern resume " + f.chain.string()));
  named_folder::begin(f.chain / "1-self_train");
  named_folder::save(f.chain / "1-self_train", 3);
  named_folder::begin(f.chain / "2-contrastive");
  const auto found = find_policy(f.chain);
  REQUIRE(found);
  CHECK(found->model == f.chain / "1-self_train/checkpoints/v00000003/model");
  REQUIRE(found->notes.size() == 1);
  CHECK(contains(found->notes[0], "1-self_train"));
  named_folder::save(f.chain / "2-contrastive", 1);
  CHECK(find_policy(f.chain)->model == f.chain / "2-contrastive/checkpoints/v00000001/model");
}

TEST_CASE("a run before its first checkpoint is called that, with what to do") {
  named_folder f;
  const fs::path run = f.chain / "run";
  named_folder::begin(run);
  const std::string said = named_folder::refusal(run);
  CAPTURE(said);
  for (const std::string& part : {run.string() + " is a run, but has no checkpoint yet",
                                  std::string("storage.checkpoint_every_steps is"),
                                  "quern resume " + run.string(), std::string("some/policy")})
    CHECK(contains(said, part));
  named_folder::save(run, 2);
  for (const char* name : {"", "checkpoints/v00000002", "checkpoints/v00000002/model"})
    CHECK(find_policy(run / name)->model == run / "checkpoints/v00000002/model");
}

TEST_CASE("an older checkpoint in place of the newest is taken only where that is wanted") {
  named_folder f;
  const fs::path run = f.chain / "run", checkpoints = run / "checkpoints";
  named_folder::begin(run);
  const auto older = [&] { return find_policy(run, older_checkpoint::take); };
  const auto refused = [&](std::string_view reason) {
    const auto found = find_policy(run);
    REQUIRE_FALSE(found);
    CAPTURE(found.error().message);
    CHECK(found.error().code == base::errc::corrupt);
    for (const std::string_view part : {reason, std::string_view("version 4, cannot be used"),
                                        std::string_view("take version 2 with --older")})
      CHECK(contains(found.error().message, part));
    const auto taken = older();
    REQUIRE(taken);
    CHECK(taken->model == checkpoints / "v00000002/model");
    REQUIRE_FALSE(taken->notes.empty());
    CHECK(contains(taken->notes.back(), "version 2, not of version 4"));
  };
  named_folder::save(run, 2);
  {
    auto db = test::must(storage::database::open(run / "run.db", storage::database::access::write));
    auto ledger = test::must(storage::ledger::open(*db));
    test::must(ledger->open_incarnation({"start", 0, {}}));
    CHECK(find_policy(run)->model == checkpoints / "v00000002/model");
  }
  SUBCASE("LATEST names one that is damaged") {
    named_folder::save(run, 4);
    CHECK(find_policy(run)->model == checkpoints / "v00000004/model");
    REQUIRE(base::write_file_atomic(checkpoints / "v00000004/model/config.json", "{ }"));
    refused("v00000004/model/config.json");
  }
  SUBCASE("the ledger knows one that is gone, LATEST an older one") {
    auto db = test::must(storage::database::open(run / "run.db", storage::database::access::write));
    auto ledger = test::must(storage::ledger::open(*db));
    for (std::int64_t step = 1; step <= 4; ++step) {
      const auto group = test::must(ledger->issue(test::group_of(step - 1, 1)));
      test::must(ledger->generated(test::tokens_of(group.first_sample, 1, 0, 0)));
      test::must(ledger->evaluated(test::verdict_of(group.first_sample, 1, 1)));
      const storage::admission one{group.first_sample, 1};
      test::must(ledger->admit({&one, 1}));
      const std::int64_t used[] = {group.first_sample};
      test::must(ledger->consume(used, step));
    }
    test::must(ledger->record_checkpoint({4, 1, "checkpoints/v00000004", {}}));
    refused("v00000004 is not there");
  }
  SUBCASE("nothing is left") {
    fs::remove_all(checkpoints / "v00000002");
    for (const auto& found : {find_policy(run), older()}) {
      REQUIRE_FALSE(found);
      CHECK(contains(found.error().message, "v00000002 is not there"));
    }
  }
}

TEST_CASE("a whole model is a policy whatever else of its checkpoint is damaged") {
  named_folder f;
  const fs::path run = f.chain / "run", checkpoints = run / "checkpoints";
  named_folder::begin(run);
  storage::checkpoint_store store(checkpoints);
  REQUIRE(store.write(3, [](const fs::path& draft) -> base::status {
    QUERN_CHECK(base::make_folders(draft / "model"));
    QUERN_CHECK(base::write_file_atomic(draft / "state.json", "{}"));
    return base::write_file_atomic(draft / "model/config.json", "{}");
  }));
  REQUIRE(store.publish(3));
  const fs::path home = store.folder_of(3), again = checkpoints / "set_aside/v00000003-2";
  REQUIRE(base::write_file_atomic(home / "state.json", "{ }"));
  REQUIRE(base::write_file_atomic(home / "model/notes.txt", "hi"));
  const auto of_run = find_policy(run);
  REQUIRE(of_run);
  CHECK(of_run->model == home / "model");
  REQUIRE(of_run->notes.size() == 1);
  CHECK(contains(of_run->notes[0], "notes.txt is not in the manifest"));
  REQUIRE(base::make_folders(again.parent_path()));
  fs::rename(home, again);
  for (const fs::path& name : {again, again / "model"}) {
    const auto found = find_policy(name);
    REQUIRE(found);
    CHECK(found->model == again / "model");
    CHECK(found->notes.size() == 1);
  }
  REQUIRE(base::write_file_atomic(again / "model/config.json", "{ }"));
  for (const fs::path& name : {again, again / "model"}) {
    const auto found = find_policy(name);
    REQUIRE_FALSE(found);
    CHECK(found.error().code == base::errc::corrupt);
    CHECK(contains(found.error().message, "model/config.json"));
  }
}

TEST_CASE("what is no policy is named with what is there") {
  named_folder f;
  CHECK(contains(named_folder::refusal(f.chain), f.chain.string() + " is not there"));
  REQUIRE(base::make_folders(f.chain));
  CHECK(contains(named_folder::refusal(f.chain), "in it: nothing"));
  REQUIRE(base::write_file_atomic(f.chain / "notes.txt", "x"));
  CHECK(contains(named_folder::refusal(f.chain), "in it: notes.txt"));
  CHECK(contains(named_folder::refusal(f.chain), "Hugging Face folder"));
  CHECK(contains(named_folder::refusal(f.chain / "notes.txt"), "is a file"));
}
