// A process that writes checkpoints is killed at random instants: what was published is always
// there, whole, and nothing half written is ever taken for a checkpoint.
#include <fstream>

#include "base/file.hpp"
#include "base/random.hpp"
#include "crash_support.hpp"
#include "storage/checkpoint.hpp"

namespace quern::test {
namespace {

using namespace quern::storage;
namespace fs = std::filesystem;

base::status fill(const fs::path& folder, std::int64_t version) {
  QUERN_CHECK(base::make_folders(folder / "model"));
  for (const char* name : {"model/model.safetensors", "optimizer.safetensors", "state.json"}) {
    std::ofstream(folder / name) << std::string(20'000, static_cast<char>('a' + version % 26))
                                 << version;
  }
  return {};
}

/// Versions first, first + 1, ... for ever; says each one that is published.
template <class Say>
void write_for_ever(const fs::path& folder, std::int64_t first, Say say) {
  checkpoint_store store(folder);
  for (std::int64_t version = first;; ++version) {
    const auto made =
        store.write(version, [&](const fs::path& draft) { return fill(draft, version); });
    if (!made || !store.publish(version)) ::_exit(5);
    say(version);
  }
}

TEST_CASE("kill -9 of a writer of checkpoints, at random instants") {
  const auto root = must(base::temp_folder::make("checkpoints"));
  const fs::path folder = root.path() / "checkpoints";
  base::random_stream random(11, "checkpoint crash");
  std::int64_t published = 0;
  int half_written = 0;
  for (int round = 0; round < 25; ++round) {
    CAPTURE(round);
    const random_death death{random.between(1, 3), static_cast<unsigned>(random.below(15'000))};
    const auto said =
        run_and_kill([&](auto say) { write_for_ever(folder, published + 1, say); }, death);
    REQUIRE_FALSE(said.empty());

    checkpoint_store store(folder);
    const auto there = store.versions();
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (entry.path().filename().string().starts_with(".writing-")) ++half_written;
    }
    // Every folder with a checkpoint's name is whole, the last that was published among them, and
    // LATEST names one that is whole.
    for (const std::int64_t version : there) {
      CHECK_MESSAGE(store.verify(version).has_value(), store.verify(version).error().message);
    }
    REQUIRE_FALSE(there.empty());
    CHECK(there.front() >= said.back());
    CHECK(there.front() <= said.back() + 1);
    const std::int64_t latest = must(store.latest());
    CHECK(latest >= said.back());
    CHECK(store.verify(latest).has_value());
    CHECK(must(store.choose(there)).chosen.version == there.front());

    // The run goes on from what was said to be published; the rest is cleared away, but for what is
    // whole.
    published = said.back();
    CHECK(std::ssize(must(store.set_aside_above(published))) == there.front() - published);
    fs::remove_all(folder / "set_aside");
    CHECK(store.versions().front() == published);
    CHECK(must(store.latest()) == published);
    CHECK(std::distance(fs::directory_iterator(folder), fs::directory_iterator()) ==
          std::ssize(store.versions()) + 1);
  }
  MESSAGE("half-written checkpoints met: " << half_written);
  CHECK(half_written > 0);
}

}  // namespace
}  // namespace quern::test
