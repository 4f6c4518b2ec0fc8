// What a process of lane `cpp` can still do once it is locked (env/runner/cpu_lock.hpp).
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "env/runner/cpu_lock.hpp"
#include "support/test.hpp"

using quern::env::runner::cpu_lock;
using quern::env::runner::lock_down;

namespace {

/// What `deed` returns in a process of its own (below 100), or 100 and the signal that ended it.
int in_own_process(const std::function<int()>& deed) {
  const pid_t pid = fork();
  if (pid == 0) _exit(deed());
  int status = 0;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  return WIFSIGNALED(status) ? 100 + WTERMSIG(status) : WEXITSTATUS(status);
}

/// 0, or errno.
int error_of(long result) {
  return result < 0 ? errno : 0;
}

struct attempt {
  const char* name;
  std::function<int()> deed;  ///< 0: it worked
};

const std::vector<attempt>& of_the_outside() {
  static const std::vector<attempt> all{
      {"a thread",
       [] {
         pthread_t thread{};
         return pthread_create(
             &thread, nullptr, [](void* p) { return p; }, nullptr);
       }},
      {"a process",
       [] {
         const pid_t pid = fork();
         if (pid == 0) _exit(0);
         return error_of(pid);
       }},
      {"a program",
       [] {
         execl("/bin/true", "true", nullptr);
         return errno;
       }},
      {"a socket", [] { return error_of(socket(AF_UNIX, SOCK_STREAM, 0)); }},
      {"a memory file", [] { return error_of(memfd_create("x", 0)); }},
      {"a file to write", [] { return error_of(open("/dev/null", O_WRONLY)); }},
      {"a file to read and write", [] { return error_of(open("/dev/null", O_RDWR)); }},
      {"a new file",
       [] { return error_of(open("/dev/null", O_RDONLY | O_CREAT | O_TRUNC, 0600)); }},
      {"a new file by the old call", [] { return error_of(creat("/dev/null", 0600)); }},
      {"a signal", [] { return error_of(kill(getpid(), 0)); }}};
  return all;
}

int run_code() {
  void* page =
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return page == MAP_FAILED ? errno : 0;
}

int make_text_writable_and_back() {
  const auto page = reinterpret_cast<std::uintptr_t>(&run_code) & ~std::uintptr_t{4095};
  return error_of(mprotect(reinterpret_cast<void*>(page), 4096, PROT_READ | PROT_EXEC));
}

int read_a_file() {
  return error_of(open("/dev/null", O_RDONLY));
}

int compute() {
  void* block = std::malloc(64 << 20);
  if (block == nullptr) return 1;
  std::memset(block, 1, 64 << 20);
  std::free(block);
  return write(STDERR_FILENO, "", 0) == 0 ? 0 : 2;
}

int locked(cpu_lock stage, const std::function<int()>& deed) {
  return in_own_process([&] {
    if (stage == cpu_lock::before_calling && lock_down(cpu_lock::before_loading) != 0) return 98;
    return lock_down(stage) != 0 ? 99 : deed();
  });
}

}  // namespace

TEST_CASE("lane cpp: without the lock all of it works") {
  for (const auto& item : of_the_outside()) {
    CAPTURE(item.name);
    CHECK(in_own_process(item.deed) == 0);
  }
  CHECK(in_own_process(run_code) == 0);
  CHECK(in_own_process(make_text_writable_and_back) == 0);
  CHECK(in_own_process(read_a_file) == 0);
}

TEST_CASE("lane cpp: from before it is loaded a candidate ends with what reaches outside") {
  for (const auto stage : {cpu_lock::before_loading, cpu_lock::before_calling})
    for (const auto& item : of_the_outside()) {
      CAPTURE(item.name);
      CHECK(locked(stage, item.deed) == 100 + SIGSYS);
    }
  // The loader's: it reads files and maps code.
  CHECK(locked(cpu_lock::before_loading, read_a_file) == 0);
  CHECK(locked(cpu_lock::before_loading, run_code) == 0);
  CHECK(locked(cpu_lock::before_loading, compute) == 0);
}

TEST_CASE("lane cpp: once it is loaded it computes and does nothing else") {
  const auto stage = cpu_lock::before_calling;
  CHECK(locked(stage, compute) == 0);
  CHECK(locked(stage, read_a_file) == 100 + SIGSYS);
  CHECK(locked(stage, run_code) == 100 + SIGSYS);
  CHECK(locked(stage, make_text_writable_and_back) == 100 + SIGSYS);
}
