// quern sample: prompts as a run makes them, completions told apart, and what they are worth.
// Verdicts of no clock.
#include "base/file.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "e2e/run_fixture.hpp"
#include "policy/text/chat.hpp"
#include "storage/checkpoint.hpp"
#include "storage/run_directory.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::test;
namespace fs = std::filesystem;

namespace {

struct sampling {
  base::temp_folder folder = std::move(base::temp_folder::make("sample").value());
  const std::string demo = (source_dir() / "policy/demo").string();
  int logs = 0;

  finished sample(std::vector<std::string> words) {
    words.insert(words.begin(), {program("quern"), "sample"});
    return run_to_end(words, folder.path() / ("log" + std::to_string(logs++)));
  }
  /// In the folder of the test, so that names of runs are found.
  finished sample_here(const std::string& words) {
    return run_to_end(
        {"/bin/sh", "-c",
         "cd " + folder.path().string() + " && exec " + program("quern") + " sample " + words},
        folder.path() / ("log" + std::to_string(logs++)));
  }
  std::vector<base::json> lines(const finished& end) {
    CAPTURE(end.output);
    REQUIRE(end.code == 0);
    std::vector<base::json> all;
    for (const std::string_view line : base::split(end.output, '\n')) {
      if (line.empty()) continue;
      auto value = base::parse_json(line);
      REQUIRE(value);
      all.push_back(std::move(*value));
    }
    return all;
  }
  void refused(std::vector<std::string> words, std::initializer_list<std::string_view> parts) {
    const finished end = sample(std::move(words));
    CAPTURE(end.output);
    CHECK(end.code == 2);
    for (const std::string_view part : parts)
      CHECK(contains(end.output, part));
  }
  /// A run with one checkpoint, whose weights are those of the demo policy.
  fs::path run(const std::string& name, const std::string& policy) {
    const fs::path root = folder.path() / "runs" / name;
    REQUIRE(storage::run_directory::create(
        root, "quern_config: 2\nstage: contrastive\npolicy: {" + policy + "}\n",
        base::json::object({{"stage", "contrastive"}})));
    storage::checkpoint_store store(root / "checkpoints");
    REQUIRE(store.write(3, [&](const fs::path& draft) {
      fs::copy(demo, draft / "model", fs::copy_options::recursive);
      return base::status();
    }));
    REQUIRE(store.publish(3));
    return root;
  }
};

}  // namespace

TEST_CASE("completions are told apart, and judged as quern eval judges them") {
  sampling f;
  // The most likely tokens: both kernels are the same one, which is right.
  const finished told = f.sample({f.demo, "--task", "relu_centre_square", "--n", "2", "--greedy",
                                  "--eval", "--verify-only", "--best-effort"});
  CAPTURE(told.output);
  CHECK(told.code == 0);
  CHECK(contains(told.output, "for task relu_centre_square, template contrastive_demo, cpp-"));
  CHECK(contains(told.output, "no chat template\n"));
  CHECK(contains(told.output, "--- completion 2: "));
  CHECK(contains(told.output, "tokens, ended by the policy ---\n## Performance Analysis\n"));
  CHECK(contains(told.output, "verdict 1: ok\n"));
  CHECK(contains(told.output, "2 completions, 0 truncated: 2 ok\n"));
  // Cut off after a few tokens no kernel can be read.
  const auto cut =
      f.lines(f.sample({f.demo, "--task", "relu_centre_square", "--n", "3", "--max-tokens", "5",
                        "--eval", "--verify-only", "--best-effort", "--json"}));
  REQUIRE(cut.size() == 3);
  for (std::size_t i = 0; i < cut.size(); ++i) {
    CHECK(cut[i]["number"] == i + 1);
    CHECK(cut[i]["tokens"] == 5);
    CHECK(cut[i]["token_ids"].size() == 5);
    CHECK(cut[i]["truncated"] == true);
    CHECK(cut[i]["verdict"]["verdict"] == "malformed");
    CHECK(cut[i]["verdict"]["protocol"] == "paired/1");
  }
  const finished short_ones =
      f.sample({f.demo, "--task", "relu_centre_square", "--max-tokens", "5"});
  CHECK(contains(short_ones.output,
                 "--- completion 1: 5 tokens, truncated: 5 tokens are the limit ---\n"));
  CHECK(contains(short_ones.output, "1 completion, 1 truncated\n"));
}

TEST_CASE("the prompt that is shown is the one that is asked") {
  sampling f;
  const finished prompt = f.sample({f.demo, "--task", "relu_centre_square", "--show-prompt"});
  REQUIRE(prompt.code == 0);
  CHECK(contains(prompt.output, "torch.relu(h)"));
  REQUIRE(base::write_file_atomic(f.folder.path() / "prompt", prompt.output));
  // The prompt of a task, as a file: the same tokens but the last line end.
  const auto by_task =
      f.lines(f.sample({f.demo, "--task", "relu_centre_square", "--greedy", "--json"}));
  const auto by_file = f.lines(
      f.sample({f.demo, "--prompt", (f.folder.path() / "prompt").string(), "--greedy", "--json"}));
  CHECK(by_file[0]["prompt_tokens"].get<int>() - by_task[0]["prompt_tokens"].get<int>() <= 1);
  CHECK_FALSE(by_task[0].contains("verdict"));
}

TEST_CASE("the prompt of a run's weights is that of the run, found by the run's name") {
  sampling f;
  const fs::path run = f.run("mine", "template_name: contrastive_full, max_new_tokens: 9");
  const finished own = f.sample_here("mine --task relu_centre_square --show-prompt");
  const finished demo = f.sample_here("policy/demo --task relu_centre_square --show-prompt");
  CAPTURE(own.output);
  CHECK(own.code == 0);
  CHECK(own.output.size() > 2 * demo.output.size());
  const finished full = f.sample(
      {f.demo, "--task", "relu_centre_square", "--template", "contrastive_full", "--show-prompt"});
  CHECK(own.output == full.output);
  const finished as_demo = f.sample({run.string(), "--task", "relu_centre_square", "--template",
                                     "contrastive_demo", "--show-prompt"});
  CHECK(as_demo.output == demo.output);
  const auto written =
      f.lines(f.sample_here("mine --task relu_centre_square --template "
                            "contrastive_demo --json"));
  CHECK(written[0]["max_tokens"] == 9);
  const auto longer =
      f.lines(f.sample_here("mine --task relu_centre_square --template "
                            "contrastive_demo --max-tokens 11 --json"));
  CHECK(longer[0]["max_tokens"] == 11);
}

TEST_CASE("quern export writes what transformers generates with, and where it comes from") {
  sampling f;
  const fs::path run = f.run("mine", "template_name: contrastive_full, max_new_tokens: 9");
  REQUIRE(base::write_file_atomic(run / "metrics.jsonl",
                                  "{\"step\":1,\"learner\":{\"loss\":8}}\n"
                                  "{\"step\":3,\"learner\":{\"loss\":2}}\n"
                                  "{\"step\":4,\"learner\":{\"loss\":7}}\n"));
  REQUIRE(base::write_file_atomic(run / "report.txt",
                                  "54 samples issued\nkernels: " + run.string() + "/kernels\n"));
  const auto exported = [&](const std::string& from, const std::string& to) {
    const finished end = run_to_end({"/bin/sh", "-c",
                                     "cd " + f.folder.path().string() + " && exec " +
                                         program("quern") + " export " + from + " " + to},
                                    f.folder.path() / ("export-" + to));
    CAPTURE(end.output);
    CHECK(end.code == 0);
    const fs::path made = f.folder.path() / to;
    const auto inputs = base::parse_json(*base::read_file(made / "tokenizer_config.json"));
    CHECK((*inputs)["model_input_names"] == base::json({"input_ids", "attention_mask"}));
    const auto config = base::parse_json(*base::read_file(made / "config.json"));
    CHECK(config->contains("sliding_window"));
    CHECK((*config)["sliding_window"].is_null());
    return *base::read_file(made / "README.md");
  };
  const std::string card = exported("mine", "out");
  CAPTURE(card);
  CHECK(contains(card, ", version 3\n"));
  CHECK(contains(card, "contrastive_full"));
  // Steps after version 3 are of other weights.
  CHECK(contains(card, "| loss | 8 | 2 |\n"));
  CHECK(contains(card, "54 samples issued\n"));
  CHECK_FALSE(contains(card, run.string()));
  CHECK(contains(card, "max_new_tokens=9"));
  const std::string other = exported(f.demo, "out2");
  CHECK(contains(other, "no checkpoint of a run"));
  CHECK_FALSE(contains(other, "| run |"));
  CHECK_FALSE(contains(other, "## Figures"));
}

TEST_CASE("--chat uses the policy's template where it has one") {
  sampling f;
  const std::string task = "relu_centre_square";
  const finished none = f.sample({f.demo, "--task", task, "--chat", "--max-tokens", "2"});
  CHECK(none.code == 0);
  CHECK(contains(none.output, "--chat: "));
  CHECK(contains(none.output, "has no chat template"));
  CHECK_FALSE(contains(f.sample({f.demo, "--task", task, "--max-tokens", "2"}).output, "--chat: "));
  // A template whose tokens the tokenizer does not have is refused, unless it is not asked for.
  const fs::path chatting = f.folder.path() / "chatting";
  fs::copy(f.demo, chatting, fs::copy_options::recursive);
  REQUIRE(base::write_file_atomic(chatting / "chat_template.jinja",
                                  policy::template_text(policy::chat_format::chatml)));
  const std::string prompt = (f.folder.path() / "prompt").string();
  REQUIRE(base::write_file_atomic(prompt, "def forward(x):"));
  f.refused({chatting.string(), "--prompt", prompt, "--max-tokens", "2"}, {"<|im_start|>"});
  const finished plain =
      f.sample({chatting.string(), "--prompt", prompt, "--no-chat", "--max-tokens", "2"});
  CAPTURE(plain.output);
  CHECK(plain.code == 0);
}

TEST_CASE("what quern sample cannot do is refused with what to do") {
  sampling f;
  f.refused({f.demo}, {"nothing is asked of", "--task TASK", "--prompt FILE"});
  f.refused({f.demo, "--prompt", "-", "--eval"}, {"--eval requires --task"});
  f.refused({f.demo, "--task", "relu_centre_square", "--prompt", "-"}, {"--task", "--prompt"});
  f.refused({f.demo, "--task", "relu_centre_squar"}, {"did you mean 'relu_centre_square'?"});
  f.refused({f.demo, "--task", "relu_centre_square", "--template", "contrastive_dmo"},
            {"'contrastive_dmo'", "did you mean 'contrastive_demo'?"});
  f.refused({f.demo, "--task", "relu_centre_square", "--max-tokens", "1320"},
            {"--max-tokens is 1320", "1320 in all", "or less"});
  f.refused({"no_such_model", "--task", "relu_centre_square"},
            {"there is no model 'no_such_model'", "runs/no_such_model", "Hugging Face"});
}
