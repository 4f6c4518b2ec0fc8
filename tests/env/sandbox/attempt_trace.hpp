// A hostile candidate in a traced child: which system calls it makes.
#pragma once

#include <algorithm>
#include <string>

#include <fcntl.h>

#include "sandbox_fixture.hpp"
#include "syscall_trace.hpp"

namespace quern::test {

/// The call that an attack makes, among what took effect or was never come back from.
inline bool was_made(const trace_result& trace, const std::string& call) {
  return trace.made.contains(call) ||
         (trace.last_call.starts_with(call + "(") && !contains(trace.last_call, "ended by"));
}

/// The same, or the system behind the filter has refused it.
inline bool was_tried(const trace_result& trace, const std::string& call) {
  return was_made(trace, call) ||
         std::any_of(trace.refused.begin(), trace.refused.end(),
                     [&](const refused_call& one) { return one.name.starts_with(call + "("); });
}

/// `name`: the deed that calls the artefact. `processes`: so many it may start, itself among them.
inline trace_result trace_deed(env::spawner& children, const std::string& name,
                               const std::string& artefact, env::syscall_profile profile,
                               int processes) {
  int ends[2];
  REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
  const base::unique_fd read_end(ends[0]);
  base::unique_fd write_end(ends[1]);
  auto spec = deed(name, artefact);
  spec.argv.emplace_back("3");
  spec.keep = {{read_end.get(), 3}};
  spec.read_only.push_back(artefact);
  spec.limits.wall_s = 8;
  spec.limits.cpu_s = 1;
  spec.limits.processes = processes;
  spec.profile = profile;
  auto child = children.spawn(spec);
  REQUIRE_MESSAGE(child.has_value(), (child ? "" : child.error().message));
  auto trace = trace_child((*child)->pid(), [&] { write_end.reset(); });
  const auto end = (*child)->wait(60);
  REQUIRE(end.has_value());
  INFO((*child)->captured_err());
  CHECK_FALSE((end->ending == env::child_end::kind::exited && (end->code == 6 || end->code == 9)));
  return trace;
}

}  // namespace quern::test
