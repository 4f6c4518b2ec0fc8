// That processes whose times are compared in lane cpp have one layout, where the host allows it.
#include "env/sandbox/layout.hpp"

#include <sys/personality.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.hpp"
#include "env/lanes/cpp/candidate_process.hpp"
#include "env/runner/reference_service.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::env;

namespace {

/// Asked in a process of its own: this one keeps its addresses as they are drawn.
bool host_allows_it() {
  const pid_t asking = ::fork();
  if (asking == 0) ::_exit(ask_for_fixed_layout() ? 0 : 1);
  int ended = 1;
  ::waitpid(asking, &ended, 0);
  return ended == 0;
}

/// Nothing where the system does not tell.
std::optional<bool> has_fixed_layout(pid_t pid) {
  const auto text = base::read_file(fmt::format("/proc/{}/personality", pid));
  if (!text || text->empty()) return std::nullopt;
  return (std::stoul(*text, nullptr, 16) & ADDR_NO_RANDOMIZE) != 0;
}

}  // namespace

TEST_CASE("candidates and references have one layout, if the host allows it") {
  auto children = spawner::create(sandbox_mode::best_effort).value();
  candidate_start how;
  how.runner_program = test::program_dir() / "quern-runner";
  how.artefact = "/nonexistent";
  const auto candidate = candidate_process::start(*children, how).value();
  auto service =
      reference_service::start(test::program_dir() / "quern-torch", sandbox_mode::best_effort)
          .value();
  auto reference = service->open("def forward(x):\n    return x\n", -1).value();
  const auto of_candidate = has_fixed_layout(candidate->link().pid());
  const auto of_reference = has_fixed_layout(reference.link().pid());
  if (!of_candidate || !of_reference)
    return test::skip("the system does not tell personalities of other processes");
  const bool allowed = host_allows_it();
  CHECK(*of_candidate == allowed);
  CHECK(*of_reference == allowed);
}
