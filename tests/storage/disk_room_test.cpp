// Room on the disk is known before it is needed.
#include "storage/disk_room.hpp"

#include "base/file.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::storage;
using test::contains;

TEST_CASE("the room of a folder that is still to be made is that of its parent") {
  const auto folder = base::temp_folder::make().value();
  const auto there = free_bytes(folder.path() / "not/yet");
  REQUIRE(there);
  CHECK(*there > 0);
}

TEST_CASE("a checkpoint without room is warned of with bytes needed, bytes free and what to set") {
  CHECK(warning_of_room("/run", 2048, 2048).empty());
  CHECK(warning_of_room("/run", 2048, std::nullopt).empty());
  const std::string said = warning_of_room("/run", 2048, 1024);
  for (const char* part : {"2.0 KiB", "1.0 KiB", "/run", "storage.keep_checkpoints"})
    CHECK(contains(said, part));
}
