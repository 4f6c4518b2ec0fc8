// Niceness reaches threads that are there already. In a child: it could not be taken back.
#include "base/priority.hpp"

#include <atomic>
#include <thread>

#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/test.hpp"

using namespace quern;

TEST_CASE("niceness is set for threads that are there, and new ones have it too") {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    std::atomic<bool> set = false;
    std::atomic<int> before = -100;
    std::thread there([&] {
      while (!set)
        std::this_thread::yield();
      before = ::getpriority(PRIO_PROCESS, 0);
    });
    base::set_niceness(19);
    set = true;
    there.join();
    int after = -100;
    std::thread later([&] { after = ::getpriority(PRIO_PROCESS, 0); });
    later.join();
    ::_exit(before == 19 && after == 19 ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
}
