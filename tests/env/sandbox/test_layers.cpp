// What a sandboxed program cannot do, with all layers and with each way of having few.
#include <string>
#include <vector>

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.hpp"
#include "sandbox_fixture.hpp"

using namespace quern;
using namespace quern::test;
using env::layer;
using end_kind = env::child_end::kind;

namespace {

env::layer_set without(std::initializer_list<layer> removed) {
  env::layer_set left = env::layer_set::all();
  for (const layer item : removed)
    left.remove(item);
  return left;
}

}  // namespace

TEST_CASE("hostile system calls end a candidate with SIGSYS") {
  if (!host_has({layer::seccomp}, "system calls")) return;
  auto children = make_spawner();
  for (const char* name : {"fork", "socket", "unix-socket", "ptrace", "kill-parent", "kill-all",
                           "unshare", "memory-file", "io-uring", "clock", "core", "remount"}) {
    CAPTURE(name);
    const auto end = run(*children, deed(name)).end;
    CHECK(end.ending == end_kind::signalled);
    CHECK(end.code == SIGSYS);
  }
  CHECK(run(*children, deed("forget-parent")).end.code == 42);
}

TEST_CASE("the compiler's profile refuses the same with an error") {
  if (!host_has({layer::seccomp}, "system calls of the compiler")) return;
  auto children = make_spawner();
  for (const char* name :
       {"socket", "unix-socket", "ptrace", "unshare", "memory-file", "io-uring"}) {
    CAPTURE(name);
    auto spec = deed(name);
    spec.profile = env::syscall_profile::compiler;
    CHECK(run(*children, spec).end.code == 42);
  }
  auto spec = deed("fork");
  spec.profile = env::syscall_profile::compiler;
  spec.limits.processes = 4;
  CHECK(run(*children, spec).end.succeeded());
}

TEST_CASE("without the filter the namespaces still keep a candidate in") {
  if (!host_has({layer::pidns, layer::netns, layer::mountns}, "namespaces alone")) return;
  auto children = make_spawner(without({layer::seccomp, layer::landlock}));
  for (const char* name : {"kill-parent", "clock", "remount"}) {
    CAPTURE(name);
    CHECK(run(*children, deed(name)).end.code == 42);
  }
  CHECK(deeds_still_running().empty());
}

TEST_CASE("threads are a switch") {
  auto children = make_spawner();
  auto spec = deed("thread");
  spec.limits.processes = 4;
  if (host_has({layer::seccomp}, "no threads")) CHECK(run(*children, spec).end.code == 42);
  spec.threads = true;
  CHECK(run(*children, spec).end.succeeded());
}

TEST_CASE("files of the host are out of sight, and none can be written") {
  const auto secret = base::temp_folder::make("quern-secret");
  REQUIRE(secret.has_value());
  const std::string file = (secret->path() / "answers").string();
  REQUIRE(base::write_file_atomic(file, "42").has_value());
  chmod(secret->path().c_str(), 0777);
  chmod(file.c_str(), 0666);

  const auto check_with = [&](env::layer_set allowed) {
    auto children = make_spawner(allowed);
    CHECK(run(*children, deed("read", file)).end.code == 42);
    CHECK(run(*children, deed("read", "/etc/passwd")).end.code == 42);
    CHECK(run(*children, deed("read", "/etc/shadow")).end.code == 42);
    CHECK(run(*children, deed("write", file)).end.code == 42);
    CHECK(run(*children, deed("write", file + ".new")).end.code == 42);
    CHECK(run(*children, deed("write", "/usr/lib/quern-was-here")).end.code == 42);
    CHECK(run(*children, deed("write", "/quern-was-here")).end.code == 42);
    CHECK(run(*children, deed("execute", "/usr/bin/true")).end.code == 42);
    CHECK(run(*children, deed("write", "own")).end.succeeded());
    auto spec = deed("read", file);
    spec.read_only.push_back(file);
    CHECK(run(*children, spec).end.succeeded());
    spec.argv[1] = "write";
    CHECK(run(*children, spec).end.code == 42);
  };
  if (host_has({layer::mountns, layer::read_only_root}, "a read-only root alone"))
    check_with(without({layer::landlock}));
  if (host_has({layer::landlock}, "Landlock alone"))
    check_with(without({layer::mountns, layer::read_only_root}));
  if (host_has({layer::landlock, layer::mountns}, "both")) check_with(env::layer_set::all());
  CHECK(*base::read_file(file) == "42");
  CHECK_FALSE(std::filesystem::exists(file + ".new"));
}

TEST_CASE("it runs as a user of its own") {
  if (!host_has({layer::foreign_uid}, "foreign uid")) return;
  auto children = make_spawner(without({layer::userns}));
  if (!children->layers().has(layer::foreign_uid))
    return skip("foreign uid: only root has one without a user namespace");
  const auto first = run(*children, deed("uid")).out;
  const auto second = run(*children, deed("uid")).out;
  CHECK(std::stoul(first) >= 60578);
  CHECK(std::stoul(first) < 60578 + 600);
  CHECK(first != second);
}

TEST_CASE("each layer can be missing, and the report says so") {
  for (int i = 0; i < env::layer_count; ++i) {
    const auto which = static_cast<layer>(i);
    CAPTURE(env::name_of(which));
    auto children = make_spawner(without({which}));
    auto spec = deed("nothing");
    if (sanitised) spec.limits.memory_bytes = 0;
    const auto result = run(*children, spec);
    CHECK(result.end.succeeded());
    CHECK_FALSE(result.layers.has(which));
  }
  auto bare = make_spawner({});
  auto spec = deed("nothing");
  if (sanitised) spec.limits.memory_bytes = 0;
  const auto result = run(*bare, spec);
  CHECK(result.end.succeeded());
  CHECK(result.layers.names().empty());
}

TEST_CASE("required refuses and names what is missing and what to do") {
  env::host_facts facts = env::probe_host();
  facts.available = env::layer_set::all();
  CHECK(env::admit(facts, env::sandbox_mode::required).has_value());
  struct {
    env::layer_set removed;
    const char* named;
  } const cases[] = {{{layer::seccomp}, "seccomp"},
                     {{layer::seccomp, layer::netns}, "no network"},
                     {{layer::foreign_uid}, "foreign uid"},
                     {{layer::rlimits}, "resource limits"},
                     {{layer::landlock, layer::read_only_root}, "Landlock"}};
  for (const auto& item : cases) {
    auto poor = facts;
    for (int i = 0; i < env::layer_count; ++i)
      if (item.removed.has(static_cast<layer>(i))) poor.available.remove(static_cast<layer>(i));
    const auto refusal = env::admit(poor, env::sandbox_mode::required);
    REQUIRE_FALSE(refusal.has_value());
    CHECK(refusal.error().code == base::errc::unavailable);
    CHECK(refusal.error().message.find(item.named) != std::string::npos);
    CHECK(refusal.error().message.find("best_effort") != std::string::npos);
    CHECK(env::admit(poor, env::sandbox_mode::best_effort).has_value());
  }
  auto enough = facts;
  enough.address_limit = true;
  for (const layer item :
       {layer::landlock, layer::userns, layer::netns, layer::cgroup1, layer::cgroup2, layer::pidns})
    enough.available.remove(item);
  CHECK(env::admit(enough, env::sandbox_mode::required).has_value());
}

TEST_CASE("required needs one memory bound that works, and whatever has a GPU a control group") {
  const auto required = env::sandbox_mode::required;
  const auto on_gpu = env::sandboxed_code::on_gpu;
  const auto host_entry = env::sandboxed_code::host_code_on_gpu;
  const auto says = [](const base::status& refused, const char* text) {
    return !refused.has_value() && refused.error().code == base::errc::unavailable &&
           refused.error().message.find(text) != std::string::npos;
  };
  env::host_facts facts;
  facts.available = env::layer_set::all();
  facts.address_limit = false;
  facts.why_missing.emplace(layer::cgroup2, "nobody made one");
  // A control group is enough for all.
  facts.available.remove(layer::cgroup1);
  CHECK(env::admit(facts, required).has_value());
  CHECK(env::admit(facts, required, on_gpu).has_value());
  CHECK(env::admit(facts, required, host_entry).has_value());
  facts.available.remove(layer::cgroup2);
  CHECK(says(env::admit(facts, required), "a memory bound"));
  CHECK(says(env::admit(facts, required), "nobody made one"));
  CHECK(says(env::admit(facts, required), env::advice_for(layer::cgroup2).data()));
  CHECK(says(env::admit(facts, required, host_entry), "a memory bound"));
  CHECK(env::admit(facts, env::sandbox_mode::best_effort).has_value());
  // A limit of addresses is one, but not for who reserves them by the terabyte.
  facts.address_limit = true;
  CHECK(env::admit(facts, required).has_value());
  for (const auto what : {on_gpu, host_entry}) {
    const auto refused = env::admit(facts, required, what);
    CHECK(says(refused, "a memory bound (a control group"));
    CHECK(says(refused, "RLIMIT_AS"));
    CHECK(says(refused, env::advice_for(layer::cgroup2).data()));
    // Plans alone need references, too.
    CHECK_FALSE(says(refused, "env.host_entry"));
    CHECK(env::admit(facts, env::sandbox_mode::best_effort, what).has_value());
  }
  // … unless nobody sets it.
  facts.available.remove(layer::rlimits);
  CHECK(says(env::admit(facts, required), "a memory bound"));
}

TEST_CASE(
    "host code of a GPU is refused without Landlock, other code needs a read-only root then") {
  env::host_facts facts;
  facts.available = env::layer_set::all();
  facts.available.remove(layer::landlock);
  CHECK(env::admit(facts, env::sandbox_mode::required).has_value());
  const auto refused =
      env::admit(facts, env::sandbox_mode::required, env::sandboxed_code::host_code_on_gpu);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().message.find("Landlock") != std::string::npos);
  CHECK(refused.error().message.find("env.host_entry: false") != std::string::npos);
  CHECK(env::admit(facts, env::sandbox_mode::required, env::sandboxed_code::on_gpu).has_value());
}

TEST_CASE("what is said of a host tells devices and forms apart") {
  env::host_facts facts;
  facts.available = env::layer_set::all();
  const auto admitted = [&](bool gpu) {
    std::vector<bool> all;
    for (const auto& item : env::admissions(facts, gpu))
      all.push_back(item.admitted.has_value());
    return all;
  };
  CHECK(admitted(false) == std::vector{true});
  CHECK(admitted(true) == std::vector{true, true, true});
  facts.available.remove(layer::landlock);
  CHECK(admitted(true) == std::vector{true, true, false});
  facts.available.remove(layer::cgroup1);
  facts.available.remove(layer::cgroup2);
  CHECK(admitted(false) == std::vector{true});
  // Why there is no memory bound is not said twice.
  CHECK(admitted(true) == std::vector{true, false});
}

TEST_CASE("a spawner with required starts no child with a GPU that nothing keeps from memory") {
  auto strict =
      env::spawner::create(env::sandbox_mode::required, without({layer::cgroup1, layer::cgroup2}));
  if (!strict) return skip("required, without control groups: " + strict.error().message);
  auto spec = deed("nothing");
  CHECK((*strict)->spawn(spec).has_value());
  spec.gpu.emplace().devices = {"/dev/zero"};
  spec.profile = env::syscall_profile::gpu;
  const auto refused = (*strict)->spawn(spec);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == base::errc::unavailable);
  CHECK(make_spawner(without({layer::cgroup1, layer::cgroup2}))->spawn(spec).has_value());
  if (!has_control_groups()) return skip("this host has no control groups");
  CHECK(env::spawner::create(env::sandbox_mode::required).value()->spawn(spec).has_value());
}

TEST_CASE("a limit of addresses that this host claims to keep is kept in a child") {
  const auto& facts = env::probe_host();
  if (!facts.address_limit) {
    quern::test::skip("this system does not keep RLIMIT_AS");
    return;
  }
  auto children = make_spawner(without({layer::cgroup1, layer::cgroup2}));
  CHECK(run(*children, deed("addresses")).end.code == 42);
}

TEST_CASE("children die with the process that made them, also when it is killed") {
  int from_grandchild[2];
  REQUIRE(pipe2(from_grandchild, O_CLOEXEC) == 0);
  const pid_t middle = fork();
  if (middle == 0) {
    auto children = env::spawner::create(env::sandbox_mode::best_effort);
    auto spec = deed("sleep");
    spec.keep = {{from_grandchild[1], 5}};  // end-of-file tells when it is gone
    auto child = (*children)->spawn(spec);
    const char byte = child ? 'y' : 'n';
    if (write(from_grandchild[1], &byte, 1) != 1) _exit(1);
    for (;;)
      pause();
  }
  close(from_grandchild[1]);
  char byte = 0;
  REQUIRE(read(from_grandchild[0], &byte, 1) == 1);
  CHECK(byte == 'y');
  kill(middle, SIGKILL);
  waitpid(middle, nullptr, 0);
  CHECK(read(from_grandchild[0], &byte, 1) == 0);
  close(from_grandchild[0]);
  // The killed process could not remove its control groups; the next spawner does.
  auto next = make_spawner();
  const auto place = env::probe_host().cgroups;
  if (place.version != 0) {
    bool left = false;
    for (const auto& item : std::filesystem::directory_iterator(place.memory))
      left = left || item.path().filename().string().starts_with("quern-" + std::to_string(middle));
    CHECK_FALSE(left);
  }
}

TEST_CASE("a descriptor tells a child that its parent is gone") {
  auto children = make_spawner();
  auto spec = deed("wait-for-end", "8");
  spec.life_as = 8;
  auto child = children->spawn(spec);
  REQUIRE(child.has_value());
  CHECK_FALSE((*child)->wait(0.05).has_value());
}
