// Locks of a device: on its node, which is all that two containers may share, or else in files.
#include "env/judge/device_lock.hpp"

#include <functional>
#include <string>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.hpp"
#include "env/judge/device_turn.hpp"
#include "env/judge/host_lock.hpp"
#include "support/private_device.hpp"
#include "support/test.hpp"

using namespace quern;
using env::device_lock;
using share = env::device_lock::share;
using use = env::device_lock::use;

namespace {

constexpr use all_uses[] = {use::busy, use::queue, use::quiet};

/// What two processes call the device: they share nothing but its node.
std::string here() {
  return fmt::format("test-{}", ::getpid());
}
std::string there() {
  return fmt::format("test-{}-other", ::getpid());
}

device_lock lock_on(const std::filesystem::path& node, use what, const std::string& bus_id) {
  auto opened = device_lock::open(bus_id, what, node);
  REQUIRE_MESSAGE(opened.has_value(), (opened ? "" : opened.error().message));
  return std::move(*opened);
}

/// Whether another process can take it right now.
bool another_process_can(const std::filesystem::path& node, use what, share how) {
  const std::string bus_id = there();
  const pid_t pid = ::fork();
  if (pid == 0) {
    const auto lock = device_lock::open(bus_id, what, node);
    ::_exit(lock && lock->try_take(how) ? 1 : 0);
  }
  int status = 0;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status) == 1;
}

void remove_files(const std::string& bus_id) {
  std::error_code ignored;
  for (const char* name : {"busy", "queue", "quiet"})
    std::filesystem::remove(env::host_lock_folder() / fmt::format("quern-gpu-{}.{}", bus_id, name),
                            ignored);
}

/// A file, and a character device, as the node of a device is.
void on_each_node(const std::function<void(const std::filesystem::path&)>& check) {
  const auto folder = base::temp_folder::make("quern-lock-test").value();
  const auto file = folder.path() / "nvidia7";
  REQUIRE(base::write_file_atomic(file, "").has_value());
  const test::private_device device;
  for (const auto& node : {file, device.node()}) {
    CAPTURE(node.string());
    check(node);
  }
}

}  // namespace

TEST_CASE("each lock of a device is on its node, and none keeps from another") {
  on_each_node([](const std::filesystem::path& node) {
    for (const use mine : all_uses) {
      CAPTURE(static_cast<int>(mine));
      const auto lock = lock_on(node, mine, here());
      CHECK(lock.on_node());
      REQUIRE(lock.try_take());
      for (const use asked : all_uses) {
        CAPTURE(static_cast<int>(asked));
        const bool free = asked != mine;
        CHECK(another_process_can(node, asked, share::alone) == free);
        CHECK(another_process_can(node, asked, share::with_others) == free);
        // A holder in this process is another one, too.
        const auto other = lock_on(node, asked, there());
        CHECK(other.try_take() == free);
      }
      lock.give_back();
      CHECK(another_process_can(node, mine, share::alone));
    }
  });
  for (const auto& bus_id : {here(), there()})
    remove_files(bus_id);
}

TEST_CASE("a lock that is shared keeps out who wants it alone") {
  on_each_node([](const std::filesystem::path& node) {
    const auto lock = lock_on(node, use::quiet, here());
    REQUIRE(lock.take(share::with_others));
    CHECK(another_process_can(node, use::quiet, share::with_others));
    CHECK_FALSE(another_process_can(node, use::quiet, share::alone));
  });
}

TEST_CASE("a lock ends with the process that has it") {
  on_each_node([](const std::filesystem::path& node) {
    for (const use what : all_uses) {
      // It does not give back what it took.
      CHECK(another_process_can(node, what, share::alone));
      CHECK(another_process_can(node, what, share::alone));
    }
  });
}

TEST_CASE("who knew the busy lock alone has it as before: flock on the node") {
  on_each_node([](const std::filesystem::path& node) {
    const base::unique_fd old(::open(node.c_str(), O_RDWR | O_CLOEXEC | O_NOCTTY));
    REQUIRE(::flock(old.get(), LOCK_EX) == 0);
    CHECK_FALSE(another_process_can(node, use::busy, share::alone));
    ::flock(old.get(), LOCK_UN);
    const auto lock = lock_on(node, use::busy, here());
    REQUIRE(lock.try_take());
    CHECK(::flock(old.get(), LOCK_EX | LOCK_NB) != 0);
  });
}

TEST_CASE("where a device has no node its locks are files of this host") {
  for (const use what : all_uses) {
    CAPTURE(static_cast<int>(what));
    const auto lock = lock_on("/nonexistent/nvidia7", what, here());
    CHECK_FALSE(lock.on_node());
    REQUIRE(lock.try_take());
    const auto same = lock_on("", what, here());
    CHECK_FALSE(same.try_take());
    CHECK(lock_on("", what, there()).try_take());
  }
  const auto named = env::open_host_lock(fmt::format("gpu-{}.queue", here())).value();
  CHECK(env::try_host_lock(named));
  CHECK_FALSE(lock_on("", use::queue, here()).try_take());
  for (const auto& bus_id : {here(), there()})
    remove_files(bus_id);
}

TEST_CASE("who stands in line for a device is seen by all who share its node") {
  on_each_node([](const std::filesystem::path& node) {
    const auto line = lock_on(node, use::queue, here());
    auto turn = env::device_turn::open(there(), node).value();
    REQUIRE(line.try_take());
    CHECK_FALSE(turn.try_take());
    line.give_back();
    CHECK(turn.wait(60));
    CHECK(turn.held());
    auto other = env::device_turn::open(here(), node).value();
    CHECK_FALSE(other.try_take());
    // Whoever has the device stands in no line.
    CHECK(line.try_take());
  });
}
