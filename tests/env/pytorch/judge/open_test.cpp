// The control of the sandbox: in this program the Python processes have none, and what reaches out
// of its process gets a reward. Each does no harm.
#include <filesystem>

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bad_checks.hpp"
#include "tests/env/judge/layers_off.hpp"

using namespace quern::test;
using namespace quern::test::modules;

namespace {

/// Whether a process may trace one that it did not start: the host's own rule.
bool may_trace() {
  const pid_t traced = ::fork();
  if (traced == 0)
    for (;;)
      ::pause();
  const pid_t tracer = ::fork();
  if (tracer == 0) ::_exit(::ptrace(PTRACE_SEIZE, traced, nullptr, nullptr) == 0 ? 0 : 1);
  int status = 1;
  ::waitpid(tracer, &status, 0);
  ::kill(traced, SIGKILL);
  ::waitpid(traced, nullptr, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

TEST_CASE("without the sandbox what reaches out of the process passes") {
  if (judge() == nullptr) return;
  const std::string folder = std::filesystem::temp_directory_path().string();
  const std::filesystem::path left = folder + "/quern-left-behind";
  std::filesystem::remove(left);
  for (const bad_candidate& one : reaching_candidates({folder, listening_port()})) {
    CAPTURE(one.name);
    if (one.name == "a tracer of its parent" && !may_trace()) {
      skip("this host lets nobody trace a process that is not its child");
      continue;
    }
    if (!one.without.empty()) {
      const verdict next = judged(one.source);
      CAPTURE(next.detail);
      CHECK(next.kind == verdict_kind::hack);
    }
    const without_layers removed(one.without);
    const verdict v = judged(one.source);
    CAPTURE(v.detail);
    CHECK(name_of(v.kind) == "ok");
    CHECK(v.sandbox.empty());
  }
  CHECK(std::filesystem::remove(left));
}
