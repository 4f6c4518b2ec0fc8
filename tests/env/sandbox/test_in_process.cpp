// Sandboxing a forked child from inside, as reference runners do.
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.hpp"
#include "sandbox_fixture.hpp"

using namespace quern;
using namespace quern::test;
using env::layer;

namespace {

// Runs `deed` in a forked, sandboxed child; its exit status, or 200 + signal.
int in_sandbox(const std::function<int()>& deed, const env::child_spec& spec = {},
               const env::cgroup_leaf* group = nullptr) {
  const auto& facts = env::probe_host();
  const pid_t pid = fork();
  if (pid == 0) {
    const auto layers =
        env::apply_sandbox_in_this_process(spec, facts, env::sandbox_mode::best_effort, group);
    if (!layers) {
      std::fprintf(stderr, "%s\n", layers.error().message.c_str());
      _exit(150);
    }
    _exit(deed());
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 200 + WTERMSIG(status);
}

env::child_spec reference_spec() {
  env::child_spec spec;
  spec.profile = env::syscall_profile::reference;
  return spec;
}

}  // namespace

TEST_CASE("a forked child goes on computing after it has locked itself in") {
  CHECK(in_sandbox([] { return 0; }, reference_spec()) == 0);
  CHECK(in_sandbox(
            [] {
              std::vector<double> numbers(1 << 20, 1.0);
              double sum = 0;
              for (const double number : numbers)
                sum += number;
              return sum == 1 << 20 ? 0 : 1;
            },
            reference_spec()) == 0);
}

TEST_CASE("and can do little else") {
  const auto spec = reference_spec();
  if (host_has({layer::seccomp}, "system calls of a reference")) {
    CHECK(in_sandbox([] { return socket(AF_INET, SOCK_STREAM, 0) < 0 ? 0 : 1; }, spec) == 0);
    CHECK(in_sandbox([] { return fork() < 0 ? 0 : 1; }, spec) == 0);
    CHECK(in_sandbox([] { return kill(getppid(), 0) < 0 ? 0 : 1; }, spec) == 0);
    CHECK(in_sandbox(
              [] {
                execl("/bin/true", "true", nullptr);
                return 3;
              },
              spec) == 3);
  }
  if (host_has({layer::landlock}, "files of a reference"))
    CHECK(in_sandbox([] { return open("/etc/passwd", O_RDONLY) < 0 ? 0 : 1; }, spec) == 0);
  if (host_has({layer::foreign_uid}, "user of a reference"))
    CHECK(in_sandbox([] { return geteuid() != 0 ? 0 : 1; }, spec) == 0);
}

TEST_CASE("a forked child with a GPU may do what a context needs, and no more than Python does") {
  env::child_spec spec;
  spec.profile = env::syscall_profile::gpu_module;
  // Any node that is there: what is asked of it is not NVIDIA's driver's.
  spec.gpu = env::gpu_access{{"/dev/zero"}, {}, {}};
  if (host_has({layer::seccomp}, "system calls of a child with a GPU")) {
    CHECK(in_sandbox(
              [] {
                std::thread other([] {});
                other.join();
                return 0;
              },
              spec) == 0);
    CHECK(in_sandbox([] { return memfd_create("memory", 0) >= 0 ? 0 : 1; }, spec) == 0);
    CHECK(in_sandbox([] { return mkdir("folder", 0700) == 0 ? 0 : 1; }, spec) == 0);
    // Refused, and it goes on: Python and its libraries try, and do without.
    CHECK(in_sandbox([] { return socket(AF_INET, SOCK_STREAM, 0) < 0 ? 0 : 1; }, spec) == 0);
    CHECK(in_sandbox([] { return fork() < 0 ? 0 : 1; }, spec) == 0);
    CHECK(in_sandbox([] { return kill(getppid(), 0) < 0 ? 0 : 1; }, spec) == 0);
    CHECK(in_sandbox([] { return unshare(CLONE_NEWNS) < 0 ? 0 : 1; }, spec) == 0);
    CHECK(in_sandbox(
              [] {
                execl("/bin/true", "true", nullptr);
                return 3;
              },
              spec) == 3);
    CHECK(in_sandbox([] { return ioctl(0, TIOCSTI, "x") < 0 ? 0 : 1; }, spec) == 0);
  }
  if (host_has({layer::landlock}, "files of a child with a GPU"))
    CHECK(in_sandbox([] { return open("/etc/passwd", O_RDONLY) < 0 ? 0 : 1; }, spec) == 0);
  if (host_has({layer::foreign_uid}, "its own /proc, where CUDA looks"))
    CHECK(in_sandbox([] { return open("/proc/self/maps", O_RDONLY) >= 0 ? 0 : 1; }, spec) == 0);
}

TEST_CASE("descriptors that are not named are closed, the others keep their numbers") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  auto spec = reference_spec();
  spec.keep = {{ends[1], 0}};
  CHECK(in_sandbox(
            [&] {
              const bool kept = fcntl(ends[1], F_GETFD) >= 0 && write(ends[1], "k", 1) == 1;
              const bool closed = fcntl(ends[0], F_GETFD) < 0;
              return kept && closed ? 0 : 1;
            },
            spec) == 0);
  char byte = 0;
  CHECK(read(ends[0], &byte, 1) == 1);
  close(ends[0]);
  close(ends[1]);
}

TEST_CASE("a control group made by the parent bounds its memory") {
  const auto place = env::probe_host().cgroups;
  if (place.version == 0) return skip("memory of a reference: no control groups");
  auto group = env::cgroup_leaf::create(place, 64 << 20, 8);
  REQUIRE(group.has_value());
  const int code = in_sandbox(
      [] {
        for (;;) {
          void* block = std::malloc(16 << 20);
          if (block == nullptr) return 1;
          std::memset(block, 1, 16 << 20);
          asm volatile("" : : "r"(block) : "memory");
        }
      },
      reference_spec(), &*group);
  CHECK(code == 200 + SIGKILL);
  CHECK(group->had_oom_kill());
  CHECK(group->remove());
}

TEST_CASE("a child that waits between the two steps sees the files that it was told late, alone") {
  const auto folder = base::temp_folder::make("late").value();
  const auto named = [&](const char* name) { return (folder.path() / name).string(); };
  std::filesystem::permissions(folder.path(), std::filesystem::perms::all);
  const auto& facts = env::probe_host();
  int go[2];
  REQUIRE(pipe(go) == 0);
  const pid_t pid = fork();
  if (pid == 0) {
    auto spec = reference_spec();
    spec.keep = {{go[0], 0}};
    auto entry = env::sandbox_entry::begin(spec, facts, env::sandbox_mode::best_effort, nullptr);
    char byte = 0;
    if (!entry || read(go[0], &byte, 1) != 1) _exit(150);
    // The control: the file that it is not told of is there until then.
    if (access(named("other").c_str(), R_OK) != 0) _exit(151);
    const auto layers = entry->complete({{named("own")}, {}, -1});
    if (!layers) _exit(152);
    const bool closed = fcntl(go[0], F_GETFD) < 0;
    const bool sees = open(named("own").c_str(), O_RDONLY) >= 0;
    const bool sees_other = open(named("other").c_str(), O_RDONLY) >= 0;
    const bool limited = layers->has(layer::landlock) || layers->has(layer::mountns);
    _exit(sees && closed && !(limited && sees_other) ? 0 : 1);
  }
  // Behind its fork, as a candidate's file is.
  for (const char* name : {"own", "other"}) {
    REQUIRE(base::write_file_atomic(named(name), "text"));
    std::filesystem::permissions(named(name), std::filesystem::perms::all);
  }
  REQUIRE(write(go[1], "g", 1) == 1);
  int status = 0;
  waitpid(pid, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  close(go[0]);
  close(go[1]);
}
