// Limits of control groups, against hierarchies that are made up.
#include "base/host_memory.hpp"

#include "base/file.hpp"
#include "support/test.hpp"

using namespace quern;
namespace fs = std::filesystem;

namespace {

struct machine {
  base::temp_folder folder = std::move(base::temp_folder::make().value());
  fs::path listing = folder.path() / "cgroup";
  fs::path mounted = folder.path() / "mounted";

  void belongs_to(const std::string& groups) const {
    REQUIRE(base::write_file_atomic(listing, groups));
  }
  void limit(const fs::path& file, const std::string& text) const {
    REQUIRE(base::make_folders((mounted / file).parent_path()));
    REQUIRE(base::write_file_atomic(mounted / file, text));
  }
  base::host_memory memory() const { return base::host_memory_within(1000, listing, mounted); }
};

}  // namespace

TEST_CASE("the smallest limit of the groups around a process counts, of either version") {
  machine m;
  CHECK(m.memory().bytes == 1000);
  CHECK(m.memory().limit.empty());
  m.belongs_to("0::/user/job\n");
  m.limit("user/job/memory.max", "max\n");
  CHECK(m.memory().bytes == 1000);
  m.limit("user/memory.max", "800\n");
  CHECK(m.memory().bytes == 800);
  CHECK(m.memory().limit == (m.mounted / "user/memory.max").string());
  m.limit("user/job/memory.max", "900\n");
  CHECK(m.memory().bytes == 800);
  m.limit("user/job/memory.max", "700\n");
  CHECK(m.memory().bytes == 700);
  // One of another group, and one that is no number.
  m.limit("user/other/memory.max", "10\n");
  m.limit("memory.max", "much\n");
  CHECK(m.memory().bytes == 700);

  m.belongs_to("12:cpu,memory:/box\n3:pids:/user/job\n0::/\n");
  m.limit("memory/box/memory.limit_in_bytes", "9223372036854771712\n");
  CHECK(m.memory().bytes == 1000);
  m.limit("memory/box/memory.limit_in_bytes", "600\n");
  CHECK(m.memory().bytes == 600);
  CHECK(m.memory().limit == (m.mounted / "memory/box/memory.limit_in_bytes").string());
}

TEST_CASE("a container that sees only the root of its group is bound by it") {
  machine m;
  m.belongs_to("5:memory:/docker/0123\n");
  m.limit("memory/memory.limit_in_bytes", "500\n");
  CHECK(m.memory().bytes == 500);
}

TEST_CASE("this process may have some memory") {
  CHECK(base::own_host_memory().bytes > (std::int64_t{16} << 20));
}
