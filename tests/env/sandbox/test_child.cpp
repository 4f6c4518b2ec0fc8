// Children: how they end, what they may use, and that nothing is left of them.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/measuring_cores.hpp"
#include "env/judge/core_lock.hpp"
#include "env/sandbox/launch.hpp"
#include "env/sandbox/layout.hpp"
#include "sandbox_fixture.hpp"

using namespace quern;
using namespace quern::test;
using end_kind = env::child_end::kind;

TEST_CASE("a child ends with its own status, and its end can be read again") {
  auto children = make_spawner();
  const auto result = run(*children, deed("exit", "7"));
  CHECK(result.end.ending == end_kind::exited);
  CHECK(result.end.code == 7);
  CHECK(result.end.text() == "exit status 7");
  CHECK(result.layers == children->layers());

  auto child = children->spawn(deed("nothing"));
  REQUIRE(child.has_value());
  REQUIRE((*child)->wait(20).has_value());
  CHECK((*child)->wait(0)->succeeded());
  CHECK((*child)->kill().succeeded());
}

TEST_CASE("children of one layout have code, stack and libraries at the same addresses") {
  // In a process of its own: this one keeps its addresses as they are drawn.
  const pid_t asking = ::fork();
  if (asking == 0) ::_exit(env::ask_for_fixed_layout() ? 0 : 1);
  int allowed = 1;
  ::waitpid(asking, &allowed, 0);
  if (allowed != 0) return skip("this host lets no process have a fixed layout");
  auto children = make_spawner();
  auto spec = deed("print-addresses");
  const std::string one = run(*children, spec).out;
  const std::string another = run(*children, spec).out;
  spec.fixed_layout = true;
  const std::string fixed = run(*children, spec).out;
  REQUIRE_FALSE(fixed.empty());
  for (int i = 0; i < 5; ++i)
    CHECK(run(*children, spec).out == fixed);
  // The control, on a host that draws addresses.
  if (!base::read_file("/proc/sys/kernel/randomize_va_space").value_or("").starts_with('0'))
    CHECK(one != another);
}

TEST_CASE("faults and aborts are signals") {
  auto children = make_spawner();
  const auto fault = run(*children, deed("fault")).end;
  CHECK(fault.ending == end_kind::signalled);
  CHECK(fault.code == SIGSEGV);
  CHECK(run(*children, deed("abort")).end.ending == end_kind::signalled);
}

TEST_CASE("an endless loop ends at the wall clock, though nobody waits") {
  auto children = make_spawner();
  auto spec = deed("sleep");
  spec.limits.wall_s = 2;
  auto child = children->spawn(spec);
  REQUIRE(child.has_value());
  CHECK_FALSE((*child)->wait(0).has_value());
  pollfd item{(*child)->pidfd(), POLLIN, 0};
  CHECK(poll(&item, 1, 20000) == 1);
  CHECK((*child)->wait(0)->ending == end_kind::timed_out);
  CHECK(deeds_still_running().empty());
}

TEST_CASE("an endless loop ends at its CPU time") {
  if (!host_has({env::layer::rlimits}, "CPU time")) return;
  auto children = make_spawner();
  auto spec = deed("loop");
  spec.limits.cpu_s = 1;
  const auto end = run(*children, spec).end;
  CHECK(end.ending == end_kind::timed_out);
}

TEST_CASE("kill ends a child and its whole tree") {
  auto children = make_spawner();
  auto child = children->spawn(deed("sleep"));
  REQUIRE(child.has_value());
  CHECK((*child)->kill().ending == end_kind::killed);

  for (const bool with_pid_namespace : {true, false}) {
    env::layer_set allowed = env::layer_set::all();
    if (!with_pid_namespace) allowed.remove(env::layer::pidns);
    auto others = make_spawner(allowed);
    auto spec = deed("descendants");
    spec.profile = env::syscall_profile::compiler;
    spec.limits.processes = 16;
    CHECK(run(*others, spec).end.succeeded());
    CHECK(deeds_still_running().empty());
  }
  CHECK(control_groups_left().empty());
}

TEST_CASE(
    "a stopped child stands still with all its threads, goes on, and can be killed as it is") {
  auto children = make_spawner();
  auto spawned = children->spawn(deed("loop"));
  REQUIRE(spawned.has_value());
  auto& child = **spawned;
  const auto ticks = [&] {
    // utime and stime, fields 14 and 15; the name in field 2 may hold spaces.
    const std::string text =
        base::read_file("/proc/" + std::to_string(child.pid()) + "/stat").value();
    std::istringstream rest(text.substr(text.rfind(')') + 2));
    std::string word;
    long user = 0, system = 0;
    for (int field = 3; field < 14; ++field)
      rest >> word;
    rest >> user >> system;
    return user + system;
  };
  const auto wait_for_ticks = [&](long more) {
    const long from = ticks();
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (ticks() < from + more && std::chrono::steady_clock::now() < until)
      std::this_thread::yield();
    REQUIRE(ticks() >= from + more);
  };
  wait_for_ticks(1);
  for (int i = 0; i < 3; ++i) {
    child.stop();
    child.stop();
    const long then = ticks();
    // Time for ten more of them, had it gone on.
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    CHECK(ticks() == then);
    child.go_on();
    wait_for_ticks(1);
  }
  child.stop();
  CHECK(child.kill().ending == end_kind::killed);
  child.stop();
  child.go_on();
  CHECK(deeds_still_running().empty());
}

TEST_CASE("dropping the handle and dropping the spawner leave nothing behind") {
  {
    auto children = make_spawner();
    auto first = children->spawn(deed("sleep"));
    auto second = children->spawn(deed("sleep"));
    REQUIRE(first.has_value());
    REQUIRE(second.has_value());
    first->reset();
    CHECK(deeds_still_running().size() == 1);
    children.reset();
    CHECK(deeds_still_running().empty());
    CHECK((*second)->wait(20)->ending == end_kind::killed);
  }
  CHECK(control_groups_left().empty());
}

TEST_CASE("memory is bounded") {
  auto children = make_spawner();
  auto spec = deed("memory");
  spec.limits.memory_bytes = 64 << 20;
  const auto end = run(*children, spec).end;
  if (children->layers().has(env::layer::cgroup1) || children->layers().has(env::layer::cgroup2)) {
    CHECK(end.ending == end_kind::signalled);
    CHECK(end.out_of_memory);
    CHECK(end.peak_bytes <= 80 << 20);
  } else {
    CHECK(end.code == 42);
  }
  CHECK(control_groups_left().empty());

  // A sanitiser needs all addresses.
  if (sanitised) return skip("memory without control groups: this build has a sanitiser");
  env::layer_set allowed = env::layer_set::all();
  allowed.remove(env::layer::cgroup1);
  allowed.remove(env::layer::cgroup2);
  auto without = make_spawner(allowed);
  spec.limits.memory_bytes = 256 << 20;
  CHECK(run(*without, spec).end.code == 42);
}

TEST_CASE("a gigabyte of output neither blocks nor fills memory") {
  auto children = make_spawner();
  for (const std::string fd : {"1", "2"}) {
    const auto result = run(*children, deed("flood", fd));
    CHECK(result.end.code == 42);
    CHECK(result.out.size() + result.err.size() <= 64 << 10);
  }
}

TEST_CASE("files are bounded, one by one and together") {
  if (!host_has({env::layer::mountns}, "size of the work folder")) return;
  auto children = make_spawner();
  auto spec = deed("fill-work");
  spec.limits.work_bytes = 4 << 20;
  CHECK(run(*children, spec).end.code == 42);
}

TEST_CASE("processes are bounded where they are allowed at all") {
  auto children = make_spawner();
  auto spec = deed("fork-bomb");
  spec.profile = env::syscall_profile::compiler;
  spec.limits.processes = 10;
  const auto result = run(*children, spec);
  const bool groups =
      children->layers().has(env::layer::cgroup1) || children->layers().has(env::layer::cgroup2);
  if (groups || children->layers().has(env::layer::foreign_uid)) {
    CHECK(result.end.code == 42);
    CHECK(std::stoi(result.out) < (groups ? 10 : 50));
  } else {
    skip("number of processes: neither control groups nor a foreign uid");
  }
  CHECK(deeds_still_running().empty());
}

TEST_CASE("a child keeps off a core that measures, unless it is what is measured there") {
  const auto all = env::allowed_cores().value();
  if (all.size() < 2) return skip("there is one core");
  auto children = make_spawner();
  const auto cores_of = [&](int core) {
    auto spec = deed("print-cores");
    spec.core = core;
    return run(*children, spec).out;
  };
  const std::string everywhere = fmt::format("{} ", fmt::join(all, " "));
  CHECK(cores_of(-1) == everywhere);
  {
    const base::measuring_core measures(all.back());
    const std::vector<int> others(all.begin(), all.end() - 1);
    CHECK(cores_of(-1) == fmt::format("{} ", fmt::join(others, " ")));
    CHECK(cores_of(all.back()) == fmt::format("{} ", all.back()));
  }
  CHECK(cores_of(-1) == everywhere);
}

TEST_CASE("the work folder is shared with the parent and outlives the child") {
  auto children = make_spawner();
  auto spec = deed("sleep");
  auto child = children->spawn(spec);
  REQUIRE(child.has_value());
  (*child)->kill();
  CHECK(fcntl((*child)->work_folder(), F_GETFD) >= 0);

  // The deed reads on start, so let it wait for end-of-file on a pipe of ours first: not needed, as
  // exec has happened but the file may come late; retry until it found the file.
  bool answered = false;
  for (int i = 0; i < 50 && !answered; ++i) {
    auto greeter = children->spawn(deed("greet"));
    REQUIRE(greeter.has_value());
    const int fd = openat((*greeter)->work_folder(), "greeting", O_CREAT | O_WRONLY, 0644);
    REQUIRE(fd >= 0);
    CHECK(write(fd, "hello", 5) == 5);
    close(fd);
    const auto end = (*greeter)->wait(20);
    REQUIRE(end.has_value());
    const int answer = openat((*greeter)->work_folder(), "answer", O_RDONLY);
    char text[16] = {};
    answered = answer >= 0 && read(answer, text, sizeof text) == 5 && std::string(text) == "hello";
    if (answer >= 0) close(answer);
  }
  CHECK(answered);
}

TEST_CASE("only the named descriptors survive, in the named places") {
  auto children = make_spawner();
  int pipe_ends[2];
  REQUIRE(pipe(pipe_ends) == 0);  // on purpose without O_CLOEXEC
  auto spec = deed("descriptors");
  CHECK(run(*children, spec).out == "0 1 2 ");
  spec.keep = {{pipe_ends[1], 3}, {pipe_ends[0], 9}};
  CHECK(run(*children, spec).out == "0 1 2 3 9 ");
  close(pipe_ends[0]);
  close(pipe_ends[1]);
}

namespace {

/// The number of a process's controlling terminal: 0 is none, -1 is no such process.
int terminal_of(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  if (!std::getline(file, line)) return -1;
  // Behind the name in brackets: state, parent, group, session, terminal.
  std::istringstream rest(line.substr(line.rfind(')') + 1));
  std::string state;
  int parent = 0, group = 0, session = 0, terminal = -1;
  rest >> state >> parent >> group >> session >> terminal;
  return terminal;
}

/// In a session with a terminal of its own: 0, or what a sandboxed child of it has of the terminal.
int child_at_a_terminal() {
  if (setsid() < 0) return 2;
  const int master = posix_openpt(O_RDWR | O_NOCTTY);
  if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0) return 2;
  if (open(ptsname(master), O_RDWR) < 0) return 2;
  if (terminal_of(getpid()) <= 0) return 3;
  auto children = make_spawner();
  auto child = children->spawn(deed("sleep"));
  if (!child) return 4;
  return terminal_of((*child)->pid()) == 0 ? 0 : 1;
}

}  // namespace

TEST_CASE("a child has no terminal, though the evaluator has one") {
  const pid_t pid = fork();
  if (pid == 0) _exit(child_at_a_terminal());
  REQUIRE(pid > 0);
  int status = 0;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  REQUIRE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 2)
    return skip("a child's terminal: this host lends no pseudoterminal");
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("a child is in a group of its own and in the evaluator's session") {
  auto children = make_spawner();
  auto child = children->spawn(deed("sleep"));
  REQUIRE(child.has_value());
  const int pid = (*child)->pid();
  CHECK(getpgid(pid) == pid);
  // Another session would be another share of the processor, within which alone its priority
  // counts.
  CHECK(getsid(pid) == getsid(0));
}

TEST_CASE("a wrong request is refused with its reason") {
  auto children = make_spawner();
  CHECK_FALSE(children->spawn({}).has_value());
  auto spec = deed("nothing");
  spec.argv[0] = "deed";
  CHECK(children->spawn(spec).error().message.find("absolute path") != std::string::npos);
  spec = deed("nothing");
  spec.argv[0] = "/nowhere/deed";
  CHECK(children->spawn(spec).error().message.find("/nowhere/deed") != std::string::npos);
  spec = deed("nothing");
  spec.read_only.push_back("/");
  CHECK_FALSE(children->spawn(spec).has_value());
  spec = deed("nothing");
  spec.keep = {{0, 1}};
  CHECK_FALSE(children->spawn(spec).has_value());
  CHECK(control_groups_left().empty());
}

TEST_CASE("a child that dies before it is let go is an error, and no signal to this process") {
  env::child_spec spec;
  auto plan = env::make_setup_plan(spec, {}, 0, false);
  REQUIRE(plan.has_value());
  auto child = env::clone_embryo(*plan, nullptr, nullptr);
  REQUIRE_MESSAGE(child.has_value(), (child ? "" : child.error().message));
  REQUIRE(::kill(child->pid, SIGKILL) == 0);
  siginfo_t ended{};
  REQUIRE(waitid(P_PID, static_cast<id_t>(child->pid), &ended, WEXITED | WNOWAIT) == 0);
  // SIGPIPE would end this program.
  const auto born = env::release(*child, *plan, nullptr, nullptr);
  REQUIRE_FALSE(born.has_value());
  CHECK(contains(born.error().message, "ended before it began"));
}

TEST_CASE("a child has the default of signals that this process ignores") {
  const auto pipe = ::signal(SIGPIPE, SIG_IGN), size = ::signal(SIGXFSZ, SIG_IGN);
  auto children = make_spawner();
  CHECK(run(*children, deed("default-signals")).end.succeeded());
  ::signal(SIGPIPE, pipe);
  ::signal(SIGXFSZ, size);
}

TEST_CASE("many children side by side") {
  auto children = make_spawner();
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 10; ++i) {
        auto child = children->spawn(deed("exit", "5"));
        const auto end = child ? (*child)->wait(30) : std::nullopt;
        if (end && end->ending == end_kind::exited && end->code == 5)
          ++good;
        else
          std::fprintf(stderr, "%s\n",
                       child ? (end ? end->text() + (*child)->captured_err() : "still runs").c_str()
                             : child.error().message.c_str());
      }
    });
  for (auto& thread : threads)
    thread.join();
  CHECK(good == 40);
  CHECK(control_groups_left().empty());
  CHECK(deeds_still_running().empty());
}
