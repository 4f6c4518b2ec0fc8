// Fine-tuning as a run: paused, looked at, gone on with.
#include <signal.h>

#include "base/file.hpp"
#include "base/subprocess.hpp"
#include "e2e/run_fixture.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::test;
namespace fs = std::filesystem;
using base::operator""_s;

TEST_CASE("fine-tuning pauses on request, tells where it stands and goes on from there") {
  auto folder = base::temp_folder::make();
  REQUIRE(folder);
  const fs::path run = folder->path() / "run", log = folder->path() / "log",
                 asked = folder->path() / "asked";
  REQUIRE(base::write_file_atomic(folder->path() / "sft.yaml", sft_config));
  auto control = base::subprocess::start(
      {.argv = {program("quern"), "train", (folder->path() / "sft.yaml").string(), "--set",
                "run.folder=" + run.string()},
       .log = log});
  REQUIRE(control);
  REQUIRE(wait_until(240_s, [&] { return sft_checkpoint_of(run, asked) >= 2 || control->poll(); }));
  const finished pause = run_to_end({program("quern"), "pause", run.string()}, asked);
  CHECK(pause.code == 0);
  const auto paused = control->wait(60_s);
  CAPTURE(base::read_file(log).value_or(""));
  REQUIRE(paused);
  CHECK(paused->code == 3);
  const std::int64_t before = sft_checkpoint_of(run, asked);
  REQUIRE(before >= 2);

  const std::string steps = "learner.steps=" + std::to_string(before + 3);
  const finished resumed = run_to_end({program("quern"), "resume", run.string(), "--set", steps},
                                      folder->path() / "more");
  CAPTURE(resumed.output);
  CHECK(resumed.code == 0);
  CHECK(contains(resumed.output, fmt::format("{} of {} steps were taken", before, before + 3)));
  CHECK(contains(resumed.output, fmt::format("from step {}", before)));
  CHECK(sft_checkpoint_of(run, asked) == before + 3);
  const finished again = run_to_end({program("quern"), "resume", run.string()}, asked);
  CHECK(again.code == 4);
}

TEST_CASE(
    "fine-tuning goes on from the newest checkpoint that can be read, and clears away the rest") {
  const auto folder = base::temp_folder::make().value();
  const fs::path run = folder.path() / "run", log = folder.path() / "log",
                 asked = folder.path() / "asked", checkpoints = run / "checkpoints";
  REQUIRE(base::write_file_atomic(folder.path() / "sft.yaml", sft_config));
  const finished made =
      run_to_end({program("quern"), "train", (folder.path() / "sft.yaml").string(), "--set",
                  "run.folder=" + run.string(), "--set", "learner.steps=6"},
                 log);
  CAPTURE(made.output);
  REQUIRE(made.code == 0);
  REQUIRE(sft_checkpoint_of(run, asked) == 6);
  // What a kill in the middle of writing and a bad disk leave.
  fs::create_directories(checkpoints / ".writing-v00000008-1" / "model");
  fs::resize_file(checkpoints / "v00000006" / "model" / "model.safetensors", 100);
  const finished resumed =
      run_to_end({program("quern"), "resume", run.string(), "--set", "learner.steps=8"},
                 folder.path() / "more");
  CAPTURE(resumed.output);
  CHECK(resumed.code == 0);
  CHECK(contains(resumed.output, "model.safetensors"));
  CHECK(contains(resumed.output, "goes on from checkpoint 4, not from checkpoint 6"));
  CHECK(contains(resumed.output, "steps 5-6 are trained again"));
  CHECK(sft_checkpoint_of(run, asked) == 8);
  CHECK_FALSE(fs::exists(checkpoints / ".writing-v00000008-1"));
}

TEST_CASE("a corpus keeps the shards that it was begun with, and nothing is learnt twice") {
  const auto folder = base::temp_folder::make().value();
  const fs::path run = folder.path() / "run", corpus = run / "corpus";
  REQUIRE(base::write_file_atomic(folder.path() / "sft.yaml", sft_config));
  const finished part =
      run_to_end({program("quern"), "train", (folder.path() / "sft.yaml").string(), "--set",
                  "run.folder=" + run.string(), "--set", "tasks.corpus_part_s=0.001"},
                 folder.path() / "part");
  CAPTURE(part.output);
  REQUIRE(part.code == 3);
  const finished whole =
      run_to_end({program("quern"), "resume", run.string(), "--set", "env.evaluators=2", "--set",
                  "tasks.corpus_part_s=0", "--set", "learner.steps=2"},
                 folder.path() / "whole");
  CAPTURE(whole.output);
  REQUIRE(whole.code == 0);
  CHECK(contains(whole.output, "it was begun with 1 shards and keeps them"));
  CHECK_FALSE(fs::exists(corpus / "corpus-001.jsonl"));
  std::size_t records = 0;
  for (const std::string& line : whole_lines_of(corpus / "corpus-000.jsonl"))
    records += contains(line, "\"prompt\":") ? 1 : 0;
  fs::copy_file(corpus / "corpus-000.jsonl", corpus / "copy.jsonl");
  const std::vector<std::string> again{program("quern"), "resume", run.string(), "--set",
                                       "learner.steps=4"};
  const finished twice = run_to_end(again, folder.path() / "twice");
  CHECK(twice.code != 0);
  CHECK(contains(twice.output, "its records would be learnt twice"));
  fs::remove(corpus / "copy.jsonl");
  const finished more = run_to_end(again, folder.path() / "more");
  CAPTURE(more.output);
  CHECK(more.code == 0);
  CHECK(contains(more.output, "with " + std::to_string(records) + " records"));
}
