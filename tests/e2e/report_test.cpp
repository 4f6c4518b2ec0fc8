// quern report and quern compare through their command lines, of runs in every state.
#include <csignal>
#include <fstream>

#include <httplib.h>
#include <sys/stat.h>

#include "base/subprocess.hpp"
#include "e2e/run_fixture.hpp"
#include "support/own_mounts.hpp"
#include "tests/tools/page_fixture.hpp"

using namespace quern;
using namespace quern::test;
using base::operator""_s;
namespace fs = std::filesystem;

namespace {

struct report_fixture {
  base::temp_folder folder = must(base::temp_folder::make());
  [[nodiscard]] fs::path run(const char* name = "run") const { return folder.path() / name; }
  /// The same, and what it told of its progress is left out of the output.
  finished stdout_of(const std::vector<std::string>& words) const {
    return quern(words, "exec \"$@\" 2>" + (folder.path() / "told").string());
  }
  finished quern(const std::vector<std::string>& words, const std::string& script = "") const {
    std::vector<std::string> argv;
    if (!script.empty()) argv = {"/bin/sh", "-c", script, "sh"};
    argv.push_back(program("quern"));
    argv.insert(argv.end(), words.begin(), words.end());
    const fs::path log = folder.path() / "log";
    fs::remove(log);
    return run_to_end(argv, log);
  }
  /// The page that the command has made says in which state the run is.
  void check_page(const fs::path& file, const char* state) const {
    // So do the data for programs, of a run in the folder that the page is of.
    const finished end = stdout_of({"report", file.parent_path().string(), "--json"});
    if (end.code == 0)
      CHECK(must(base::parse_json(end.output))["run"]["state"].get<std::string>() == state);
    CHECK((end.code == 0 || !fs::exists(file.parent_path() / "meta.json")));
    const std::string page = base::read_file(file).value_or("");
    CHECK(page.ends_with("</html>\n"));
    CHECK(contains(page, std::string("\"state\":\"") + state + "\""));
  }
};

/// Names, contents and times of change of everything in a folder.
std::string state_of(const fs::path& folder) {
  std::map<std::string, std::string> all;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    all[entry.path().string()] = fmt::format(
        "{}\n{}\n", entry.last_write_time().time_since_epoch().count(),
        entry.is_regular_file() ? must(base::read_file(entry.path())) : std::string("a folder"));
  std::string text;
  for (const auto& [name, state] : all)
    text += name + "\n" + state;
  return text;
}

/// The address that a server has written to its log.
std::string url_in(const fs::path& log) {
  std::string text;
  CHECK(wait_until(60_s, [&] {
    text = base::read_file(log).value_or("");
    return contains(text, "Ctrl-C");
  }));
  CAPTURE(text);
  const std::size_t begin = text.find("http://");
  REQUIRE(begin != std::string::npos);
  return text.substr(begin, text.find(' ', begin) - begin);
}

}  // namespace

TEST_CASE("a finished run has a page beside its closing report") {
  const report_fixture f;
  make_finished_run(f.run());
  fs::remove(f.run() / "report.txt");
  const finished end = f.quern({"report", f.run().string()});
  CAPTURE(end.output);
  CHECK(end.code == 0);
  CHECK(contains(end.output, "14 samples issued: 12 trained, 2 dropped, none in flight"));
  CHECK(contains(end.output, "page: " + (f.run() / "report.html").string()));
  CHECK(fs::exists(f.run() / "report.txt"));
  f.check_page(f.run() / "report.html", "complete");
  fs::remove(f.run() / "report.html");
  const fs::path elsewhere = f.folder.path() / "elsewhere.html";
  CHECK(f.quern({"report", f.run().string(), "--out", elsewhere.string()}).code == 0);
  f.check_page(elsewhere, "complete");
  CHECK_FALSE(fs::exists(f.run() / "report.html"));
  const finished nowhere = f.quern({"report", f.run().string(), "--out", "/no/such/folder/x"});
  CHECK(nowhere.code == 2);
  CHECK(contains(nowhere.output, "there is no folder '/no/such/folder'"));
}

TEST_CASE("whoever may only read a run makes its page elsewhere") {
  const report_fixture f;
  make_finished_run(f.run());
  const fs::path disk = f.folder.path() / "disk", page = f.folder.path() / "page.html";
  fs::create_directory(disk);
  const auto told = with_memory_file_system(disk, "size=64m", [&]() -> std::string {
    fs::copy(f.run(), disk / "run", fs::copy_options::recursive);
    if (mount(nullptr, disk.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr) != 0) return "";
    const finished end = f.quern({"report", (disk / "run").string(), "--out", page.string()});
    const finished inside = f.quern({"report", (disk / "run").string()});
    return fmt::format("{} {} {}", end.code, inside.code, end.output);
  });
  if (!told || told->empty()) return skip("read-only folders: mounting is not allowed here");
  CAPTURE(*told);
  CHECK(told->substr(0, 4) == "0 1 ");
  CHECK(contains(*told, "may only be read (Read-only file system)"));
  f.check_page(page, "complete");
}

TEST_CASE("runs that go on, that were paused or that made nothing have a page, too") {
  const report_fixture f;
  std::optional<made_run> run(f.run());
  run->begin();
  run->step(1, 0, 120);
  const auto report = [&] { return f.quern({"report", f.run().string()}); };
  finished end = report();
  CAPTURE(end.output);
  CHECK(end.code == 0);
  CHECK(contains(end.output, "goes on: its closing report is made at its end"));
  CHECK_FALSE(fs::exists(f.run() / "report.txt"));
  f.check_page(f.run() / "report.html", "running");

  run->issue(1);
  run->checkpoint(1);
  run->close();
  run.reset();
  end = report();
  CAPTURE(end.output);
  CHECK(end.code == 0);
  CHECK(contains(end.output, "at step 1 of 6"));
  f.check_page(f.run() / "report.html", "paused");

  made_run(f.run("empty")).close();
  end = f.quern({"report", f.run("empty").string()});
  CAPTURE(end.output);
  CHECK(end.code == 0);
  CHECK(contains(end.output, "was ended before anything was made"));
  f.check_page(f.run("empty") / "report.html", "paused");
}

TEST_CASE("a run that is damaged, or of a later build, is refused and left byte for byte") {
  const report_fixture f;
  make_finished_run(f.run());
  REQUIRE(base::write_file_atomic(f.run() / "report.html", "an earlier page"));
  const std::string rows = must(base::read_file(f.run() / "run.db"));
  const std::string config = must(base::read_file(f.run() / "config.yaml"));
  const auto refused = [&](const fs::path& run, int code, const std::string& part) {
    const std::string before = state_of(run);
    const finished end = f.quern({"report", run.string()});
    CAPTURE(end.output);
    CHECK(end.code == code);
    CHECK(contains(end.output, part));
    CHECK(contains(end.output, "nothing in " + run.string() + " was changed"));
    CHECK(state_of(run) == before);
    // Elsewhere there is a page of what can be read, and the run has no other report, either.
    const fs::path page = f.folder.path() / "elsewhere.html";
    const finished elsewhere = f.quern({"report", run.string(), "--out", page.string()});
    CAPTURE(elsewhere.output);
    CHECK(elsewhere.code == code);
    CHECK(contains(elsewhere.output, part));
    CHECK(contains(base::read_file(page).value_or(""), "\"state\":\""));
    for (const char* kept : {"LOCK", "meta.json", "report.html", "report.txt", "run.db"})
      CHECK(contains(before, "\n" + must(base::read_file(run / kept)) + "\n"));
  };
  const std::string file = (f.run() / "run.db").string();
  for (const std::string& damaged : {std::string(8192, 'x'), rows.substr(0, rows.size() / 2)}) {
    REQUIRE(base::write_file_atomic(f.run() / "run.db", damaged));
    refused(f.run(), 1, file);
    refused(f.run(), 1, "from a copy of the run");
  }
  REQUIRE(base::write_file_atomic(f.run() / "run.db", ""));
  refused(f.run(), 1, "put its run.db back");
  REQUIRE(base::write_file_atomic(f.run() / "run.db", rows));
  REQUIRE(base::write_file_atomic(f.run() / "config.yaml", "quern_config: 2\nno_such_key: 1\n"));
  refused(f.run(), 2, "no_such_key");
  REQUIRE(base::write_file_atomic(f.run() / "config.yaml", config));
  const char* const later = "has schema 3, this build writes schema 2";
  {
    const auto db = must(storage::database::open(file, storage::database::access::write));
    REQUIRE(db->execute("PRAGMA user_version = 3"));
    REQUIRE(db->fold());
  }
  refused(f.run(), 2, later);

  // A run that was killed has rows in its log.
  made_run open(f.run("open"));
  open.begin();
  open.step(1, 0, 120);
  open.finish();
  REQUIRE(base::write_file_atomic(f.run("open") / "report.html", "an earlier page"));
  REQUIRE(open.db().execute("PRAGMA user_version = 3"));
  fs::copy(f.run("open"), f.run("killed"), fs::copy_options::recursive);
  REQUIRE(fs::file_size(f.run("killed") / "run.db-wal") > 0);
  refused(f.run("killed"), 2, later);
  // One that goes on under the build that wrote it: its page is that build's.
  const finished end = f.quern({"report", f.run("open").string()});
  CHECK(end.code == 2);
  CHECK(contains(end.output, later));
  CHECK(must(base::read_file(f.run("open") / "report.html")) == "an earlier page");
}

TEST_CASE("fine-tuning has no closing report, but a page") {
  const report_fixture f;
  actors::run_config config = page_config();
  config.stage = "sft";
  made_run run(f.run(), config);
  run.append(R"({"step":3,"seconds":1.0,"learner":{"loss":2.5}})"
             "\n");
  run.close();
  const finished end = f.quern({"report", f.run().string()});
  CAPTURE(end.output);
  CHECK(end.code == 0);
  CHECK(contains(end.output, "issues no samples and has no closing report, but a page"));
  CHECK_FALSE(fs::exists(f.run() / "report.txt"));
  f.check_page(f.run() / "report.html", "paused");
}

TEST_CASE("a run is followed in a browser until Ctrl-C, and its folder stays as it is") {
  const report_fixture f;
  made_run run(f.run());
  run.begin();
  run.step(1, 0, 120);
  const fs::path log = f.folder.path() / "served";
  auto server = must(base::subprocess::start(
      {.argv = {program("quern"), "report", f.run().string(), "--serve", "127.0.0.1:0"},
       .log = log}));
  const std::string url = url_in(log);
  httplib::Client client(url.substr(0, url.size() - 1));
  const auto done = [&] {
    const auto answer = client.Get("/data.json");
    REQUIRE(answer);
    return must(base::parse_json(answer->body))["progress"]["done"].get<int>();
  };
  CHECK(done() == 1);
  run.step(2, 1, 240);
  CHECK(wait_until(60_s, [&] { return done() == 2; }));
  // The run's writer can end while the page is open.
  run.checkpoint(2);
  run.close();
  CHECK(wait_until(
      60_s, [&] { return contains(client.Get("/data.json")->body, "\"state\":\"paused\""); }));
  server.send_signal(SIGINT);
  const auto end = server.wait(60_s);
  REQUIRE(end);
  CHECK(end->signal == 0);
  CHECK(end->code == 0);
  CHECK_FALSE(fs::exists(f.run() / "report.html"));
  CHECK_FALSE(fs::exists(f.run() / "report.txt"));
}

TEST_CASE("the page is made although nobody reads the report") {
  const report_fixture f;
  make_finished_run(f.run());
  const finished end = run_to_end({"/bin/bash", "-c",
                                   "(sleep 0.3; exec " + program("quern") + " report " +
                                       f.run().string() + ") | true; exit ${PIPESTATUS[0]}"},
                                  f.folder.path() / "log");
  CAPTURE(end.output);
  CHECK(end.code == 0);
  f.check_page(f.run() / "report.html", "complete");
}

TEST_CASE("what cannot be written to standard output is an error") {
  const report_fixture f;
  make_finished_run(f.run());
  const std::string run = f.run().string();
  for (const std::string& words : std::vector<std::string>{
           "report " + run + " --json", "show " + run, "show " + run + " --json",
           "why " + run + " 1", "status " + run + " --json", "compare " + run + " " + run}) {
    const auto with = [&](const char* output) {
      return run_to_end({"/bin/sh", "-c", "exec " + program("quern") + " " + words + output},
                        f.folder.path() / "full");
    };
    const finished full = with(" > /dev/full");
    CAPTURE(words);
    CAPTURE(full.output);
    CHECK(full.code == 1);
    CHECK(contains(full.output, "standard output: No space left on device"));
    CHECK(with(" > /dev/null").code == 0);
  }
}

TEST_CASE("bad addresses and tokens are refused with what to do") {
  const report_fixture f;
  make_finished_run(f.run());
  const std::string run = f.run().string(), token = (f.folder.path() / "token").string();
  const auto refused = [&](std::vector<std::string> words, const char* part) {
    words.insert(words.begin(), {"report", run});
    const finished end = f.quern(words);
    CAPTURE(end.output);
    CHECK(end.code == 2);
    CHECK(contains(end.output, part));
  };
  refused({"--serve", "0.0.0.0:0"}, "others reach 0.0.0.0: name a file with a token");
  refused({"--serve", "x:y"}, "'x:y' is no address to serve at");
  refused({"--serve", "0.0.0.0:0", "--token-file", token}, token.c_str());
  REQUIRE(base::write_file_atomic(token, "0123456789abcdef\n"));
  refused({"--serve", "127.0.0.1:0", "--token-file", token}, "may be read by others: chmod 600");
  fs::permissions(token, fs::perms::owner_read | fs::perms::owner_write);
  // Without a token anybody on this machine would have the page.
  std::ofstream(token) << " \n";
  refused({"--serve", "127.0.0.1:0", "--token-file", token}, "is empty: a token of at least 16");
  std::ofstream(token) << "short\n";
  refused({"--serve", "0.0.0.0:0", "--token-file", token}, "5 characters, at least 16");
  refused({"--token-file", token}, "--serve");
  refused({"--serve", "127.0.0.1", "--out", "x"}, "--out");
  refused({"--json", "--out", "x"}, "--out");
}

TEST_CASE("a page replaces no folder, link or device") {
  const report_fixture f;
  make_finished_run(f.run());
  const std::string run = f.run().string();
  const fs::path link = f.folder.path() / "link", pipe = f.folder.path() / "pipe";
  fs::create_symlink("target", link);
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  for (const fs::path& file : {f.folder.path(), link, pipe}) {
    for (const auto& words : {std::vector<std::string>{"report", run, "--out", file.string()},
                              {"compare", run, run, "--html", file.string()}}) {
      const finished end = f.quern(words);
      CAPTURE(end.output);
      CHECK(end.code == 2);
      CHECK(contains(end.output, "is '" + file.string() + "', which is "));
    }
  }
  CHECK(fs::is_symlink(link));
  CHECK(fs::is_fifo(pipe));
}

TEST_CASE("quern compare puts runs in any state side by side, as text and as a page") {
  const report_fixture f;
  make_finished_run(f.run("a"));
  actors::run_config other = page_config();
  other.learner.learning_rate = 0.5;
  made_run running(f.run("b"), other);
  running.begin();
  running.step(1, 0, 300);
  made_run(f.run("empty")).close();
  fs::copy(f.run("a"), f.run("broken"), fs::copy_options::recursive);
  REQUIRE(base::write_file_atomic(f.run("broken") / "run.db", std::string(8192, 'x')));
  const fs::path page = f.folder.path() / "compare.html";
  const finished end =
      f.quern({"compare", f.run("a").string(), f.run("b").string(), f.run("empty").string(),
               f.run("broken").string(), "--html", page.string()});
  CAPTURE(end.output);
  CHECK(end.code == 1);
  CHECK(contains(end.output, "learner.learning_rate"));
  CHECK(contains(end.output, "mean reward, by steps"));
  // The run, what is damaged, and what to do; what it has is compared all the same.
  CHECK(contains(end.output, "quern compare: " + f.run("broken").string() + ": ledger: "));
  CHECK(contains(end.output,
                 "restore " + (f.run("broken") / "run.db").string() + " from a copy of the run"));
  CHECK(contains(end.output, ", damaged"));
  CHECK(contains(base::read_file(page).value_or(""), "\"kind\":\"compare\""));
  const finished json = f.stdout_of(
      {"compare", f.run("a").string(), f.run("b").string(), f.run("empty").string(), "--json"});
  CHECK(json.code == 0);
  const auto all = must(base::parse_json(json.output));
  CHECK(all["runs"].size() == 3);
  const auto of_damaged = [&](int code, const std::string& what) {
    fs::remove(f.folder.path() / "json");
    const finished one =
        run_to_end({"/bin/sh", "-c",
                    "exec " + program("quern") + " compare " + f.run("a").string() + " " +
                        f.run("broken").string() + " --json 2> " + f.run("told").string()},
                   f.folder.path() / "json");
    CHECK(one.code == code);
    CHECK(contains(base::read_file(f.run("told")).value_or(""),
                   "quern compare: " + f.run("broken").string() + ": " + what));
    return must(base::parse_json(one.output));
  };
  const auto told = of_damaged(1, "ledger: ");
  CHECK(told["runs"].size() == 2);
  CHECK(told["figures"][0]["name"] == "state");
  // A count of rows that cannot be read is none.
  CHECK(told["figures"][2]["name"] == "samples issued");
  CHECK(told["figures"][2]["values"][1] == "");
  fs::copy(f.run("a") / "run.db", f.run("broken") / "run.db", fs::copy_options::overwrite_existing);
  const std::string config = must(base::read_file(f.run("broken") / "config.yaml"));
  REQUIRE(base::write_file_atomic(f.run("broken") / "config.yaml", config + "no_such_key: 1\n"));
  of_damaged(2, "configuration: ");
  CHECK(contains(base::read_file(f.run("told")).value_or(""),
                 "put it back: the text that it had is \"config\" in " +
                     (f.run("broken") / "meta.json").string()));
  REQUIRE(base::write_file_atomic(f.run("broken") / "config.yaml", config));
  {
    const auto db =
        must(storage::database::open(f.run("broken") / "run.db", storage::database::access::write));
    REQUIRE(db->execute("PRAGMA user_version = 3"));
    REQUIRE(db->fold());
  }
  of_damaged(2, "ledger: ");
  const std::string a = f.run("a").string();
  for (const auto& [runs, part] : std::map<std::size_t, const char*>{
           {1, "runs: 1 given, at least 2 needed"}, {9, "runs: 9 given, at most 8 allowed"}}) {
    std::vector<std::string> words(runs + 1, a);
    words[0] = "compare";
    const finished counted = f.quern(words);
    CAPTURE(counted.output);
    CHECK(counted.code == 2);
    CHECK(contains(counted.output, part));
  }
  CHECK(f.quern({"compare", f.run("a").string(), f.folder.path().string()}).code == 2);
}
