// The sandbox of processes that use a GPU, as far as it can be tried without one: profile, devices,
// /proc, limits, and how the driver is found.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "base/random.hpp"
#include "env/sandbox/gpu_access.hpp"
#include "sandbox_fixture.hpp"
#include "syscall_trace.hpp"

using namespace quern;
using namespace quern::test;
using env::layer;
using end_kind = env::child_end::kind;

namespace {

// /dev/zero stands for a GPU: a device that may be written.
env::child_spec gpu_deed(std::string name, std::string argument = "") {
  auto spec = deed(std::move(name), std::move(argument));
  spec.profile = env::syscall_profile::gpu;
  spec.gpu.emplace();
  spec.gpu->devices = {"/dev/zero", "/dev/nvidia-that-is-not-there"};
  spec.limits.processes = 8;
  return spec;
}

env::layer_set all_but(std::initializer_list<layer> removed) {
  env::layer_set left = env::layer_set::all();
  for (const layer item : removed)
    left.remove(item);
  return left;
}

// A loader cache with these (flags, library, path).
struct cache_line {
  std::uint32_t flags;
  std::string library, path;
};

std::string make_cache(const std::vector<cache_line>& lines) {
  std::string head = "glibc-ld.so.cache1.1";
  const auto number = [](std::uint64_t value, std::size_t bytes) {
    return std::string(reinterpret_cast<const char*>(&value), bytes);
  };
  head += number(lines.size(), 4) + std::string(24, '\0');
  std::string entries, strings;
  const std::size_t strings_at = 48 + 24 * lines.size();
  for (const auto& line : lines) {
    const auto put = [&](const std::string& text) {
      const std::size_t at = strings_at + strings.size();
      strings += text + '\0';
      return number(at, 4);
    };
    entries += number(line.flags, 4) + put(line.library) + put(line.path) + std::string(12, '\0');
  }
  return head + entries + strings;
}

#if defined(__aarch64__)
constexpr std::uint32_t native = 0x0A03;
#else
constexpr std::uint32_t native = 0x0303;
#endif

}  // namespace

TEST_CASE("what sees the node of a device can lock none of its bytes, on which evaluators wait") {
  if (!host_has({layer::seccomp}, "locks of bytes")) return;
  auto children = make_spawner();
  for (const auto profile : {env::syscall_profile::gpu, env::syscall_profile::gpu_compiler}) {
    auto spec = gpu_deed("lock-bytes", "/dev/zero");
    spec.profile = profile;
    CHECK(run(*children, spec).end.code == 42);
  }
  // The control: who sees no device may lock what is its own.
  CHECK(run(*children, deed("lock-bytes", "/dev/null")).end.code == 0);
}

TEST_CASE("profile gpu: what CUDA needs works") {
  const auto check_with = [](env::layer_set allowed) {
    auto children = make_spawner(allowed);
    for (const char* name :
         {"thread", "memory-file", "bind-memory", "thread-name", "unix-socket"}) {
      CAPTURE(name);
      CHECK(run(*children, gpu_deed(name)).end.text() == "exit status 0");
    }
    CHECK(run(*children, gpu_deed("open-device", "/dev/zero")).end.succeeded());
  };
  SUBCASE("all layers") {
    check_with(env::layer_set::all());
  }
  SUBCASE("without a mount namespace") {
    check_with(all_but({layer::mountns}));
  }
  SUBCASE("without Landlock") {
    check_with(all_but({layer::landlock}));
  }
  SUBCASE("without a pid namespace") {
    check_with(all_but({layer::pidns}));
  }
}

TEST_CASE("profile gpu: what the driver's library may try is refused, the rest ends the process") {
  if (!host_has({layer::seccomp}, "system calls of profile gpu")) return;
  auto children = make_spawner();
  for (const char* name : {"fork", "socket", "kill-parent", "kill-all", "core"}) {
    CAPTURE(name);
    CHECK(run(*children, gpu_deed(name)).end.text() == "exit status 42");
  }
  for (const char* name : {"ptrace", "unshare", "io-uring", "clock", "remount"}) {
    CAPTURE(name);
    const auto end = run(*children, gpu_deed(name)).end;
    CHECK(end.ending == end_kind::signalled);
    CHECK(end.code == SIGSYS);
  }
}

TEST_CASE("profile gpu: orders to devices are those of NVIDIA's driver") {
  if (!host_has({layer::seccomp, layer::mountns}, "ioctl")) return;
  auto children = make_spawner();
  // RM (type 'F'), unified memory: small numbers and its own two.
  for (const char* order : {"0xc020462a", "0xc00846d6", "0x25", "0x4b", "0x30000001"}) {
    CAPTURE(order);
    CHECK(run(*children, gpu_deed("order", order)).end.text() == "exit status 0");
  }
  // Terminals (also with more bits than Linux looks at), file systems, networks.
  for (const char* order : {"0x5412", "0x100005412", "0x541c", "0x5401", "0x40086602", "0x8913"}) {
    CAPTURE(order);
    CHECK(run(*children, gpu_deed("order", order)).end.text() == "exit status 42");
  }
}

TEST_CASE("devices are open to orders only where the spec says so") {
  if (!host_has({layer::landlock}, "devices")) return;
  auto children = make_spawner();
  CHECK(run(*children, gpu_deed("open-device", "/dev/full")).end.code == 42);
  CHECK(run(*children, gpu_deed("open-device", "/dev/nvidia-that-is-not-there")).end.code == 42);
  auto plain = deed("open-device", "/dev/zero");
  CHECK(run(*children, plain).end.code == 42);
  CHECK(run(*children, gpu_deed("write", "/proc/sys/kernel/hostname")).end.code == 42);
  CHECK(run(*children, gpu_deed("write", "/proc/new")).end.code == 42);
}

TEST_CASE("a process can write its own text through /proc until it is locked, by any thread") {
  if (!host_has({layer::seccomp, layer::landlock, layer::foreign_uid}, "the lock of files")) return;
  struct row {
    const char *locks, *said;
  };
  const row rows[] = {{"none", "other thread yes, own yes"},
                      {"undumpable", "other thread no, own no"},
                      // Landlock binds one thread: alone it leaves the driver's to a candidate.
                      {"landlock", "other thread yes, own no"},
                      {"both", "other thread no, own no"},
                      {"required", "other thread no, own no"}};
  const auto check_with = [&](env::layer_set allowed) {
    auto children = make_spawner(allowed);
    for (const auto& [locks, said] : rows) {
      CAPTURE(locks);
      const auto result = run(*children, gpu_deed("text", locks));
      CHECK(result.end.text() == "exit status 0");
      CHECK(result.out == said);
    }
  };
  SUBCASE("all layers") {
    check_with(env::layer_set::all());
  }
  SUBCASE("without a mount namespace") {
    check_with(all_but({layer::mountns}));
  }
}

TEST_CASE("behind the lock of files nodes can be opened anew, and nothing else be written") {
  if (!host_has({layer::seccomp, layer::landlock, layer::foreign_uid}, "the lock of files")) return;
  auto children = make_spawner();
  const auto result = run(*children, gpu_deed("nodes", "/dev/zero"));
  CAPTURE(result.out);
  CHECK(result.end.text() == "exit status 0");
}

TEST_CASE("/proc shows the child and nobody else") {
  if (!host_has({layer::mountns, layer::pidns}, "/proc")) return;
  auto children = make_spawner();
  const auto result = run(*children, gpu_deed("processes"));
  REQUIRE(result.end.succeeded());
  CHECK(result.out == "1");
  CHECK(run(*children, deed("processes")).end.code == 42);  // there is none without a GPU
  // In the host's pid namespace it is hidden who else there is.
  auto no_pids = make_spawner(all_but({layer::pidns}));
  if (no_pids->layers().has(layer::foreign_uid)) {
    const auto seen = run(*no_pids, gpu_deed("processes"));
    REQUIRE(seen.end.succeeded());
    CHECK(std::stoi(seen.out) <= 2);
  }
}

TEST_CASE("addresses are not limited where CUDA runs, and are elsewhere without a control group") {
  auto children = make_spawner(all_but({layer::cgroup1, layer::cgroup2}));
  CHECK(run(*children, gpu_deed("addresses")).end.succeeded());
  if (children->layers().has(layer::rlimits) && !sanitised)
    CHECK(run(*children, deed("addresses")).end.code == 42);
}

TEST_CASE("the loader's cache tells where a library of this architecture lies") {
  const std::string cache = make_cache({{0x0003, "libcuda.so.1", "/usr/lib32/libcuda.so.1"},
                                        {native, "libc.so.6", "/lib/libc.so.6"},
                                        {native, "libcuda.so.1", "/drivers/libcuda.so.1"}});
  CHECK(env::find_in_loader_cache(cache, "libcuda.so.1") == "/drivers/libcuda.so.1");
  CHECK(env::find_in_loader_cache(cache, "libc.so.6") == "/lib/libc.so.6");
  CHECK(env::find_in_loader_cache(cache, "libnot.so") == "");
  CHECK(env::find_in_loader_cache("", "libc.so.6") == "");
  // The cache of this host names its C library.
  if (const auto own = base::read_file("/etc/ld.so.cache"))
    CHECK(env::find_in_loader_cache(*own, "libc.so.6").ends_with("/libc.so.6"));
}

TEST_CASE("a damaged loader cache is no reason to fall") {
  const std::string whole = make_cache(
      {{native, "libc.so.6", "/lib/libc.so.6"}, {native, "libcuda.so.1", "/drivers/libcuda.so.1"}});
  base::random_stream random(23, "loader cache", {0});
  int right = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string cache = whole.substr(0, random.below(whole.size() + 1));
    for (std::uint64_t k = random.below(4); k > 0 && !cache.empty(); --k)
      cache[random.below(cache.size())] = static_cast<char>(random.below(256));
    const auto found = env::find_in_loader_cache(cache, "libcuda.so.1");
    REQUIRE(found.size() <= cache.size());
    right += found == "/drivers/libcuda.so.1" ? 1 : 0;
  }
  CHECK(right > 0);
}

TEST_CASE("what a child was refused can be listed") {
  if (!host_has({layer::seccomp, layer::mountns}, "refused calls")) return;
  auto children = make_spawner();
  const auto traced = [&](const std::string& name, const std::string& argument) {
    // It waits for the end of a pipe, so that it is followed before it does anything.
    int ends[2];
    REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
    base::unique_fd read_end(ends[0]), write_end(ends[1]);
    auto spec = gpu_deed(name, argument);
    spec.argv.emplace_back("4");
    spec.keep = {{read_end.get(), 4}};
    auto child = children->spawn(spec);
    REQUIRE_MESSAGE(child.has_value(), (child ? "" : child.error().message));
    auto trace = trace_child((*child)->pid(), [&] { write_end.reset(); });
    const auto end = (*child)->wait(60);
    REQUIRE(end.has_value());
    return std::pair(trace, *end);
  };
  const auto [file, file_end] = traced("read", "/etc/passwd");
  if (!file.problem.empty()) return skip("this user may not trace: " + file.problem);
  CHECK(file_end.text() == "exit status 42");
  CHECK(std::any_of(file.refused.begin(), file.refused.end(), [](const auto& call) {
    return contains(call.name, "open") && call.path == "/etc/passwd" && call.error == "ENOENT";
  }));
  const auto [network, network_end] = traced("socket", "");
  CHECK(std::any_of(network.refused.begin(), network.refused.end(), [](const auto& call) {
    return contains(call.name, "socket") && call.error == "EPERM" && call.times == 1;
  }));
  // A call that ended it is the one that it was making.
  const auto [killed, killed_end] = traced("ptrace", "");
  CHECK(killed_end.code == SIGSYS);
  CHECK(contains(killed.last_call, "ptrace"));
}

TEST_CASE("without a driver its paths are an error that says so") {
  if (std::filesystem::exists("/dev/nvidiactl")) return skip("an NVIDIA driver is loaded here");
  const auto paths = env::gpu_sandbox_paths();
  REQUIRE_FALSE(paths.has_value());
  CHECK(paths.error().code == base::errc::unavailable);
  CHECK(contains(paths.error().message, "/dev/nvidiactl"));
}
