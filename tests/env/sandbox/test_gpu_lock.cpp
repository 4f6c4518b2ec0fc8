// What a process of lane `cuda` can still do once it is locked (env/runner/gpu_lock.hpp).
#include <cerrno>
#include <functional>
#include <string>

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "env/runner/gpu_lock.hpp"
#include "support/test.hpp"

using quern::env::runner::gpu_lock;
using quern::env::runner::lock_down;

namespace {

/// What `deed` returns in a process of its own (below 100), or 100 and the signal that ended it.
int in_a_child(const std::function<int()>& deed) {
  const pid_t pid = fork();
  if (pid == 0) _exit(deed());
  int status = 0;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  return WIFSIGNALED(status) ? 100 + WTERMSIG(status) : WEXITSTATUS(status);
}

int locked(gpu_lock stage, const std::function<int()>& deed) {
  return in_a_child([&] { return lock_down(stage) != 0 ? 99 : deed(); });
}

/// 0, or errno.
int outcome(long result) {
  return result < 0 ? errno : 0;
}

int start_thread() {
  pthread_t thread{};
  return pthread_create(
      &thread, nullptr, [](void* p) { return p; }, nullptr);
}

int make_executable_memory() {
  void* page =
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return page == MAP_FAILED ? errno : 0;
}

int make_text_writable() {
  const auto page =
      reinterpret_cast<std::uintptr_t>(&make_executable_memory) & ~std::uintptr_t{4095};
  return outcome(mprotect(reinterpret_cast<void*>(page), 4096, PROT_READ | PROT_WRITE | PROT_EXEC));
}

int start_timer() {
  const itimerval soon{{0, 0}, {100, 0}};
  return outcome(setitimer(ITIMER_REAL, &soon, nullptr));
}

int run_a_program() {
  char name[] = "/bin/true";
  char* argv[] = {name, nullptr};
  char* envp[] = {nullptr};
  return outcome(execve(name, argv, envp));
}

}  // namespace

TEST_CASE("Without the lock all of it works") {
  CHECK(in_a_child(start_thread) == 0);
  CHECK(in_a_child(start_timer) == 0);
  CHECK(in_a_child(make_executable_memory) == 0);
  CHECK(in_a_child(make_text_writable) == 0);
  CHECK(in_a_child([] { return outcome(memfd_create("x", 0)); }) == 0);
  CHECK(in_a_child([] { return outcome(socket(AF_UNIX, SOCK_STREAM, 0)); }) == 0);
  CHECK(in_a_child(run_a_program) == 0);
}

TEST_CASE("Before a candidate is loaded threads, processes, sockets, memory files and timers go") {
  const auto stage = gpu_lock::before_loading;
  CHECK(locked(stage, start_thread) == EAGAIN);
  CHECK(locked(stage, [] { return outcome(fork()); }) == EAGAIN);
  CHECK(locked(stage, start_timer) == EPERM);
  CHECK(locked(stage, [] { return outcome(memfd_create("x", 0)); }) == EPERM);
  CHECK(locked(stage, [] { return outcome(socket(AF_UNIX, SOCK_STREAM, 0)); }) == EPERM);
  CHECK(locked(stage, [] { return outcome(kill(getpid(), SIGTERM)); }) == EPERM);
  CHECK(locked(stage, run_a_program) == 100 + SIGSYS);
  // What the loader and the driver need goes on.
  CHECK(locked(stage, make_executable_memory) == 0);
  CHECK(locked(stage, [] { return outcome(open("/proc/self/maps", O_RDONLY)); }) == 0);
}

TEST_CASE("Once it is loaded no memory becomes executable") {
  const auto stage = gpu_lock::before_calling;
  CHECK(locked(stage, make_executable_memory) == EPERM);
  CHECK(locked(stage, make_text_writable) == EPERM);
  CHECK(locked(stage, [] {
          return outcome(
              mprotect(mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 4096,
                       PROT_READ | PROT_WRITE));
        }) == 0);
}
