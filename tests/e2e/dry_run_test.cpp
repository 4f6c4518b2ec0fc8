// The configurations that come with Quern: each is one that could begin, with or without the GPUs
// and hosts that it names, and a dry run of it says what every stage will hold in memory.
#include <algorithm>

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/text.hpp"
#include "e2e/run_fixture.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::test;
namespace fs = std::filesystem;

namespace {

struct dry_fixture {
  base::temp_folder folder = std::move(base::temp_folder::make().value());
  int logs = 0;
  fs::path run() const { return folder.path() / "run"; }

  finished dry_run(const fs::path& file, const std::vector<std::string>& more = {}) {
    // The sandbox is the machine's and not the configuration's: containers lack layers of it.
    std::vector<std::string> words = {program("quern"), "train",
                                      file.string(),    "--dry-run",
                                      "--set",          "run.folder=" + run().string(),
                                      "--set",          "env.sandbox=best_effort"};
    words.insert(words.end(), more.begin(), more.end());
    return run_to_end(words, folder.path() / ("log" + std::to_string(logs++)));
  }
};

/// Every file of configs/ but the list of all keys.
std::vector<fs::path> shipped_runs() {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(source_dir() / "configs"))
    if (entry.path().extension() == ".yaml" && entry.path().filename() != "reference.yaml")
      found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  return found;
}

/// Lines that begin with `beginning` but for blanks.
std::ptrdiff_t lines_with(const std::string& text, std::string_view beginning) {
  std::ptrdiff_t count = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size()),
                      first = text.find_first_not_of(' ', at);
    count += first < end && std::string_view(text).substr(first).starts_with(beginning) ? 1 : 0;
    at = end + 1;
  }
  return count;
}

const fs::path chain_of_one_gpu = source_dir() / "configs/one_gpu.yaml";

}  // namespace

TEST_CASE("a dry run of every shipped configuration is right and tells the memory of each stage") {
  dry_fixture f;
  const auto files = shipped_runs();
  REQUIRE(files.size() >= 7);
  for (const fs::path& file : files) {
    CAPTURE(file.string());
    const std::string text = base::read_file(file).value();
    const std::ptrdiff_t stages = std::max<std::ptrdiff_t>(1, lines_with(text, "- stage: ")),
                         tuning = lines_with(text, "- stage: sft") + lines_with(text, "stage: sft");
    const finished end = f.dry_run(file);
    CAPTURE(end.output);
    CHECK(end.code == 0);
    CHECK(lines_with(end.output, "# plan: ") == stages);
    // A stage sft issues no samples.
    CHECK(lines_with(end.output, "# at most ") == stages - tuning);
    CHECK(lines_with(end.output, "# memory of the learner:") +
              lines_with(end.output, "# memory of a learner rank:") ==
          stages);
    // New weights from files pass through the host on their way to a GPU.
    const std::ptrdiff_t passing = lines_with(end.output, "# host memory of the generator");
    CHECK(lines_with(end.output, "# host memory of ") == stages + passing);
    CHECK((passing == 0 || passing == stages - tuning));
    if (file.filename() == "one_gpu.yaml") CHECK(passing == 2);
    CHECK(lines_with(end.output, "# memory of the generator") == stages - tuning);
    CHECK(lines_with(end.output, "#   moments ") == stages);
    // A thread more on a GPU would only take memory.
    if (contains(text, "device: cuda")) CHECK_FALSE(contains(end.output, "learner.threads is"));
    CHECK_FALSE(fs::exists(f.run()));
  }
}

TEST_CASE("several threads of a learner on a GPU are told, and are no reason to refuse") {
  dry_fixture f;
  const finished end = f.dry_run(chain_of_one_gpu, {"--set", "learner.threads=2"});
  CAPTURE(end.output);
  CHECK(end.code == 0);
  CHECK(contains(end.output, "learner.threads is 2"));
  CHECK(contains(end.output, "set learner.threads to 1"));
}

TEST_CASE("a dry run tells how many samples are under way, and how many of them evaluators have") {
  dry_fixture f;
  const finished end = f.dry_run(source_dir() / "configs/quickstart.yaml",
                                 {"--set", "algorithm.group_size=64", "--set",
                                  "algorithm.groups_per_step=40", "--set", "actors.staleness=2"});
  CAPTURE(end.output);
  CHECK(contains(end.output,
                 fmt::format("# at most {} samples are under way; {} of them are with the "
                             "evaluators at once, the others stay generated\n",
                             3 * 40 * 64, 4096)));
}

TEST_CASE("a stage after the first, alone, needs a policy that is named") {
  dry_fixture f;
  for (const char* stage : {"self_train", "contrastive"}) {
    CAPTURE(stage);
    const finished end = f.dry_run(chain_of_one_gpu, {"--stage", stage});
    CAPTURE(end.output);
    CHECK(end.code == 2);
    for (const char* part : {"policy.model", "RUN/checkpoints/vN/model", "quern export RUN FOLDER"})
      CHECK(contains(end.output, part));
    CHECK_FALSE(fs::exists(f.run()));
    // The shipped policy is one for C++.
    const finished named =
        f.dry_run(chain_of_one_gpu,
                  {"--stage", stage, "--set", "policy.model=policy/demo", "--set", "env.lane=cpp",
                   "--set", "policy.template_name=contrastive_demo", "--set",
                   "policy.max_prompt_tokens=900", "--set", "policy.max_new_tokens=420"});
    CAPTURE(named.output);
    CHECK(named.code == 0);
    CHECK(lines_with(named.output, "# plan: ") == 1);
    CHECK(contains(named.output, "policy/demo"));
  }
  CHECK(f.dry_run(chain_of_one_gpu, {"--stage", "sft"}).code == 0);
}

TEST_CASE("values that the loss would refuse at its start are refused before, with their keys") {
  dry_fixture f;
  const fs::path file = source_dir() / "configs/quickstart.yaml";
  for (const char* setting : {"algorithm.negative_scale=2", "algorithm.clip_high=3"}) {
    CAPTURE(setting);
    const finished end = f.dry_run(file, {"--set", setting});
    CAPTURE(end.output);
    CHECK(end.code == 2);
    CHECK(contains(end.output, std::string(setting).substr(0, std::string(setting).find('='))));
  }
}

TEST_CASE("the dry run of the page of commands works beside the quickstart's run") {
  const std::string page = base::read_file(source_dir() / "docs/commands.md").value();
  std::string example;
  for (const auto line : base::split(page, '\n'))
    if (line.starts_with("    quern train ") && line.ends_with(" --dry-run"))
      example = line.substr(4);
  REQUIRE_FALSE(example.empty());
  std::vector<std::string> words;
  for (const auto word : base::split(example, ' '))
    words.emplace_back(word);
  // The sandbox is the machine's.
  words.insert(words.end(), {"--set", "env.sandbox=best_effort"});
  words.front() = program("quern");
  // As a person has it after the quickstart: a run of that name in the folder where they stand.
  const auto folder = base::temp_folder::make().value();
  fs::create_directory_symlink(source_dir() / "configs", folder.path() / "configs");
  REQUIRE(
      base::write_file_atomic(folder.path() / "here.sh", "cd \"$1\" && shift && exec \"$@\"\n"));
  fs::create_directories(folder.path() / "runs/quickstart");
  REQUIRE(base::write_file_atomic(folder.path() / "runs/quickstart/run.db", "a run"));
  words.insert(words.begin(),
               {"/bin/sh", (folder.path() / "here.sh").string(), folder.path().string()});
  const finished end = run_to_end(words, folder.path() / "log");
  CAPTURE(end.output);
  CHECK(end.code == 0);
  CHECK(contains(end.output, "# plan: "));
}

TEST_CASE("a dry run finds what is wrong with recorded completions") {
  dry_fixture f;
  const fs::path file = f.folder.path() / "played.jsonl";
  const std::vector<std::string> more = {"--set", "policy.engine=recorded", "--set",
                                         "policy.recorded=" + file.string()};
  const fs::path quickstart = source_dir() / "configs/quickstart.yaml";
  const auto refused = [&](std::string_view part) {
    const finished made = f.dry_run(quickstart, more);
    CAPTURE(made.output);
    CHECK(made.code == 2);
    CHECK(contains(made.output, "policy.recorded is '" + file.string() + "'"));
    CHECK(contains(made.output, part));
    CHECK_FALSE(fs::exists(f.run()));
  };
  refused("is not there");
  REQUIRE(base::write_file_atomic(file, "{\"task\": \"t\", \"completion\": \"x\"}\n{\"task\"\n"));
  refused("line 2: not JSON");
  REQUIRE(base::write_file_atomic(file, "{\"task\": \"t\", \"completion\": \"x\"}\n"));
  refused("32 of the run's 32 tasks have no completion, the first is ");
}
