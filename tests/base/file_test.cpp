// Files are replaced whole or not at all, and errors name the path and the limit.
#include "base/file.hpp"

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/test.hpp"

using namespace quern::base;
namespace fs = std::filesystem;

TEST_CASE("an atomic write replaces the content and leaves nothing beside it") {
  auto folder = temp_folder::make();
  REQUIRE(folder);
  const fs::path path = folder->path() / "state.json";
  REQUIRE(write_file_atomic(path, "old"));
  REQUIRE(write_file_atomic(path, "new"));
  CHECK(read_file(path).value() == "new");
  CHECK(std::distance(fs::directory_iterator(folder->path()), fs::directory_iterator()) == 1);
}

TEST_CASE("a failed write names the path and leaves the old content") {
  const auto result = write_file_atomic("/nowhere/at/all/x", "text");
  REQUIRE_FALSE(result);
  CHECK(result.error().message.find("/nowhere/at/all/x") != std::string::npos);
}

TEST_CASE("reading says what is wrong") {
  auto folder = temp_folder::make();
  REQUIRE(folder);
  CHECK(read_file(folder->path() / "absent").error().code == errc::not_found);
  CHECK(read_file(folder->path()).error().code == errc::invalid_argument);
  REQUIRE(write_file_atomic(folder->path() / "big", std::string(1000, 'x')));
  CHECK(read_file(folder->path() / "big", 1000));
  CHECK(read_file(folder->path() / "big", 999).error().code == errc::invalid_argument);
}

TEST_CASE("a file that is far too large is refused before room is made for it") {
  const auto folder = temp_folder::make("quern-file-test").value();
  const auto path = folder.path() / "sparse";
  const unique_fd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  REQUIRE(file);
  // More than any machine has: to reserve it throws.
  constexpr off_t huge = off_t{1} << 43;
  REQUIRE(::ftruncate(file.get(), huge) == 0);
  const auto refused = read_file(path, 1000);
  REQUIRE_FALSE(refused.has_value());
  CHECK(quern::test::contains(refused.error().message, "larger than the 1000 bytes"));
  REQUIRE(::ftruncate(file.get(), 1000) == 0);
  CHECK(read_file(path, 1000).value().size() == 1000);
}

TEST_CASE("a temporary folder goes with its owner") {
  fs::path path;
  {
    auto folder = temp_folder::make();
    REQUIRE(folder);
    path = folder->path();
    CHECK(fs::is_directory(path));
  }
  CHECK_FALSE(fs::exists(path));
}

TEST_CASE(
    "a held folder of a process that was killed goes with the next one, that of a living stays") {
  // The first call of a prefix in a process clears: each of these is a process of its own.
  const std::string prefix = "quern-held-test" + std::to_string(::getpid());
  const auto held_in_child = [&](bool lives) {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    const pid_t child = ::fork();
    if (child == 0) {
      const auto folder = temp_folder::make_held(prefix);
      const std::string name = folder ? folder->path().string() : "";
      if (::write(ends[1], name.data(), name.size()) < 0) ::_exit(1);
      while (lives)
        ::pause();
      ::kill(::getpid(), SIGKILL);
    }
    ::close(ends[1]);
    char name[512] = "";
    CHECK(::read(ends[0], name, sizeof name - 1) > 0);
    ::close(ends[0]);
    if (!lives) ::waitpid(child, nullptr, 0);
    return std::pair(child, fs::path(name));
  };
  const auto [alive, kept] = held_in_child(true);
  const auto [dead, left] = held_in_child(false);
  CHECK(fs::is_directory(left));
  {
    const auto next = temp_folder::make_held(prefix);
    REQUIRE(next);
    CHECK(fs::is_directory(next->path()));
    CHECK_FALSE(fs::exists(left));
    CHECK(fs::is_directory(kept));
  }
  ::kill(alive, SIGKILL);
  ::waitpid(alive, nullptr, 0);
  fs::remove_all(kept);
}

TEST_CASE("a process that ends without destructors deletes its held folders, and makes no more") {
  const std::string prefix = "quern-over-test" + std::to_string(::getpid());
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto gone = temp_folder::make_held(prefix + "-gone");
    const auto folder = temp_folder::make_held(prefix);
    const bool made = gone && folder && write_file_atomic(folder->path() / "file", "text");
    temp_folder::remove_all_held();
    const bool more = temp_folder::make_held(prefix).has_value();
    const std::string told = folder ? folder->path().string() + "\n" + gone->path().string() : "";
    (void)!::write(ends[1], told.data(), told.size());
    ::_exit(made && !more ? 0 : 1);
  }
  ::close(ends[1]);
  char told[1024] = "";
  CHECK(::read(ends[0], told, sizeof told - 1) > 0);
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
  const std::string text = told;
  CHECK_FALSE(fs::exists(text.substr(0, text.find('\n'))));
  CHECK_FALSE(fs::exists(text.substr(text.find('\n') + 1)));
}

TEST_CASE("processes that make held folders and clear at once never take one from a living owner") {
  const std::string prefix = "quern-race-test" + std::to_string(::getpid());
  constexpr int processes = 4, rounds = 300;
  std::vector<pid_t> children;
  for (int k = 0; k < processes; ++k) {
    const pid_t child = ::fork();
    if (child != 0) {
      children.push_back(child);
      continue;
    }
    for (int i = 0; i < rounds; ++i) {
      auto folder = temp_folder::make_held(prefix);
      if (!folder) ::_exit(2);
      temp_folder::remove_abandoned(prefix);
      if (!fs::is_directory(folder->path())) ::_exit(3);
    }
    ::_exit(0);
  }
  for (const pid_t child : children) {
    int status = -1;
    ::waitpid(child, &status, 0);
    CHECK(status == 0);
  }
}

TEST_CASE("the user's cache is a folder that nobody else may write to") {
  const auto root = temp_folder::make().value();
  const char* before = std::getenv("XDG_CACHE_HOME");
  const std::string kept = before != nullptr ? before : "";
  setenv("XDG_CACHE_HOME", root.path().c_str(), 1);
  const auto folder = user_cache_folder();
  CHECK(folder == root.path() / "quern");
  CHECK((fs::status(folder).permissions() & fs::perms::all) == fs::perms::owner_all);
  chmod(folder.c_str(), 0777);
  CHECK(user_cache_folder().empty());
  if (before != nullptr)
    setenv("XDG_CACHE_HOME", kept.c_str(), 1);
  else
    unsetenv("XDG_CACHE_HOME");
}
