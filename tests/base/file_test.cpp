// Files are replaced whole or not at all, and errors name the path and the limit.
#include "base/file.hpp"

#include <filesystem>

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
  CHECK(read_file(folder->path() / "big", 999).error().code == errc::exhausted);
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
