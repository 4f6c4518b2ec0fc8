// The run directory: making, opening, the lock between real processes, socket names.
#include "storage/run_directory.hpp"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <set>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/random.hpp"
#include "ledger_support.hpp"

namespace quern::test {
namespace {

using namespace quern::storage;
namespace fs = std::filesystem;

const base::json meta = {{"build", "quern 0.1.0"}, {"seed", 7}};

TEST_CASE("a run directory is made whole, opened again, and keeps what it was told") {
  const auto folder = must(base::temp_folder::make("run"));
  const fs::path root = folder.path() / "runs" / "one";
  fs::path sockets;
  {
    auto run = must(run_directory::create(root, "quern_config: 2\n", meta));
    CHECK(must(base::read_file(run.paths().config())) == "quern_config: 2\n");
    std::set<std::string> made;
    for (const auto& entry : fs::directory_iterator(root))
      made.insert(entry.path().filename());
    CHECK(made == std::set<std::string>{"LOCK", "blobs", "checkpoints", "config.yaml", "logs",
                                        "meta.json"});
    sockets = run.sockets();
    CHECK(fs::status(sockets).permissions() == fs::perms::owner_all);
    const base::json written = must(read_meta({root}));
    CHECK(written["seed"] == 7);
    CHECK(written["quern_run"] == 1);
    for (const char* key : {"created_ns", "config", "lock"})
      CHECK(written.contains(key));
    CHECK(written["sockets"] == sockets.string());
    CHECK(run.paths().log_of("learner") == root / "logs/learner.log");
    CHECK(must(is_locked(root / "LOCK")));
  }
  CHECK_FALSE(fs::exists(sockets));
  CHECK_FALSE(must(is_locked(root / "LOCK")));
  auto again = must(run_directory::open(root));
  CHECK(again.meta()["seed"] == 7);
  CHECK(must(read_meta({root}))["sockets"] == again.sockets().string());
  must(again.write_config("quern_config: 2\nx: 2\n"));
  CHECK(must(base::read_file(root / "config.yaml")) == "quern_config: 2\nx: 2\n");
  CHECK(run_directory::create(root, "", meta).error().code == base::errc::already_exists);
}

TEST_CASE("names of sockets fit into 107 bytes or are refused") {
  const auto folder = must(base::temp_folder::make("run"));
  auto run = must(run_directory::create(folder.path() / "r", "", meta));
  const std::string name = must(run.socket("evaluators"));
  CHECK(name.size() <= max_socket_name);
  CHECK(fs::path(name).parent_path() == run.sockets());
  const std::size_t room = max_socket_name - run.sockets().string().size() - 1;
  CHECK(must(run.socket(std::string(room, 'x'))).size() == max_socket_name);
  CHECK(run.socket(std::string(room + 1, 'x')).error().message.find("107") != std::string::npos);
  CHECK_FALSE(run.socket("../x").has_value());
  CHECK_FALSE(run.socket("").has_value());
}

TEST_CASE("what is no run directory is refused, saying what was found") {
  const auto folder = must(base::temp_folder::make("run"));
  const auto refused = [&](const std::string& text) {
    std::ofstream(folder.path() / "meta.json") << text;
    const auto opened = run_directory::open(folder.path());
    REQUIRE_FALSE(opened.has_value());
    return opened.error();
  };
  const auto absent = run_directory::open(folder.path());
  REQUIRE_FALSE(absent.has_value());
  CHECK(absent.error().code == base::errc::not_found);
  CHECK(absent.error().message.find("is not a run directory") != std::string::npos);
  CHECK(refused("{").code == base::errc::corrupt);
  CHECK(refused("{").message.find("put it back from a copy") != std::string::npos);
  CHECK(run_directory::open(folder.path() / "meta.json").error().code == base::errc::not_found);
  CHECK(refused("[]").code == base::errc::corrupt);
  CHECK(refused("{}").message.find("quern_run") != std::string::npos);
  const auto newer = refused(R"({"quern_run": 2, "build": "quern 9"})");
  CHECK(newer.code == base::errc::version);
  CHECK(newer.message.find("has format 2, this build reads format 1") != std::string::npos);
  CHECK(newer.message.find("quern 9") != std::string::npos);
  CHECK_FALSE(fs::exists(folder.path() / "LOCK"));
  base::random_stream random(9, "meta");
  for (int i = 0; i < 500; ++i) {
    std::string text = R"({"quern_run": 2, "build": {"a": [1, 2.5e3, null, "x"]}})";
    for (int n = 0; n < 3; ++n)
      text[random.below(text.size())] = static_cast<char>(random.below(256));
    CHECK_FALSE((refused(text).message.empty()));
  }
}

/// Runs `body` in a child, waits until it has written a byte to its pipe, and gives its pid.
template <class F>
pid_t start_child(F body) {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    body([&] { (void)!::write(ends[1], "x", 1); });
    ::_exit(0);
  }
  ::close(ends[1]);
  char byte = 0;
  CHECK(::read(ends[0], &byte, 1) == 1);
  ::close(ends[0]);
  return child;
}

TEST_CASE("another process is told who holds the run; kill -9 frees it at once") {
  const auto folder = must(base::temp_folder::make("run"));
  const fs::path root = folder.path() / "r";
  { must(run_directory::create(root, "", meta)); }
  const pid_t holder = start_child([&](auto ready) {
    auto run = run_directory::open(root);
    if (!run || !run->lock().note_incarnation(3)) return;
    ready();
    ::pause();
  });
  const auto refused = run_directory::open(root);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == base::errc::conflict);
  CHECK(refused.error().message.find(fmt::format("process {}", holder)) != std::string::npos);
  CHECK(refused.error().message.find("incarnation 3") != std::string::npos);
  CHECK(must(is_locked(root / "LOCK")));
  ::kill(holder, SIGKILL);
  ::waitpid(holder, nullptr, 0);
  CHECK_FALSE(must(is_locked(root / "LOCK")));
  CHECK(run_directory::open(root).has_value());
}

TEST_CASE("what a killed process left outside the run is removed when the run is opened") {
  const auto folder = must(base::temp_folder::make("run"));
  const fs::path root = folder.path() / "r";
  { must(run_directory::create(root, "", meta)); }
  const auto make = [&](const char* name) {
    fs::create_directory(folder.path() / name);
    std::ofstream(folder.path() / name / "file") << "x";
    return folder.path() / name;
  };
  const fs::path owned = make("quern-weights.1"), foreign = make("somebody-elses");
  const pid_t holder = start_child([&](auto ready) {
    auto run = run_directory::open(root);
    if (!run || !run->own(owned) || !run->own(foreign)) return;
    ready();
    ::pause();
  });
  const fs::path sockets = must(read_meta({root}))["sockets"].get<std::string>();
  ::kill(holder, SIGKILL);
  ::waitpid(holder, nullptr, 0);
  CHECK((fs::exists(sockets) && fs::exists(owned)));
  {
    auto run = must(run_directory::open(root));
    CHECK_FALSE(fs::exists(sockets));
    CHECK_FALSE(fs::exists(owned));
    CHECK(fs::exists(foreign / "file"));
    CHECK_FALSE(run.meta().contains("owned"));
    must(run.own(make("quern-weights.2")));
  }
  CHECK_FALSE(fs::exists(folder.path() / "quern-weights.2"));
}

TEST_CASE("opening the copy of a run leaves what belongs to the original, which goes on") {
  const auto folder = must(base::temp_folder::make("run"));
  const fs::path root = folder.path() / "r", copy = folder.path() / "copy";
  const fs::path owned = folder.path() / "quern-weights.1";
  fs::create_directory(owned);
  auto original = must(run_directory::create(root, "", meta));
  must(original.own(owned));
  fs::copy(root, copy, fs::copy_options::recursive);
  {
    auto second = must(run_directory::open(copy));
    CHECK(fs::exists(original.sockets()));
    CHECK(fs::exists(owned));
    CHECK(second.sockets() != original.sockets());
    CHECK_FALSE(second.meta().contains("owned"));
  }
  CHECK(fs::exists(original.sockets()));
  CHECK(fs::exists(owned));
}

TEST_CASE("a forked child that forgets the lock neither keeps nor frees it") {
  const auto folder = must(base::temp_folder::make("run"));
  const fs::path file = folder.path() / "LOCK";
  auto lock = std::make_unique<run_lock>(must(run_lock::take(file)));
  const pid_t child = start_child([&](auto ready) {
    lock->forget();
    ready();
    ::pause();
  });
  CHECK(must(is_locked(file)));
  lock.reset();
  CHECK_FALSE(must(is_locked(file)));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  // A lock file that says nothing sensible is no obstacle when nobody holds it, and says so when
  // somebody does.
  must(base::write_file_atomic(file, "garbage"));
  CHECK(run_lock::take(file).has_value());
}

TEST_CASE("a child that outlives the lock's holder is waited for; one that stays is a conflict") {
  const auto folder = must(base::temp_folder::make("run"));
  const fs::path file = folder.path() / "LOCK";
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  // The holder dies at once; its child has the descriptor until the test closes the pipe.
  const auto leave_child = [&] {
    const pid_t holder = start_child([&](auto ready) {
      auto lock = run_lock::take(file);
      if (!lock) ::_exit(1);
      if (::fork() == 0) {
        ::close(ends[1]);
        char end = 0;
        (void)!::read(ends[0], &end, 1);
        ::_exit(0);
      }
      ready();
      ::raise(SIGKILL);
    });
    // Dead, though nobody has asked how yet.
    siginfo_t end{};
    CHECK(::waitid(P_PID, static_cast<id_t>(holder), &end, WEXITED | WNOWAIT) == 0);
    return holder;
  };
  const pid_t holder = leave_child();
  CHECK(must(is_locked(file)));
  const auto refused = run_lock::take(file, 60'000'000);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == base::errc::conflict);
  CHECK(refused.error().message.find("which has ended, and a child of it still has the lock") !=
        std::string::npos);

  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    ::close(ends[1]);
  });
  CHECK(run_lock::take(file, 60'000'000'000).has_value());
  later.join();
  ::waitpid(holder, nullptr, 0);
  ::close(ends[0]);
}

TEST_CASE("a creation that fails halfway leaves nothing that blocks a second try") {
  const auto folder = must(base::temp_folder::make("run"));
  const fs::path root = folder.path() / "made" / "run";
  // The folder for sockets, the last thing that is made, cannot be.
  const std::string before = std::getenv("TMPDIR") != nullptr ? std::getenv("TMPDIR") : "/tmp";
  ::setenv("TMPDIR", "/nonexistent", 1);
  CHECK_FALSE(run_directory::create(root, "quern_config: 2\n", meta).has_value());
  ::setenv("TMPDIR", before.c_str(), 1);
  CHECK_FALSE(fs::exists(root));
  CHECK(run_directory::create(root, "quern_config: 2\n", meta).has_value());
}

TEST_CASE("what a process that died while making a run left behind is taken over") {
  const auto folder = must(base::temp_folder::make("run"));
  const fs::path root = folder.path() / "run";
  must(run_directory::create(root, "quern_config: 2\n", meta));
  CHECK(may_become_run(root).error().message.find("is a run already") != std::string::npos);
  fs::remove(root / "meta.json");
  CHECK(may_become_run(root).has_value());
  std::ofstream(root / ".config.yaml.abcdef") << "half";
  CHECK(run_directory::create(root, "quern_config: 2\nx: 1\n", meta).has_value());
  CHECK(must(base::read_file(root / "config.yaml")) == "quern_config: 2\nx: 1\n");
  // But nothing that somebody could miss.
  fs::remove(root / "meta.json");
  std::ofstream(root / "blobs" / "kept") << "kept";
  CHECK(run_directory::create(root, "", meta).error().code == base::errc::already_exists);
  CHECK(fs::exists(root / "blobs" / "kept"));
  const fs::path own = folder.path() / "own";
  must(base::make_folders(own));
  std::ofstream(own / "config.yaml") << "quern_config: 2\n";
  CHECK(run_directory::create(own, "", meta).error().code == base::errc::already_exists);
}

}  // namespace
}  // namespace quern::test
