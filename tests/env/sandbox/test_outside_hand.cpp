// What is killed or stopped from outside: whose doing the end of a child may be, and compilers that
// somebody kills.
#include <signal.h>

#include "env/lanes/cpp/build/cpp_compiler.hpp"
#include "env/sandbox/outside_hand.hpp"
#include "sandbox_fixture.hpp"
#include "support/meddler.hpp"

using namespace quern;
using namespace quern::test;
using env::child_end;
using env::outside_hand;
using build_kind = env::compile_result::kind;
using end_kind = env::child_end::kind;

namespace {

child_end end_of(end_kind how, int code = 0) {
  child_end end;
  end.ending = how;
  end.code = code;
  return end;
}

child_end out_of_memory(child_end end) {
  end.out_of_memory = true;
  return end;
}

child_end stalled() {
  auto end = end_of(end_kind::timed_out);
  end.stalled = true;
  return end;
}

struct meddled_workshop {
  std::unique_ptr<env::spawner> children = make_spawner();
  base::temp_folder cache = base::temp_folder::make("quern-cache").value();
  std::unique_ptr<env::cpp_compiler> compiler =
      env::cpp_compiler::create(*children, {.cache_dir = cache.path()}).value();
};

/// Different in each case, and long enough in the compiler to be seen there.
env::cpp_compile_request request(const std::string& name, const std::string& wrong = "") {
  env::cpp_compile_request r;
  r.prototype = "extern \"C\" void kernel(float* y);\n";
  r.source =
      "template <int N, int M> struct f { static constexpr int v = f<N - 1, M>::v + f<N - 1, M + "
      "(1 << N)>::v; };\ntemplate <int M> struct f<0, M> { static constexpr int v = M; };\n"
      "int " +
      name + " = f<12, 0>::v;\n" + wrong + "extern \"C\" void kernel(float* y) { y[0] = 1; }\n";
  r.wall_s = 60;
  return r;
}

}  // namespace

TEST_CASE("whose doing the end of a compiler may be") {
  using enum outside_hand;
  const auto seen = [](const child_end& end) { return env::seen_in_compiler(end); };
  CHECK(seen(end_of(end_kind::exited)) == excluded);
  // It tells of a host without room, or of a part that was killed, as it tells of a wrong source.
  CHECK(seen(end_of(end_kind::exited, 1)) == possible);
  CHECK(seen(out_of_memory(end_of(end_kind::exited, 1))) == excluded);
  CHECK(seen(end_of(end_kind::timed_out)) == excluded);
  CHECK(seen(stalled()) == possible);
  for (const int signal : {SIGSEGV, SIGBUS, SIGABRT})
    CHECK(seen(end_of(end_kind::signalled, signal)) == possible);
  for (const int signal : {SIGXCPU, SIGXFSZ})
    CHECK(seen(end_of(end_kind::signalled, signal)) == excluded);
  for (const int signal : {SIGKILL, SIGTERM, SIGINT, SIGHUP})
    CHECK(seen(end_of(end_kind::signalled, signal)) == certain);
  CHECK(seen(out_of_memory(end_of(end_kind::signalled, SIGKILL))) == excluded);
}

TEST_CASE("whose doing the end of a runner may be: never certainly that of others") {
  using enum outside_hand;
  for (const int code : {0, 1, 70})
    CHECK(env::seen_in_runner(end_of(end_kind::exited, code)) == excluded);
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGSYS})
    CHECK(env::seen_in_runner(end_of(end_kind::signalled, signal)) == excluded);
  CHECK(env::seen_in_runner(end_of(end_kind::timed_out)) == excluded);
  CHECK(env::seen_in_runner(out_of_memory(end_of(end_kind::signalled, SIGKILL))) == excluded);
  for (const int signal : {SIGKILL, SIGTERM})
    CHECK(env::seen_in_runner(end_of(end_kind::signalled, signal)) == possible);
  CHECK(env::seen_in_runner(end_of(end_kind::killed)) == possible);
  CHECK(env::seen_in_runner(stalled()) == possible);
}

TEST_CASE("a child that waits has processor time left at its limit; one at work has none") {
  if (!host_has({env::layer::pidns}, "processor time of a whole tree")) return;
  auto children = make_spawner();
  auto spec = deed("sleep");
  spec.limits.wall_s = 0.3;
  auto end = run(*children, spec).end;
  CHECK(end.ending == end_kind::timed_out);
  CHECK(end.stalled);
  spec = deed("loop");
  spec.limits.cpu_s = 1;
  end = run(*children, spec).end;
  CHECK(end.ending == end_kind::timed_out);
  CHECK_FALSE(end.stalled);
}

TEST_CASE("a compiler that somebody killed once, or a part of it, is no fault of the source") {
  meddled_workshop w;
  // The driver, and the compiler proper.
  for (const std::string part : {"g++", "cc1plus"}) {
    CAPTURE(part);
    const meddler somebody(part, SIGKILL, 1);
    const auto built = w.compiler->compile(request(part == "g++" ? "driver" : "part"));
    CHECK(somebody.hits() == 1);
    REQUIRE_MESSAGE(built.has_value(), (built ? "" : built.error().message));
    CHECK_MESSAGE(built->outcome == build_kind::built, built->text);
  }
}

TEST_CASE("a compiler that somebody kills each time is an error of this host") {
  meddled_workshop w;
  const meddler somebody("g++", SIGKILL, 100);
  const auto built = w.compiler->compile(request("always"));
  CHECK(somebody.hits() == 2);
  REQUIRE_FALSE(built.has_value());
  CHECK(built.error().code == base::errc::unavailable);
}

TEST_CASE("a compiler that somebody stopped is given its time once more") {
  meddled_workshop w;
  auto asked = request("stopped");
  asked.wall_s = 15;
  const meddler somebody("cc1plus", SIGSTOP, 1);
  const auto built = w.compiler->compile(asked);
  CHECK(somebody.hits() == 1);
  REQUIRE_MESSAGE(built.has_value(), (built ? "" : built.error().message));
  CHECK_MESSAGE(built->outcome == build_kind::built, built->text);
}

TEST_CASE(
    "a wrong source is an error whether or not somebody kills once, and always stopped an error of "
    "this host") {
  meddled_workshop w;
  auto wrong = w.compiler->compile(request("wrong_alone", "not C++;\n"));
  REQUIRE(wrong.has_value());
  CHECK(wrong->outcome == build_kind::error);
  CHECK(wrong->text.find("kernel.cpp") != std::string::npos);
  {
    const meddler somebody("cc1plus", SIGKILL, 1);
    wrong = w.compiler->compile(request("wrong_killed", "not C++;\n"));
    CHECK(somebody.hits() == 1);
    REQUIRE(wrong.has_value());
    CHECK(wrong->outcome == build_kind::error);
    CHECK(wrong->text.find("kernel.cpp") != std::string::npos);
  }
  auto asked = request("always_stopped");
  asked.wall_s = 1;
  // The driver, which is there as long as a compile lasts; the compiler proper could be missed.
  const meddler somebody("g++", SIGSTOP, 100);
  const auto late = w.compiler->compile(asked);
  // The control, too.
  CHECK(somebody.hits() == 2);
  REQUIRE_FALSE(late.has_value());
  CHECK(late.error().code == base::errc::unavailable);
}
