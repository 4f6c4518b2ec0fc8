// One sample with all that belongs to it.
#include "actors/inspect/sample_view.hpp"

#include "support/written_run.hpp"

using namespace quern;
using namespace quern::actors;
using test::contains;

namespace {

struct viewing {
  base::temp_folder folder = std::move(base::temp_folder::make("view").value());
  test::written_run run{folder.path() / "run"};
  viewing() { run.open(); }

  [[nodiscard]] base::expected<sample_view> ask(std::int64_t id) const {
    const auto reader = storage::sample_reader::open(run.folder() / "run.db");
    REQUIRE(reader);
    return view_sample(*reader, run.blobs(), id);
  }
  [[nodiscard]] sample_view view(std::int64_t id) const {
    auto made = ask(id);
    REQUIRE_MESSAGE(made, (made ? "" : made.error().message));
    return std::move(*made);
  }
};

}  // namespace

TEST_CASE("a sample shows prompt, exemplars, completion, verdict, reward, versions and its end") {
  viewing f;
  f.run.write_two_steps();
  const std::string text = view_text(f.view(3));
  CAPTURE(text);
  CHECK(text.starts_with("sample 3: member 1 of 2 of group 2, task relu@0"));
  CHECK(contains(text, "became     step 2 used it; no checkpoint holds that step yet\n"));
  CHECK(contains(text, "verdict    ok 0.90x\n"));
  CHECK(contains(text, "reward     0.1000; the mean of its group is 0.5000 (2 samples)\n"));
  CHECK(contains(text, "versions   0 from token 0 on, 1 from token 2 on\n"));
  CHECK(contains(text, "tokens     3 of the prompt, 4 of the model\n"));
  CHECK(contains(text, "exemplars  variant 1 (1.37x, by sample 1)\n"));
  CHECK(contains(text, "kernel     variant 2\n"));
  CHECK(contains(text, "\n--- prompt ---\nthe prompt of group 1\n"));
  CHECK(contains(text, "\n--- completion ---\nthird\x1b[31m\n"));
}

TEST_CASE("a sample that is not generated yet says so, and shows its prompt") {
  viewing f;
  f.run.write_two_steps();
  const std::string text = view_text(f.view(7));
  CAPTURE(text);
  CHECK(contains(text, "became     waits for a generator\n"));
  CHECK(contains(text, "verdict    none yet\n"));
  CHECK(contains(text, "reward     none\n"));
  CHECK(contains(text, "versions   none yet\n"));
  CHECK(contains(text, "exemplars  none: its prompt showed no kernel\n"));
  CHECK(contains(text, "the prompt of group 2\n"));
  CHECK(text.ends_with("\nno completion yet\n"));
}

TEST_CASE("blobs that are gone are named in their place, as text and as JSON") {
  viewing f;
  f.run.write_two_steps();
  const sample_view whole = f.view(1);
  for (const auto& hash : {*whole.record.row.tokens_hash, whole.record.group.prompt_hash})
    REQUIRE(std::filesystem::remove(f.run.blobs().path_of(hash)));
  const sample_view lost = f.view(1);
  const std::string text = view_text(lost);
  CAPTURE(text);
  CHECK(contains(text, "verdict    ok 1.37x\n"));
  CHECK(contains(text, "\n--- prompt: "));
  CHECK(contains(text, "\n--- completion: "));
  const auto json = view_json(lost);
  CHECK(json.contains("prompt_lost"));
  CHECK(json.contains("text_lost"));
  CHECK_FALSE(json.contains("prompt"));
  CHECK(json["verdict"] == "ok");
}

TEST_CASE("a sample as JSON has what a list has of it, and the rest") {
  viewing f;
  f.run.write_two_steps();
  const auto json = view_json(f.view(3));
  CHECK(json["quern_show"] == 2);
  CHECK(json["sample"] == 3);
  CHECK(json["verdict"] == "ok");
  CHECK(json["verdict_whole"]["speedup_e2"] == 90);
  CHECK(json["group_size"] == 2);
  CHECK(json["exemplars"][0]["variant"] == 1);
  CHECK(json["exemplars"][0]["sample"] == 1);
  CHECK(json["exemplars"][0]["speedup_e2"] == 137);
  CHECK(json["tokens"]["prompt"] == 3);
  CHECK(json["tokens"]["policy"] == 4);
  CHECK(json["tokens"]["truncated"] == false);
  CHECK(json["tokens"]["versions"][1]["first_token"] == 2);
  CHECK(json["kernel"]["variant"] == 2);
  CHECK(json["prompt"] == "the prompt of group 1");
  CHECK(json["text"] == "third\x1b[31m\n");
  CHECK(json["life"].size() == 6);
}

TEST_CASE("a sample that was never issued is an error that names those that were") {
  viewing f;
  const auto none = f.ask(1);
  REQUIRE_FALSE(none);
  CHECK(none.error().message == "no sample 1: this run has issued none yet");
  f.run.write_two_steps();
  const auto beyond = f.ask(8);
  REQUIRE_FALSE(beyond);
  CHECK(beyond.error().code == base::errc::not_found);
  CHECK(beyond.error().message == "no sample 8: this run has issued the samples 1 .. 7");
}
