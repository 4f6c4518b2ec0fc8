// The policy behind what a person names, or a true reason why there is none.
#include "actors/config/policy_folder.hpp"

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
