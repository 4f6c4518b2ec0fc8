// A limit on the work of a thread.
#include "base/thread_deadline.hpp"

#include <thread>

#include "support/test.hpp"

using quern::base::thread_deadline;

TEST_CASE("a thread without a limit waits as long as it was told") {
  CHECK_FALSE(thread_deadline::left_s());
  CHECK_FALSE(thread_deadline::is_over());
  CHECK(thread_deadline::at_most(1e9) == 1e9);
  const thread_deadline none(0);
  CHECK_FALSE(thread_deadline::left_s());
}

TEST_CASE("the earliest end counts, on the thread that made it, while it lives") {
  const thread_deadline outer(1000);
  CHECK(thread_deadline::at_most(1) == 1);
  CHECK(thread_deadline::at_most(5000) <= 1000);
  {
    const thread_deadline longer(5000);
    CHECK(thread_deadline::left_s().value() <= 1000);
    const thread_deadline over(1e-9);
    CHECK(thread_deadline::is_over());
    CHECK(thread_deadline::at_most(7) == 0);
    bool over_elsewhere = true;
    std::thread([&] { over_elsewhere = thread_deadline::is_over(); }).join();
    CHECK_FALSE(over_elsewhere);
  }
  CHECK_FALSE(thread_deadline::is_over());
}
