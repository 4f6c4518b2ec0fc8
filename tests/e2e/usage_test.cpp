// What a person types wrongly: exit code 2, the value, the limit, and nothing made on the disk.
#include <set>

#include <unistd.h>

#include "base/file.hpp"
#include "e2e/run_fixture.hpp"
#include "storage/ledger.hpp"
#include "storage/run_directory.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::test;
namespace fs = std::filesystem;

namespace {

struct fixture {
  base::temp_folder folder = std::move(base::temp_folder::make().value());
  int logs = 0;

  finished quern(std::vector<std::string> words) {
    words.insert(words.begin(), program("quern"));
    return run_to_end(words, folder.path() / ("log" + std::to_string(logs++)));
  }
  void refused(std::vector<std::string> words, std::initializer_list<std::string_view> parts) {
    std::string line;
    for (const std::string& word : words)
      line += " " + word;
    CAPTURE(line);
    const finished end = quern(std::move(words));
    CAPTURE(end.output);
    CHECK(end.code == 2);
    for (const std::string_view part : parts)
      CHECK(end.output.find(part) != std::string::npos);
    CHECK(end.output.size() < 2000);
  }
  /// A suite without tasks; they are written into its folder.
  fs::path make_suite() {
    fs::path suite = folder.path() / "suite";
    REQUIRE(fs::create_directory(suite));
    REQUIRE(base::write_file_atomic(suite / "suite.yaml",
                                    "quern_suite: 1\nsplit: {by: task, held_out: []}\n"));
    return suite;
  }
  std::string write(const char* name, const std::string& text) {
    REQUIRE(base::write_file_atomic(folder.path() / name, text));
    return (folder.path() / name).string();
  }
};

std::vector<std::string> train_arguments(const fs::path& run, std::int64_t steps,
                                         const std::vector<std::string>& settings = {}) {
  const auto command = train_command(run, steps, settings);
  return {command.begin() + 1, command.end()};
}

/// The words of `text` that follow `before`, up to a space or a backquote.
std::set<std::string> words_after(const std::string& text, const std::string& before) {
  std::set<std::string> words;
  for (std::size_t at = text.find(before); at != text.npos; at = text.find(before, at + 1)) {
    const std::size_t begin = at + before.size();
    words.insert(text.substr(begin, text.find_first_of(" `", begin) - begin));
  }
  return words;
}

const fs::path cpp_task = source_dir() / "env/suites/cpu_quick/abs_smooth_shift.task.yaml";
const fs::path cuda_task = source_dir() / "tests/golden/task/softmax_rows.task.yaml";

}  // namespace

TEST_CASE("a run that cannot begin is refused before its folder is made, dry or not") {
  fixture f;
  const fs::path run = f.folder.path() / "run";
  const auto both = [&](const std::string& setting, std::initializer_list<std::string_view> parts) {
    for (const bool dry : {true, false}) {
      auto command = train_arguments(run, 1, {setting});
      if (dry) command.emplace_back("--dry-run");
      f.refused(command, parts);
      CHECK_FALSE(fs::exists(run));
    }
  };
  both("policy.model=/nonexistent", {"policy.model", "/nonexistent"});
  both("tasks.source=suite", {"tasks.suite names no folder"});
  both("algorithm.reward=foo/1", {"foo/1"});
  both("policy.template_name=nothing", {"policy.template_name", "contrastive_demo"});
  both("env.core=4000", {"env.core", "core 4000", "may run on"});
  both("policy.max_prompt_tokens=16", {"policy.max_prompt_tokens", "the limit is 16"});
  both("policy.max_new_tokens=500", {"policy.max_new_tokens is 500", "1320", "420 or less"});
  both("tasks.count=10000000", {"tasks.count", "10000000 is outside"});
  both("quern_config=2", {"not a setting"});
  both("learner=3", {"group of keys"});
}

TEST_CASE("a suite whose reference is broken is refused with its file and rule, dry or not") {
  fixture f;
  const fs::path run = f.folder.path() / "run";
  const fs::path suite = f.make_suite();
  const std::string good = base::read_file(cpp_task).value();
  const std::size_t at = good.find("h = x\n");
  REQUIRE(at != good.npos);
  const auto put = [&](const std::string& name, const std::string& first_line) {
    std::string text = good;
    text.replace(at, 5, first_line);
    text.replace(text.find("abs_smooth_shift"), 16, name);
    REQUIRE(base::write_file_atomic(suite / (name + ".task.yaml"), text));
  };
  put("a_good_one", "h = x");
  const std::vector<std::string> settings = {"tasks.source=suite", "tasks.suite=" + suite.string()};
  auto dry = train_arguments(run, 1, settings);
  dry.emplace_back("--dry-run");
  const finished right = f.quern(dry);
  CAPTURE(right.output);
  CHECK(right.code == 0);
  CHECK(right.output.find("# 1 tasks: references and plain baselines compiled and tried in ") !=
        std::string::npos);
  // The first does not compile; the second compiles, and no kernel would have to do its work.
  put("b_broken", "h = undefined_name");
  put("c_constant", "h = torch.zeros_like(x)");
  f.refused(dry, {"suite/b_broken.task.yaml", "undefined_name", "1 more tasks are refused"});
  f.refused(train_arguments(run, 1, settings),
            {"suite/b_broken.task.yaml", "undefined_name", "quern tasks check"});
  fs::remove(suite / "b_broken.task.yaml");
  f.refused(dry, {"suite/c_constant.task.yaml", "constant_output", "degenerate"});
  CHECK_FALSE(fs::exists(run));
}

TEST_CASE(
    "a plain baseline that does not compile, or computes something else, is refused by name") {
  fixture f;
  const fs::path run = f.folder.path() / "run";
  const fs::path suite = f.make_suite();
  const std::string good = base::read_file(cpp_task).value();
  const std::size_t at = good.find("plain: |");
  REQUIRE(at != good.npos);
  const std::size_t brace = good.find("{", good.find("void kernel(", at));
  REQUIRE(brace != good.npos);
  const auto refuses = [&](const std::string& first,
                           std::initializer_list<std::string_view> parts) {
    std::string text = good;
    text.insert(brace + 1, first);
    REQUIRE(base::write_file_atomic(suite / "abs_smooth_shift.task.yaml", text));
    for (const bool dry : {true, false}) {
      auto command =
          train_arguments(run, 1, {"tasks.source=suite", "tasks.suite=" + suite.string()});
      if (dry) command.emplace_back("--dry-run");
      f.refused(command, parts);
    }
  };
  refuses(" undeclared_name = 1;",
          {"suite/abs_smooth_shift.task.yaml", "baseline: the plain baseline", "does not compile",
           "undeclared_name", "quern tasks check"});
  refuses(" return;", {"suite/abs_smooth_shift.task.yaml", "does not compute what the reference"});
  CHECK_FALSE(fs::exists(run));
}

TEST_CASE("a baseline that lane cpp does not measure over is refused") {
  fixture f;
  auto command = train_arguments(f.folder.path() / "run", 1, {"env.baseline=eager"});
  command.emplace_back("--dry-run");
  f.refused(command, {"env.baseline: 'eager'", "generated tasks of lane cpp", "task or plain"});
}

TEST_CASE("a run for hardware that is not here is refused; a dry run says what is missing") {
  if (fs::exists("/dev/nvidiactl")) return skip("an NVIDIA driver is loaded here");
  fixture f;
  const fs::path run = f.folder.path() / "run";
  auto command = train_arguments(run, 1, {"learner.device=cuda"});
  f.refused(command, {"learner.device is cuda"});
  command.emplace_back("--dry-run");
  const finished end = f.quern(command);
  CAPTURE(end.output);
  CHECK(end.code == 0);
  CHECK(end.output.find("missing here: learner.device is cuda") != std::string::npos);
  CHECK_FALSE(fs::exists(run));
}

TEST_CASE("a dry run of what is right says its plan and makes nothing") {
  fixture f;
  const fs::path run = f.folder.path() / "run";
  auto command = train_arguments(run, 1);
  command.emplace_back("--dry-run");
  const finished end = f.quern(command);
  CAPTURE(end.output);
  CHECK(end.code == 0);
  CHECK(end.output.find("# tasks: 4 trained on, 2 held out") != std::string::npos);
  CHECK(end.output.find("# host memory of the learner while a checkpoint") != std::string::npos);
  CHECK_FALSE(fs::exists(run));
}

TEST_CASE("a run of zero steps is nothing to do: exit code 4, nothing is made") {
  fixture f;
  const fs::path run = f.folder.path() / "run";
  auto command = train_arguments(run, 0);
  const finished end = f.quern(command);
  CAPTURE(end.output);
  CHECK(end.code == 4);
  CHECK(end.output.find("learner.steps is 0") != std::string::npos);
  CHECK_FALSE(fs::exists(run));
}

TEST_CASE("files and addresses that mean nothing are refused as values, not as failures") {
  fixture f;
  f.refused({"train", "/dev/urandom"}, {"/dev/urandom", "1048576"});
  f.refused({"train", "/nonexistent"}, {"/nonexistent is not there", "configs/"});
  const std::string own = f.write("own.key", "x");
  f.refused({"keys", own}, {"own.key", "never overwritten"});
  f.refused({"keys", own + "/x"}, {"own.key/x", "its folder is not there"});
  for (const char* address : {"foo", "ipc://", "tcp://", "tcp://host", "tcp://host:x", "tcp://:5",
                              "tcp://host:65536", "tcp://host:99999", "tcp://host:0", "tcp://*:5"})
    f.refused({"evaluator", "--connect", address},
              {"--connect is '" + std::string(address) + "'", "tcp://HOST:PORT"});
  f.refused({"evaluator", "--connect", "ipc:///nowhere", "--keys", own}, {"are for tcp://"});
  f.refused(
      {"evaluator", "--sandbox", "best_effort", "--connect", "ipc://" + std::string(200, 'x')},
      {"200 bytes", "107"});
}

TEST_CASE("too few descriptors are told as what they are; a soft limit alone is raised") {
  fixture f;
  auto command = train_arguments(f.folder.path() / "run", 1, {"env.sandbox=required"});
  std::string line = program("quern");
  for (const std::string& word : command)
    line += " '" + word + "'";
  const auto limited = [&](const std::string& limit) {
    return run_to_end({"/bin/sh", "-c", limit + " && exec " + line + " --dry-run"},
                      f.folder.path() / ("log" + std::to_string(f.logs++)));
  };
  const finished refused = limited("ulimit -n 256");
  CAPTURE(refused.output);
  CHECK(refused.code == 2);
  CHECK(refused.output.find("256 files open") != std::string::npos);
  CHECK(refused.output.find("ulimit -n") != std::string::npos);
  CHECK(refused.output.find("seccomp") == std::string::npos);
  CHECK(refused.output.find("best_effort") == std::string::npos);
  const finished raised = limited("ulimit -S -n 256");
  CAPTURE(raised.output);
  CHECK(raised.output.find("files open") == std::string::npos);
}

TEST_CASE("a word that nothing takes is named, with the nearest that is known") {
  fixture f;
  f.refused({"status", "--jsn"}, {"quern status: unknown option '--jsn' (did you mean '--json'?)"});
  f.refused({"tasks", "generate", "--sede", "1"}, {"unknown option '--sede'", "'--seed'"});
  f.refused({"tasks", "chek"}, {"no command 'chek' (did you mean 'check'?)", "generate"});
  f.refused({"tasks"}, {"one of generate, check, new, corpus, sources is needed"});
  f.refused({"status", "a", "b"}, {"nothing takes the argument 'b'", "quern status --help"});
  f.refused({"train"}, {"config is missing: YAML file"});
  f.refused({"train", "a.yaml", "--set"}, {"--set needs a value"});
  f.refused({"eval", "a", "b", "--core", "1", "--core", "2"}, {"--core", "more than once"});
  f.refused({"eval", "a", "b", "--gpu", "x"}, {"'x' is not a whole number in 0 .. 63"});
  for (const char* command : {"status", "resume", "train", "explain", "sample", "keys"})
    f.refused({command, ""}, {"argument 1 is empty"});
  f.refused({"help", "trian"}, {"no command 'trian' (did you mean 'train'?)"});
  const finished help = f.quern({"help", "train"});
  CHECK(help.code == 0);
  CHECK(help.output.find("--dry-run") != std::string::npos);
}

TEST_CASE("what is no run is refused by every command that asks for one") {
  fixture f;
  const std::string file = f.write("file", "x"), folder = f.folder.path().string();
  for (const char* command : {"status", "pause", "stop", "resume", "report"}) {
    f.refused({command, folder}, {folder + " is not a run directory"});
    f.refused({command, file}, {file + " is not a run directory"});
  }
  REQUIRE(base::make_folders(f.folder.path() / "newer"));
  f.write("newer/meta.json", R"({"quern_run": 9, "build": "quern 9"})");
  for (const char* command : {"status", "pause", "stop", "resume", "report"})
    f.refused({command, folder + "/newer"}, {"has format 9", "format 1", "quern 9"});
}

TEST_CASE("a damaged run.db is told before a run goes on, with what to do") {
  fixture f;
  const fs::path run = f.folder.path() / "run";
  std::int64_t page = 0;
  {
    // As a run leaves it that was paused.
    const std::string config = base::read_file(source_dir() / "configs/quickstart.yaml").value();
    auto made = storage::run_directory::create(run, config, {{"stage", "self_train"}});
    REQUIRE(made);
    const auto db = storage::database::open(run / "run.db", storage::database::access::write);
    REQUIRE(db);
    const auto ledger = storage::ledger::open(**db);
    REQUIRE(ledger);
    REQUIRE((*ledger)->open_incarnation({"start", 0, {}}));
    auto root = (*db)->prepare("SELECT rootpage FROM sqlite_master WHERE name = 'variants_best'");
    REQUIRE(root);
    REQUIRE(root->next().value());
    page = root->integer(0);
  }
  // Nothing reads this page before the run is at work.
  std::string bytes = base::read_file(run / "run.db").value();
  const auto at = static_cast<std::size_t>((page - 1) * 4096);
  bytes.at(at) = static_cast<char>(bytes.at(at) ^ 0x40);
  REQUIRE(base::write_file_atomic(run / "run.db", bytes));
  const finished end = f.quern({"resume", run.string()});
  CAPTURE(end.output);
  CHECK(end.code == 1);
  for (const char* part : {"run.db is damaged", "from a copy", "policy.model="})
    CHECK(contains(end.output, part));
  CHECK_FALSE(contains(end.output, "resuming"));
}

TEST_CASE("paths that the system refuses are errors, not crashes") {
  fixture f;
  const std::string file = f.write("file", "x"), endless(300, 'x');
  f.refused({"tasks", "new", "mine", "--folder", file}, {file + " is no folder", "another one"});
  f.refused({"tasks", "generate", "--out", file + "/x"}, {file + "/x", "another folder"});
  f.refused({"tasks", "sources", file}, {"no corpus in " + file, ".jsonl"});
  for (const auto& command : {std::vector<std::string>{"tasks", "check", endless},
                              {"status", endless},
                              {"sample", endless, "--prompt", file},
                              {"export", endless, file + ".model"}}) {
    const finished end = f.quern(command);
    CAPTURE(end.output);
    CHECK((end.code == 1 || end.code == 2));
    CHECK(end.output.find(endless) != std::string::npos);
  }
}

TEST_CASE("settings go where they belong") {
  fixture f;
  const std::string file = f.write("one.yaml", "quern_config: 2\nstage: contrastive\n");
  // The configuration may stand behind the settings.
  f.refused({"train", "--set", "learner.steps=1", "/nonexistent", "--dry-run"}, {"/nonexistent"});
  f.refused({"train", file, "--set", "sft.learner.steps=2"},
            {"there is one stage only", "say learner.steps=2"});
  f.refused({"train", file, "--set", "=2"}, {"'=2'", "KEY=VALUE"});
  f.refused({"train", file, "--stage", "sft"}, {"--stage sft", "it has contrastive"});
}

TEST_CASE("drawn tasks are a suite that a run can name") {
  fixture f;
  const std::string suite = (f.folder.path() / "suite").string();
  REQUIRE(f.quern({"tasks", "generate", "--seed", "5", "--count", "3", "--out", suite}).code == 0);
  const fs::path run = f.folder.path() / "run";
  auto command = train_arguments(run, 1, {"tasks.source=suite", "tasks.suite=" + suite});
  command.emplace_back("--dry-run");
  const finished end = f.quern(command);
  CAPTURE(end.output);
  CHECK(end.code == 0);
  CHECK(end.output.find("# tasks: 3 trained on, 0 held out") != std::string::npos);
}

TEST_CASE("drawn tasks are not written over others, and those of one folder are one suite") {
  fixture f;
  const fs::path suite = f.folder.path() / "suite";
  const auto generate = [&](const char* seed, const char* lane = "cpp") {
    return f.quern({"tasks", "generate", "--seed", seed, "--count", "2", "--lane", lane, "--out",
                    suite.string()});
  };
  REQUIRE(generate("5").code == 0);
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(suite))
    if (entry.path().string().ends_with(".task.yaml")) files.push_back(entry.path());
  REQUIRE(files.size() == 2);
  // The same again is the same.
  CHECK(generate("5").code == 0);
  const std::string changed = base::read_file(files[0]).value() + "# changed by hand\n";
  REQUIRE(base::write_file_atomic(files[0], changed));
  const finished again = generate("5");
  CHECK(again.code == 2);
  CHECK(contains(again.output, files[0].string() + " is there with other content"));
  CHECK(base::read_file(files[0]).value() == changed);
  // Names do not tell lanes apart, and nothing of a draw is written where one file is refused.
  REQUIRE(generate("7").code == 0);
  const std::string before = base::read_file(files[1]).value();
  fs::remove(files[0]);
  CHECK(generate("5", "cuda").code == 2);
  CHECK(base::read_file(files[1]).value() == before);
  CHECK_FALSE(fs::exists(files[0]));
  const finished more = generate("6");
  CHECK(more.code == 0);
  CHECK(contains(more.output, "other task files: all of them are one suite"));
}

TEST_CASE("tasks check refuses a plain kernel that computes something else, baseline or not") {
  fixture f;
  const std::string file = (f.folder.path() / "row_softmax.task.yaml").string();
  REQUIRE(f.quern({"tasks", "new", "row_softmax", "--folder", f.folder.path().string()}).code == 0);
  const auto changed = [&](std::string from, const std::string& to) {
    std::string text = base::read_file(file).value();
    const auto at = text.find(from);
    REQUIRE(at != std::string::npos);
    REQUIRE(base::write_file_atomic(file, text.replace(at, from.size(), to)));
  };
  const auto check = [&] { return f.quern({"tasks", "check", file, "--sandbox", "best_effort"}); };
  CHECK(check().code == 0);
  changed("float sum = 0", "float sum = 1");
  for (const char* kind : {"plain", "reference"}) {
    const finished end = check();
    CAPTURE(end.output);
    CHECK(end.code != 0);
    CHECK(end.output.find("the plain kernel does not compute") != std::string::npos);
    if (std::string(kind) == "plain") changed("baseline: plain ", "baseline: reference ");
  }
}

TEST_CASE("quern eval refuses numbers that mean nothing, cores that are not there, other lanes") {
  fixture f;
  const std::string kernel = f.write("k.cpp", "extern \"C\" void kernel() {}\n");
  const std::string task = cpp_task.string();
  for (const char* value : {"nan", "1e300", "inf", "-1", "0", "1e999", "0.5s", "1e-9"})
    f.refused({"eval", task, kernel, "--best-effort", "--budget-s", value}, {"--budget-s"});
  f.refused({"eval", task, kernel, "--budget-s", "0"}, {"0 is outside 0.05 .. 3600"});
  for (const char* value : {"nan", "-1", "0", "5s", "1e9"})
    f.refused({"eval", task, kernel, "--timeout", value}, {"--timeout", "0.1 .. 86400"});
  for (const char* value : {"-7", "1e3", "0.5", "99999999999999999999"})
    f.refused({"eval", task, kernel, "--best-effort", "--core", value}, {"--core"});
  f.refused({"eval", task, kernel, "--best-effort", "--core", "4000"},
            {"core 4000", "may run on (0"});
  f.refused({"eval", task, kernel, "--best-effort", "--gpu", "1"}, {"--gpu 1", "lane cpp"});
  f.refused({"eval", task, kernel, "--best-effort", "--baseline", "graph"},
            {"'graph'", "'plain' for abs_smooth_shift"});
}

TEST_CASE("lane cuda without a GPU: exit code 1, and what is missing") {
  if (::access("/dev/nvidiactl", F_OK) == 0) {
    skip("this host has a GPU");
    return;
  }
  fixture f;
  const auto kernel = f.write("k.cu", "\n");
  REQUIRE(base::make_folders(f.folder.path() / "suite"));
  fs::copy(cuda_task, f.folder.path() / "suite");
  f.write("suite/suite.yaml", "quern_suite: 1\n");
  for (const auto& command :
       {std::vector<std::string>{"eval", cuda_task.string(), kernel, "--best-effort"},
        {"tasks", "check", (f.folder.path() / "suite").string(), "--sandbox", "best_effort"}}) {
    const finished end = f.quern(command);
    CAPTURE(end.output);
    CHECK(end.code == 1);
    CHECK(end.output.find("NVIDIA GPU: no driver is loaded") != std::string::npos);
  }
}

TEST_CASE("a suite of another lane is refused before the run") {
  fixture f;
  REQUIRE(base::make_folders(f.folder.path() / "suite"));
  fs::copy(cuda_task, f.folder.path() / "suite");
  const std::string suite = (f.folder.path() / "suite").string();
  f.write("suite/suite.yaml", "quern_suite: 1\n");
  auto command =
      train_arguments(f.folder.path() / "run", 1, {"tasks.source=suite", "tasks.suite=" + suite});
  f.refused(command, {"tasks.suite", "softmax_rows is of lane cuda"});
  CHECK_FALSE(fs::exists(f.folder.path() / "run"));
}

TEST_CASE("quern baselines refuses what means nothing before anything is started or made") {
  fixture f;
  const std::string module = "class Model:\n    pass\n\ndef get_inputs():\n    return []\n";
  REQUIRE(base::make_folders(f.folder.path() / "level1"));
  f.write("level1/1_Made.py", module);
  const std::string placed = (f.folder.path() / "level1").string(),
                    out = (f.folder.path() / "out").string();
  const auto refused = [&](const std::vector<std::string>& more,
                           std::initializer_list<std::string_view> parts) {
    std::vector<std::string> words = {"baselines", placed, "--out", out};
    words.insert(words.end(), more.begin(), more.end());
    f.refused(words, parts);
  };
  refused({"--modes", "egaer"}, {"--modes", "'egaer' (did you mean 'eager'?)", "reduce-overhead"});
  refused({"--modes", "eager,eager"}, {"--modes names eager twice"});
  refused({"--trials", "0"}, {"--trials", "0 is outside 1 .. 100000"});
  refused({"--budget-s", "nan"}, {"--budget-s", "0.05 .. 86400"});
  refused({"--hardware", "a\nb"}, {"--hardware", "printable"});
  f.refused({"baselines", placed, "--out", out + ".json", "--modes", "eager,compile"},
            {"is one file", "2 modes", "name a folder"});
  const std::string lone = f.write("alone.py", module);
  f.refused({"baselines", lone, "--out", out}, {"no place in KernelBench"});
  f.refused({"baselines", "kernelbench:x", "--out", out}, {"'kernelbench:x'"});
  CHECK_FALSE(fs::exists(out));
}

TEST_CASE("the other commands refuse such numbers too") {
  fixture f;
  const std::vector<std::string> evaluator = {"evaluator", "--connect", "ipc:///nowhere",
                                              "--sandbox", "best_effort"};
  const auto host = [&](const char* option, const char* value) {
    auto words = evaluator;
    words.emplace_back(option);
    words.emplace_back(value);
    f.refused(words, {option});
  };
  for (const char* option : {"--time-budget", "--precision", "--noise-limit", "--patience"})
    for (const char* value : {"nan", "1e300", "-1", "0"})
      host(option, value);
  f.refused({"evaluator", "--connect", "tcp://127.0.0.1:1", "--keys", "k", "--gateway-key", "abc"},
            {"--gateway-key", "'abc'", "40 characters"});
  host("--core", "-2");
  host("--lanes", "no_such_lane");
  host("--lanes", "cuda");
  f.refused({"evaluator", "--connect", "ipc:///nowhere", "--lanes", "cpp", "--gpus", "0"},
            {"--gpus names GPUs", "add one of cuda, pytorch"});
  host("--log-level", "loud");
  f.refused({"evaluator", "--connect", "ipc:///nowhere", "--core", "4000"}, {"core 4000"});
  for (const char* option : {"--seed", "--first", "--count"})
    for (const char* value : {"-1", "1e3", "99999999999999999999", "nan"})
      f.refused({"tasks", "generate", option, value}, {option});
  for (const char* option : {"--temperature", "--n", "--max-tokens", "--seed"})
    for (const char* value : {"nan", "-1", "1e300"})
      f.refused({"sample", "policy/demo", "--prompt", "-", option, value}, {option});
  const std::string short_prompt = f.write("prompt", "cpp-avx2\n");
  const std::string demo = (source_dir() / "policy/demo").string();
  f.refused({"sample", demo, "--prompt", short_prompt, "--max-tokens", "1320"},
            {"--max-tokens is 1320", "the prompt has", "1320 in all", "or less"});
  f.refused({"sample", "policy/demo", "--prompt", "-", "--greedy", "--temperature", "2"},
            {"--greedy", "--temperature"});
}

TEST_CASE("quern explain prints what was asked for, or names what there is") {
  fixture f;
  const finished all = f.quern({"explain", "rewards"});
  CHECK(all.code == 0);
  CHECK(all.output.find("speedup_capped/1") != std::string::npos);
  CHECK(all.output.find("sigmoid/1") != std::string::npos);
  // By either name, with or without a baseline: one line.
  for (const char* name : {"correct_speedup/1", "kevin/1", "kevin/1@graph"}) {
    const finished one = f.quern({"explain", "rewards", name});
    CAPTURE(one.output);
    CHECK(one.code == 0);
    CHECK(one.output.find("correct_speedup/1") == 0);
    CHECK(one.output.find("0.3 + s") != std::string::npos);
    CHECK(one.output.find('\n') == one.output.size() - 1);
  }
  f.refused({"explain", "rewards", "kevin"}, {"'kevin'", "kevin/1", "speedup_capped/1"});
  f.refused({"explain", "rewards", "kevin/1@nothing"}, {"'nothing'", "graph"});
  f.refused({"explain", "loss", "nothing"}, {"nothing", "group_normalised", "run"});
  f.refused({"explain", "loss", "grpo"}, {"grpo", "is called group_normalised"});
  f.refused({"explain", "config", "env.nothing"}, {"env.nothing"});
  f.refused({"explain", "config", "learner.step"}, {"did you mean 'learner.steps'?"});
}

TEST_CASE("quern explain loss RUN prints the run's own values and not the preset's") {
  fixture f;
  const fs::path run = f.folder.path() / "run";
  {
    const auto made = storage::run_directory::create(
        run,
        "quern_config: 2\nstage: contrastive\nalgorithm: {preset: group_centred, clip_high: 0.27}\n"
        "policy: {max_new_tokens: 321}\n",
        base::json::object({{"stage", "contrastive"}}));
    REQUIRE(made);
  }
  const finished own = f.quern({"explain", "loss", run.string()});
  CAPTURE(own.output);
  CHECK(own.code == 0);
  CHECK(own.output.find("loss preset group_centred") != std::string::npos);
  CHECK(own.output.find("clip(r, 0.8, 1.27)") != std::string::npos);
  CHECK(own.output.find("1 / (321 S)") != std::string::npos);
  const finished preset = f.quern({"explain", "loss", "group_centred"});
  CHECK(preset.output.find("clip(r, 0.8, 1.2)") != std::string::npos);
  f.refused({"explain", "loss", f.folder.path().string()}, {f.folder.path().string()});
}

TEST_CASE("every command has a row of docs/commands.md, and every row has a command") {
  fixture f;
  const std::set<std::string> commands = words_after(f.quern({"--help"}).output, "\n  ");
  REQUIRE(commands.contains("train"));
  const auto page = base::read_file(source_dir() / "docs/commands.md");
  REQUIRE(page);
  const std::set<std::string> rows = words_after(*page, "\n| `quern ");
  for (const std::string& command : commands) {
    CAPTURE(command);
    CHECK(rows.contains(command));
  }
  for (const std::string& row : rows) {
    CAPTURE(row);
    CHECK(commands.contains(row));
  }
}

TEST_CASE("help needs nothing but quern itself, so that it is there at once") {
  fixture f;
  const fs::path alone = f.folder.path() / "quern";
  fs::copy(program("quern"), alone);
  const std::set<std::string> commands = words_after(f.quern({"--help"}).output, "\n  ");
  REQUIRE(commands.contains("train"));
  for (const std::string& command : commands) {
    const finished end =
        run_to_end({alone.string(), command, "--help"}, f.folder.path() / ("help_" + command));
    CAPTURE(command);
    CAPTURE(end.output);
    CHECK(end.code == 0);
    CHECK(end.output.find("quern " + command) != std::string::npos);
    if (command == "stop") CHECK(contains(end.output, "sft has no samples and no report"));
  }
}

TEST_CASE("a lane that was not set up leaves the machine well: quern doctor says what to do") {
  fixture f;
  const auto doctor = [&](const std::string& python) {
    return run_to_end({"/usr/bin/env", "QUERN_PYTHON=" + python, program("quern"), "doctor"},
                      f.folder.path() / "doctor");
  };
  const finished without = doctor("/bin/false");
  CAPTURE(without.output);
  CHECK(contains(without.output, "--   lane pytorch"));
  CHECK(contains(without.output, "not judged here"));
  CHECK(contains(without.output, "tools/setup.sh --pytorch"));
  CHECK(contains(without.output, "ok   lane cpp"));
  // What else this machine lacks, it lacks with that Python, too.
  CHECK(without.code == doctor("").code);
}

TEST_CASE("one bad task of a suite does not hide the others") {
  fixture f;
  REQUIRE(f.quern({"tasks", "generate", "--seed", "5", "--count", "2", "--out",
                   (f.folder.path() / "suite").string()})
              .code == 0);
  std::string text = base::read_file(cpp_task, 1 << 20).value();
  text.replace(text.find("torch.abs"), 9, "torch.no_such_operator");
  f.write("suite/abs_smooth_shift.task.yaml", text);
  const finished end =
      f.quern({"tasks", "check", (f.folder.path() / "suite").string(), "--sandbox", "best_effort"});
  CAPTURE(end.output);
  CHECK(end.code == 1);
  CHECK(end.output.find("abs_smooth_shift.task.yaml: REFUSED") != std::string::npos);
  CHECK(end.output.find("3 tasks, 1 refused") != std::string::npos);
}

TEST_CASE("a file that may not be as large as it is to be is an error that names it") {
  fixture f;
  const std::string keys = (f.folder.path() / "keys").string();
  // Through a pipe, so that the limit is not one of the log.
  const finished end = run_to_end(
      {"/bin/sh", "-c",
       "(ulimit -f 0; " + program("quern") + " keys " + keys + " 2>&1; echo code $?) | cat"},
      f.folder.path() / "log");
  CAPTURE(end.output);
  CHECK(end.output.find(keys) != std::string::npos);
  CHECK(end.output.find("ulimit -f") != std::string::npos);
  CHECK(end.output.find("code 1\n") != std::string::npos);
}

TEST_CASE("status and report say that a policy was ruined, past a damaged line, and why of drops") {
  fixture f;
  const fs::path run = f.folder.path() / "run";
  {
    const std::string config = base::read_file(source_dir() / "configs/quickstart.yaml").value();
    auto made = storage::run_directory::create(run, config, {{"stage", "self_train"}});
    REQUIRE(made);
    const auto db = storage::database::open(run / "run.db", storage::database::access::write);
    REQUIRE(db);
    const auto ledger = storage::ledger::open(**db);
    REQUIRE(ledger);
    REQUIRE((*ledger)->open_incarnation({"start", 0, {}}));
    storage::group_spec group;
    group.task = "t";
    group.size = 3;
    const auto issued = (*ledger)->issue(group);
    REQUIRE(issued);
    const std::int64_t first = issued->first_sample;
    REQUIRE((*ledger)->drop(std::vector{first, first + 2}, "stale"));
    REQUIRE((*ledger)->drop(std::vector{first + 1}, "infra_error"));
    REQUIRE((*ledger)->commit());
    // A checkpoint of version 5, from which it went on.
    REQUIRE((*db)->execute(
        "INSERT INTO checkpoints VALUES (5, 1, 'v5', '00000000000000000000000000000005', 0)"));
    const auto resumed = (*ledger)->open_incarnation({"resume", 5, {}});
    REQUIRE_MESSAGE(resumed, (resumed ? "" : resumed.error().message));
    REQUIRE((*ledger)->commit());
  }
  std::string metrics;
  for (int step = 1; step <= 5; ++step)
    metrics +=
        fmt::format(R"({{"step": {}, "batch": {{"samples": 8, "rewarded": 0, "reward": 0.0, )"
                    R"("verdicts": {{"wrong_value": 8}}}}}})"
                    "\n{}",
                    step, step == 2 ? "{\"step\": 2, \"ba\n" : "");
  REQUIRE(base::write_file_atomic(run / "metrics.jsonl", metrics));
  const std::string warning = "every reward of steps 1-5 is 0: 40 samples (wrong_value 40)";
  const finished told = f.quern({"status", run.string()});
  CAPTURE(told.output);
  CHECK(told.code == 0);
  CHECK(contains(told.output, "  warning: " + warning));
  const finished json = f.quern({"status", run.string(), "--json"});
  CAPTURE(json.output);
  CHECK(contains(json.output, warning));
  const finished reported = f.quern({"report", run.string()});
  CAPTURE(reported.output);
  CHECK(reported.code == 0);
  CHECK(contains(reported.output, "\nwarning: " + warning));
  CHECK(contains(reported.output, "3 dropped, none in flight. Every sample is accounted for.\n"));
  CHECK(contains(reported.output, "\n  2 stale: "));
  CHECK(contains(reported.output, "\n  1 infra_error: "));
  std::filesystem::remove(run / "metrics.jsonl");
  const finished lacking = f.quern({"report", run.string()});
  CAPTURE(lacking.output);
  CHECK(lacking.code == 0);
  CHECK(contains(lacking.output, "\nwarning: " + (run / "metrics.jsonl").string() +
                                     " lacks steps 1-5: 5 of the 5 steps"));
}
