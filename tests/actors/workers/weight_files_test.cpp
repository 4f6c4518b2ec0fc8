// Weights from files: read beside a generator's steps, however slow it is and whatever has replaced
// a file meanwhile.
#include <array>
#include <atomic>
#include <span>
#include <thread>
#include <vector>

#include <sys/inotify.h>
#include <sys/resource.h>
#include <unistd.h>

#include "actors/workers/weight_file_reader.hpp"
#include "base/file.hpp"
#include "base/write_signals.hpp"
#include "policy/engine/small_models.hpp"
#include "policy/weights/weight_channel.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::actors;

namespace {

policy::parameter_arena file_weights(weights_version version) {
  return policy::parameter_arena::random(test::small_config(policy::architecture::qwen3),
                                         static_cast<std::uint64_t>(version) + 1)
      .value();
}

/// A generator with its reader, and the learner's folder.
struct reading {
  base::temp_folder folder = std::move(base::temp_folder::make().value());
  policy::generator engine;
  std::atomic<int> news = 0;
  std::unique_ptr<weight_file_reader> reader;

  explicit reading(base::nanoseconds_t patience = 30'000'000'000)
      : engine(std::move(policy::generator::make(file_weights(0), 0, {})).value()) {
    reader = std::make_unique<weight_file_reader>(
        weight_file_reader::source{folder.path(), 0, patience}, device_share(),
        [this](const std::string&) { ++news; });
    inbox().begin(engine.landing());
  }
  weight_inbox& inbox() { return reader->inbox(); }

  weights_ready publish(weights_version version) {
    const policy::parameter_arena made = file_weights(version);
    const std::span<const std::byte> bytes(static_cast<const std::byte*>(made.flat.data_ptr()),
                                           made.flat.nbytes());
    return {
        1, version, made.hash(),
        policy::publish_weights(folder.path(), version, policy::weight_dtype::f32, bytes).value()};
  }
  void wait_for_news(int count) const {
    while (news < count)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
};

/// Tells when a file of a folder was read to its end by somebody.
class reads_of {
 public:
  explicit reads_of(const std::filesystem::path& folder) : fd_(::inotify_init1(IN_CLOEXEC)) {
    REQUIRE(::inotify_add_watch(fd_.get(), folder.c_str(), IN_CLOSE_NOWRITE | IN_ONLYDIR) >= 0);
  }
  void wait_for(const std::string& file) const {
    alignas(inotify_event) char events[4096];
    for (;;) {
      const ssize_t bytes = ::read(fd_.get(), events, sizeof events);
      REQUIRE(bytes > 0);
      for (ssize_t at = 0; at < bytes;) {
        const auto* event = reinterpret_cast<const inotify_event*>(events + at);
        if (event->len > 0 && file == event->name) return;
        at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
      }
    }
  }

 private:
  base::unique_fd fd_;
};

}  // namespace

TEST_CASE("weights of files come while the generator goes on, and are installed when it asks") {
  reading r;
  for (weights_version version = 1; version <= 4; ++version) {
    r.inbox().announce(r.publish(version));
    r.wait_for_news(static_cast<int>(version));
    CHECK(r.engine.version() == version - 1);
    CHECK(r.inbox().install(r.engine).value());
    CHECK(r.engine.version() == version);
    CHECK(r.engine.weights_hash() == file_weights(version).hash());
    CHECK_FALSE(r.inbox().due());
  }
}

TEST_CASE("a file that was replaced before it was read is passed over for its successor") {
  reading r;
  const weights_ready first = r.publish(1);
  (void)r.publish(2);
  const weights_ready third = r.publish(3);
  CHECK(first.file == third.file);
  const reads_of reads(r.folder.path());
  r.inbox().announce(first);
  // It has read what version 3 is, and waits for it to be announced.
  reads.wait_for(first.file);
  r.inbox().announce(third);
  r.wait_for_news(1);
  CHECK(r.inbox().install(r.engine).value());
  CHECK(r.engine.version() == 3);
}

TEST_CASE("an announcement that comes after the reader's patience is no failure") {
  reading r(1);
  const weights_ready first = r.publish(1);
  (void)r.publish(2);
  const weights_ready third = r.publish(3);
  r.inbox().announce(first);
  r.wait_for_news(1);
  r.inbox().announce(third);
  CHECK_FALSE(r.inbox().install(r.engine).value());
  r.wait_for_news(2);
  CHECK(r.inbox().install(r.engine).value());
  CHECK(r.engine.version() == 3);
}

TEST_CASE("a file that is not what was announced, and stays so, is an error") {
  reading r(20'000'000);
  weights_ready wrong = r.publish(1);
  ++wrong.hash.low;
  r.inbox().announce(wrong);
  r.wait_for_news(1);
  const auto refused = r.inbox().install(r.engine);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == base::errc::corrupt);
  CHECK(test::contains(refused.error().message, "version 0 stays"));
  CHECK(r.engine.version() == 0);
  r.inbox().announce(r.publish(2));
  r.wait_for_news(2);
  CHECK(r.inbox().install(r.engine).value());
  CHECK(r.engine.version() == 2);
}

TEST_CASE("a file that is not there, or is of another model, is an error that names it") {
  reading r;
  r.inbox().announce({1, 1, {}, "nowhere"});
  r.wait_for_news(1);
  const auto missing = r.inbox().install(r.engine);
  REQUIRE_FALSE(missing);
  CHECK(test::contains(missing.error().message, "nowhere"));
  REQUIRE(base::write_file_atomic(r.folder.path() / "even", "short"));
  r.inbox().announce({1, 2, {}, "even"});
  r.wait_for_news(2);
  CHECK(test::contains(r.inbox().install(r.engine).error().message, "end early"));
  REQUIRE(policy::publish_weights(r.folder.path(), 4, policy::weight_dtype::f32,
                                  std::array<std::byte, 5>{}));
  r.inbox().announce({1, 4, {}, "even"});
  r.wait_for_news(3);
  CHECK(test::contains(r.inbox().install(r.engine).error().message, "5 bytes"));
}

TEST_CASE("files have the learner's type: bfloat16 takes half the bytes and arrives as it is") {
  base::temp_folder folder = std::move(base::temp_folder::make().value());
  const policy::parameter_arena full = file_weights(1);
  policy::parameter_arena half = full.empty_as(at::kBFloat16, at::kCPU);
  half.flat.copy_(full.flat);
  const std::span<const std::byte> bytes(static_cast<const std::byte*>(half.flat.data_ptr()),
                                         half.flat.nbytes());
  const auto file =
      policy::publish_weights(folder.path(), 1, policy::weight_dtype::bf16, bytes).value();
  CHECK(std::filesystem::file_size(folder.path() / file) - bytes.size() < 64);
  CHECK(2 * bytes.size() == full.flat.nbytes());
  // On the host a generator computes in float32, with weights that are rounded.
  policy::generator engine = std::move(policy::generator::make(file_weights(0), 0, {})).value();
  const auto install = [&](at::ScalarType type) {
    std::atomic<int> news = 0;
    weight_file_reader::source from{folder.path(), 0};
    from.type = type;
    weight_file_reader reader(from, device_share(), [&](const std::string&) { ++news; });
    reader.inbox().begin(engine.landing());
    reader.inbox().announce({1, 1, half.hash(), file});
    while (news < 1)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return reader.inbox().install(engine);
  };
  const auto mistaken = install(at::kFloat);
  REQUIRE_FALSE(mistaken);
  CHECK(mistaken.error().code == base::errc::corrupt);
  CHECK(test::contains(mistaken.error().message, "bfloat16"));
  REQUIRE(install(at::kBFloat16));
  CHECK(engine.version() == 1);
  CHECK(engine.weights_hash() == half.hash());
}

TEST_CASE("a full file system is told with the file, what is needed and what is free") {
  const base::temp_folder folder = std::move(base::temp_folder::make().value());
  std::filesystem::create_symlink("/dev/full", folder.path() / "odd.new");
  const std::vector<std::byte> arena(3U << 20U);
  const auto refused = policy::publish_weights(folder.path(), 1, policy::weight_dtype::f32, arena);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == base::errc::exhausted);
  for (const std::string& part :
       {(folder.path() / "odd.new").string(), std::string("3.0 MiB are needed"),
        std::string("are free"), std::string("--shm-size"), std::string("actors.weights to link")})
    CHECK(test::contains(refused.error().message, part));
  CHECK_FALSE(std::filesystem::exists(folder.path() / "odd"));
  CHECK(policy::publish_weights(folder.path(), 1, policy::weight_dtype::f32, arena));
}

TEST_CASE("a file that is larger than this process may write is told with that limit") {
  const auto folder = base::temp_folder::make().value();
  base::ignore_file_size_signal();
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const rlimit small{4096, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  const std::vector<std::byte> arena(100'000);
  const auto published =
      policy::publish_weights(folder.path(), 1, policy::weight_dtype::f32, arena);
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  REQUIRE_FALSE(published);
  CAPTURE(published.error().message);
  CHECK(test::contains(published.error().message, (folder.path() / "odd.new").string()));
  CHECK(test::contains(published.error().message, "ulimit -f"));
  CHECK_FALSE(test::contains(published.error().message, "remove files there"));
}

TEST_CASE("versions that are announced while an older one is read do not starve the generator") {
  reading r;
  r.inbox().announce(r.publish(1));
  r.wait_for_news(1);
  const weights_ready second = r.publish(2);
  r.inbox().announce(second);
  // Version 1 has arrived and version 2 is the newest: the older one is as good as it was.
  CHECK(r.inbox().install(r.engine).value());
  CHECK(r.engine.version() == 1);
  r.wait_for_news(2);
  CHECK(r.inbox().install(r.engine).value());
  CHECK(r.engine.version() == 2);
}

TEST_CASE("a reader that waits can be ended") {
  { reading nothing_announced; }
  reading replaced;
  const weights_ready first = replaced.publish(1);
  (void)replaced.publish(3);
  replaced.inbox().announce(first);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  // Here it would wait for ever.
  replaced.reader.reset();
  CHECK(replaced.engine.version() == 0);
}
