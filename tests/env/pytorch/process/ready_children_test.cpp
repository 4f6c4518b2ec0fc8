// Children of the warm Python that stand ready before they are asked for.
#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <span>

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/program.hpp"
#include "env/judge/core_lock.hpp"
#include "env/lanes/pytorch/module_task.hpp"
#include "env/lanes/pytorch/process/python_zygote.hpp"
#include "env/runner/warm_process.hpp"
#include "env/sandbox/probe.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::env;

namespace {

constexpr question_limits patient{60, 120};

const char* const fine = "import torch\n\n\nclass Model:\n    pass\n";

/// A warm Python of its own for a case; none: this machine has no Python with torch.
std::optional<python_zygote> warm_python() {
  if (const auto python = find_module_python(); !python) {
    test::skip(python.error().message);
    return std::nullopt;
  }
  auto made = python_zygote::start(sandbox_mode::best_effort);
  CAPTURE(made ? "" : made.error().message);
  REQUIRE(made);
  return std::move(*made);
}

std::vector<int> ready_of(python_zygote& zygote) {
  const auto ready = zygote.ready_children();
  CAPTURE(ready ? "" : ready.error().message);
  REQUIRE(ready);
  return *ready;
}

python_child forked(python_zygote& zygote, const python_start& how) {
  auto child = zygote.fork(how);
  CAPTURE(child ? "" : child.error().message);
  REQUIRE(child);
  return std::move(*child);
}

/// What a module of this text answers to `load` in a child with these limits; empty: it went well.
std::string complaint(python_zygote& zygote, const std::string& text, python_start how,
                      bool want_ready) {
  const auto file = write_module("module.py", text).value();
  how.read_only = {file.path.string()};
  python_child child = forked(zygote, how);
  CHECK(child.stood_ready() == want_ready);
  const auto loaded = child.load(file.path.string(), patient);
  if (loaded) return {};
  return loaded.error().failure_kind == runner_failure::kind::refused ? loaded.error().text
                                                                      : "it is gone";
}

bool is_alive(int pid) {
  const auto text = base::read_file("/proc/" + std::to_string(pid) + "/stat");
  if (!text) return false;
  const auto close = text->rfind(')');
  return close != std::string::npos && text->substr(close + 2, 1) != "Z";
}

bool ends_within_seconds(int pid, int seconds) {
  for (int i = 0; i < 100 * seconds && is_alive(pid); ++i)
    usleep(10'000);
  return !is_alive(pid);
}

/// What the kernel says of a locked-in process: its namespaces, filter, capabilities, privileges.
std::map<std::string, std::string> locks_of(int pid) {
  std::map<std::string, std::string> found;
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);)
    for (const char* name : {"Seccomp:", "Seccomp_filters:", "NoNewPrivs:", "CapEff:", "CapPrm:",
                             "CapBnd:", "CapAmb:"})
      if (line.starts_with(name)) found[name] = line.substr(std::string(name).size());
  for (const char* name : {"mnt", "net", "ipc", "uts", "user"}) {
    std::error_code failed;
    const auto at = [&](const std::string& whose) {
      return std::filesystem::read_symlink("/proc/" + whose + "/ns/" + name, failed).string();
    };
    found[name] = at(std::to_string(pid)) == at("self") ? "the host's" : "its own";
  }
  return found;
}

std::string limits_of(int pid) {
  return base::read_file("/proc/" + std::to_string(pid) + "/limits").value_or("unknown");
}

}  // namespace

TEST_CASE("a child that stands ready is taken, and replaced when that is asked for") {
  auto zygote = warm_python();
  if (!zygote) return;
  CHECK(ready_of(*zygote).empty());
  // The control: without an order each is forked when it is asked for.
  CHECK_FALSE(forked(*zygote, {}).stood_ready());

  zygote->prefork();
  const auto first = ready_of(*zygote);
  REQUIRE(first.size() == std::size_t{usual_children_ahead});
  for (const int pid : first) {
    CAPTURE(pid);
    python_child child = forked(*zygote, {});
    CHECK(child.stood_ready());
    CHECK(child.pid() == pid);
  }
  CHECK(ready_of(*zygote).empty());
  CHECK_FALSE(forked(*zygote, {}).stood_ready());

  zygote->prefork();
  for (const int pid : ready_of(*zygote))
    CHECK(std::ranges::find(first, pid) == first.end());
  CHECK(complaint(*zygote, fine, {}, true).empty());
  CHECK(ready_of(*zygote).size() == std::size_t{usual_children_ahead} - 1);
}

TEST_CASE("children that ended or stand still while they were ready are nobody's failure") {
  auto zygote = warm_python();
  if (!zygote) return;
  for (const int signal : {SIGKILL, SIGSEGV, SIGSTOP}) {
    CAPTURE(signal);
    zygote->prefork();
    const auto ready = ready_of(*zygote);
    REQUIRE(ready.size() == 2);
    kill(ready[0], signal);
    // The other one, though the dead one was the next.
    CHECK(complaint(*zygote, fine, {}, true).empty());
    CHECK(ready_of(*zygote).empty());
    CHECK(ends_within_seconds(ready[0], 10));
    // All of them: one is forked then.
    zygote->prefork();
    for (const int pid : ready_of(*zygote))
      kill(pid, signal);
    CHECK(complaint(*zygote, fine, {}, false).empty());
    // And the next order makes as many as ever.
    zygote->prefork();
    CHECK(ready_of(*zygote).size() == 2);
  }
}

TEST_CASE("a taken child has the limits that it was asked for") {
  auto zygote = warm_python();
  if (!zygote) return;
  const std::string hungry =
      std::string(fine) + "held = torch.ones(600 << 20, dtype=torch.uint8).sum().item()\n";
  zygote->prefork();
  // The control: with the limits of those that stand ready there is room.
  CHECK(complaint(*zygote, hungry, {}, true).empty());
  python_start small;
  small.memory_bytes = std::int64_t{512} << 20;
  CHECK_FALSE(complaint(*zygote, hungry, small, false).empty());

  // A limit for all, as `quern tasks check` has it: those with another one are let go.
  zygote->prefork();
  const auto roomy = ready_of(*zygote);
  REQUIRE(roomy.size() == 2);
  zygote->limit_memory(small.memory_bytes);
  CHECK_FALSE(complaint(*zygote, hungry, {}, false).empty());
  zygote->prefork();
  for (const int pid : ready_of(*zygote))
    CHECK(std::ranges::find(roomy, pid) == roomy.end());
  for (const int pid : roomy)
    CHECK(ends_within_seconds(pid, 10));
  CHECK_FALSE(complaint(*zygote, hungry, {}, true).empty());

  // The work folder is a limit of its own.
  python_start narrow;
  narrow.work_bytes = std::int64_t{1} << 20;
  CHECK_FALSE(forked(*zygote, narrow).stood_ready());

  // The core is told late.
  const auto cores = allowed_cores().value();
  for (const int core : {cores.front(), cores.back()}) {
    zygote->prefork();
    python_start pinned;
    pinned.core = core;
    python_child child = forked(*zygote, pinned);
    CHECK(child.stood_ready());
    cpu_set_t set;
    CPU_ZERO(&set);
    REQUIRE(sched_getaffinity(child.pid(), sizeof set, &set) == 0);
    CHECK(CPU_COUNT(&set) == 1);
    CHECK(CPU_ISSET(core, &set));
  }
}

TEST_CASE("a warm Python keeps off a core that measures, and its child may be put there") {
  const auto cores = allowed_cores().value();
  if (cores.size() < 2) return test::skip("there is one core");
  const base::measuring_core measures(cores.back());
  auto zygote = warm_python();
  if (!zygote) return;
  for (const int core : {-1, cores.back()}) {
    python_start how;
    how.core = core;
    const python_child child = forked(*zygote, how);
    cpu_set_t set;
    CPU_ZERO(&set);
    REQUIRE(sched_getaffinity(child.pid(), sizeof set, &set) == 0);
    CHECK(CPU_COUNT(&set) == (core < 0 ? static_cast<int>(cores.size()) - 1 : 1));
    CHECK((CPU_ISSET(cores.back(), &set) != 0) == (core >= 0));
  }
}

TEST_CASE("a taken child is locked in as one that was forked on demand") {
  auto zygote = warm_python();
  if (!zygote) return;
  const auto file = write_module("module.py", fine).value();
  const auto other = write_module("other.py", "secret = 1\n").value();
  python_start how;
  how.read_only = {file.path.string()};
  python_child on_demand = forked(*zygote, how);
  zygote->prefork();
  const auto standing = ready_of(*zygote);
  REQUIRE_FALSE(standing.empty());
  const int waiting = standing.front();
  const auto while_it_waits = locks_of(waiting);
  python_child ready = forked(*zygote, how);
  REQUIRE(ready.pid() == waiting);
  REQUIRE(on_demand.load(file.path.string(), patient));
  REQUIRE(ready.load(file.path.string(), patient));
  CHECK(ready.layers().bits() == on_demand.layers().bits());
  CHECK(locks_of(ready.pid()) == locks_of(on_demand.pid()));
  CHECK(limits_of(ready.pid()) == limits_of(on_demand.pid()));
  if (ready.layers().has(layer::seccomp)) {
    // The control: this looks at something. What waits is not locked in yet, and says so.
    CHECK(while_it_waits != locks_of(ready.pid()));
    CHECK(locks_of(ready.pid()).at("Seccomp:") == "\t2");
  }
  // Descriptors of the warm Python and of siblings are gone: its socket, and three to nowhere.
  for (python_child* child : {&on_demand, &ready}) {
    std::set<std::string> open;
    const std::string folder = "/proc/" + std::to_string(child->pid()) + "/fd";
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      open.insert(entry.path().filename());
    CHECK(open.size() == 4);
  }
  // It sees its own file, and nobody else's.
  zygote->prefork();
  const std::string reads = std::string(fine) + "open('" + other.path.string() + "').read()\n";
  for (const bool is_ready : {true, true, false})
    CHECK(test::contains(complaint(*zygote, reads, {}, is_ready), "Error"));
}

TEST_CASE("random numbers of torch are those of a child that was forked on demand") {
  auto zygote = warm_python();
  if (!zygote) return;
  const std::string draws = "import torch\nraise ValueError(torch.rand(3).tolist())\n";
  const std::string on_demand = complaint(*zygote, draws, {}, false);
  CHECK(test::contains(on_demand, "ValueError"));
  zygote->prefork();
  CHECK(complaint(*zygote, draws, {}, true) == on_demand);
}

TEST_CASE("no ready child is left when the warm Python ends, however it ends") {
  for (const bool killed : {false, true}) {
    CAPTURE(killed);
    std::vector<int> ready;
    {
      auto zygote = warm_python();
      if (!zygote) return;
      zygote->prefork(3);
      ready = ready_of(*zygote);
      REQUIRE(ready.size() == 3);
      for (const int pid : ready)
        CHECK(is_alive(pid));
      if (killed) {
        kill(zygote->pid(), SIGKILL);
        for (const int pid : ready)
          CHECK(ends_within_seconds(pid, 20));
        // What is asked of it now fails as unavailable.
        const auto none = zygote->fork({});
        REQUIRE_FALSE(none);
        CHECK(none.error().code == base::errc::unavailable);
      }
    }
    for (const int pid : ready)
      CHECK(ends_within_seconds(pid, 20));
  }
}

TEST_CASE("children are reaped before the warm Python is gone, and where nobody waits for it") {
  const auto python = find_module_python();
  if (!python) return test::skip(python.error().message);
  const std::string script =
      (base::share_folder("env/lanes/pytorch/process").value() / "zygote.py").string();
  const std::string library = (base::program_folder() / "libquern_python.so").string();
  const std::string no_gpu = R"({"without_memory": false, "gpu": null})";
  const std::string which = R"({"ready": true})";
  const std::string three =
      R"({"prefork": 3, "below": 3, "memory_bytes": 4294967296, "work_bytes": 1048576,
          "required": false, "compilers": false, "profiled": false})";
  const auto bytes = [](const std::string& text) { return std::as_bytes(std::span(text)); };
  for (const bool is_left : {false, true}) {
    CAPTURE(is_left);
    std::vector<int> ready;
    {
      auto parent = warm_process::start(
          {python->string(), script, library, no_gpu},
          {"LD_PRELOAD=" + library, "OMP_NUM_THREADS=1", "PATH=/usr/bin:/bin", "LC_ALL=C"},
          std::chrono::minutes(2));
      REQUIRE(parent);
      REQUIRE(parent->tell(bytes(three)));
      const auto told = parent->ask(bytes(which), {});
      REQUIRE(told);
      const base::json answer = base::parse_json(*told).value();
      for (const base::json& pid : answer.at("ready"))
        ready.push_back(pid.get<int>());
      REQUIRE(ready.size() == 3);
      // The answer meets a closed socket, or is never read.
      if (is_left) REQUIRE(parent->tell(bytes(which)));
    }
    // They would belong to the host's first process, which reaps them later or never.
    for (const int pid : ready)
      CHECK_FALSE(std::filesystem::exists("/proc/" + std::to_string(pid)));
  }
}

TEST_CASE("children of one warm Python are different users of this host") {
  auto zygote = warm_python();
  if (!zygote) return;
  const auto user_of = [](const python_child& child) {
    std::ifstream status("/proc/" + std::to_string(child.pid()) + "/status");
    for (std::string line; std::getline(status, line);)
      if (line.starts_with("Uid:")) return line;
    return std::string();
  };
  const python_child one = forked(*zygote, {}), other = forked(*zygote, {});
  const std::string own = "Uid:\t" + std::to_string(geteuid()) + "\t";
  // A host that cannot change users: all stay what the evaluator is.
  if (!probe_host().available.has(layer::foreign_uid)) {
    CHECK(user_of(one).starts_with(own));
    return;
  }
  CHECK_FALSE(user_of(one).starts_with(own));
  CHECK(user_of(one) != user_of(other));
}
