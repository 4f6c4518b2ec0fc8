// The files of a run's best kernels: the policy's own, whatever prompts brought along.
#include "actors/orchestrator/best_kernels.hpp"

#include "../../storage/ledger_support.hpp"
#include "base/file.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::actors;
using test::must;

namespace {

struct kernels_fixture : test::open_ledger {
  base::temp_folder folder = must(base::temp_folder::make("best_kernels"));
  storage::blob_store blobs{folder.path() / "blobs"};
  std::unique_ptr<storage::archive> archive = must(storage::archive::open(*db, blobs));
  run_config config;
  std::optional<task_book> tasks;
  std::uint64_t sources = 0;

  kernels_fixture() {
    config.tasks.count = 3;
    config.tasks.held_out_count = 1;
    tasks.emplace(must(task_book::make(config)));
  }

  /// A variant of a task; sample 0: brought along.
  void record(std::size_t task, std::int64_t speedup_e2, std::int64_t sample,
              const std::string& text) {
    storage::variant made;
    made.key = {tasks->tasks()[task].id, "cpu-avx2", config.env.protocol};
    made.source_hash = {1, ++sources};
    made.speedup_e2 = speedup_e2;
    made.sample = sample;
    if (sample != 0) made.verdict_id = must(book->verdicts_of(sample)).at(0).id;
    must(archive->record(made, text));
  }

  std::vector<kept_kernel> kept;
  std::size_t write() {
    kept = must(write_best_kernels(folder.path() / "kernels", config, *tasks,
                                   {archive.get(), book.get(), nullptr, "cpu-avx2"}));
    return kept.size();
  }
  [[nodiscard]] std::filesystem::path file(std::size_t task, const std::string& ending) const {
    return folder.path() / "kernels" / (tasks->tasks()[task].task->name + ending);
  }
};

}  // namespace

TEST_CASE(
    "a kernel of the policy is kept although one that was brought along is as fast or faster") {
  kernels_fixture f;
  const auto samples = f.group_in(storage::sample_state::evaluated, 3);
  f.record(0, 300, 0, "brought, as fast");
  f.record(0, 210, samples[0], "slower");
  f.record(0, 300, samples[1], "the fastest of the policy");
  f.record(1, 300, 0, "brought, faster");
  f.record(1, 120, samples[2], "the only one of the policy");
  f.record(2, 300, 0, "brought, alone");
  CHECK(f.write() == 2);
  CHECK(f.kept[0].task == f.tasks->tasks()[0].task->name);
  CHECK(f.kept[0].speedup_e2 == 300);
  CHECK(f.kept[1].speedup_e2 == 120);
  CHECK(f.kept[1].verdict == "{\"verdict\":\"ok\"}");
  CHECK(must(base::read_file(f.file(0, ".cpp"))) == "the fastest of the policy");
  CHECK(must(base::read_file(f.file(1, ".cpp"))) == "the only one of the policy");
  CHECK(must(base::read_file(f.file(0, ".verdict.json"))) == "{\"verdict\":\"ok\"}\n");
  CHECK_FALSE(std::filesystem::exists(f.file(2, ".cpp")));
  CHECK(std::filesystem::exists(f.file(0, ".task.yaml")));
  CHECK_FALSE(std::filesystem::exists(f.file(2, ".task.yaml")));
  CHECK(std::filesystem::exists(f.folder.path() / "kernels/suite.yaml"));
}

TEST_CASE("a run without a right kernel writes none") {
  kernels_fixture f;
  f.record(0, 300, 0, "brought");
  CHECK(f.write() == 0);
  CHECK_FALSE(std::filesystem::exists(f.folder.path() / "kernels/suite.yaml"));
}

TEST_CASE("a kernel whose text is lost is left out; the others are written") {
  kernels_fixture f;
  const auto samples = f.group_in(storage::sample_state::evaluated, 2);
  f.record(0, 300, samples[0], "its text is lost");
  f.record(1, 120, samples[1], "still there");
  int lost = 0;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(f.folder.path() / "blobs")) {
    if (!entry.is_regular_file()) continue;
    const auto hash = must(base::parse_hash(entry.path().stem().string()));
    if (must(f.blobs.get(hash)) != "its text is lost") continue;
    REQUIRE(std::filesystem::remove(entry.path()));
    ++lost;
    break;
  }
  REQUIRE(lost == 1);
  CHECK(f.write() == 1);
  CHECK_FALSE(std::filesystem::exists(f.file(0, ".cpp")));
  CHECK(must(base::read_file(f.file(1, ".cpp"))) == "still there");
}
