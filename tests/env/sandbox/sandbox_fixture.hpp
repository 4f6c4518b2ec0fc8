// What tests of the sandbox share: a spawner for what this host offers, the program that tries
// things, and counting of what is left behind.
#pragma once

#include <cstdio>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>

#include "env/lanes/cpp/build/cpp_compiler.hpp"
#include "env/sandbox/child.hpp"
#include "env/sandbox/in_process.hpp"
#include "env/sandbox/probe.hpp"
#include "support/test.hpp"

namespace quern::test {

/// Whether the layers are here; else the running case is skipped, or that part of it.
inline bool host_has(std::initializer_list<env::layer> layers, const char* what) {
  for (const env::layer needed : layers)
    if (!env::probe_host().available.has(needed)) {
      skip(std::string(what) + ": this host has no " + std::string(env::name_of(needed)));
      return false;
    }
  return true;
}

inline std::unique_ptr<env::spawner> make_spawner(env::layer_set allowed = env::layer_set::all()) {
  auto made = env::spawner::create(env::sandbox_mode::best_effort, allowed);
  REQUIRE_MESSAGE(made.has_value(), (made ? "" : made.error().message));
  return std::move(*made);
}

inline std::string deed_program() {
  return QUERN_DEED_PROGRAM;
}

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool sanitised = true;
#else
inline constexpr bool sanitised = false;
#endif

inline bool has_control_groups() {
  return env::probe_host().cgroups.version != 0;
}

inline env::child_spec deed(std::string name, std::string argument = "") {
  env::child_spec spec;
  spec.argv = {deed_program(), std::move(name), std::move(argument)};
  spec.read_only = env::system_library_folders();
  spec.out = env::child_stream::captured();
  spec.err = env::child_stream::captured();
  spec.limits.wall_s = 20;
  spec.limits.cpu_s = 10;
  spec.limits.memory_bytes = 256 << 20;
  // Sanitisers reserve terabytes of addresses: without a control group no limit would let them
  // start.
  if (sanitised && !has_control_groups()) spec.limits.memory_bytes = 0;
  return spec;
}

struct deed_result {
  env::child_end end;
  std::string out, err;
  env::layer_set layers;
};

inline deed_result run(env::spawner& children, const env::child_spec& spec) {
  auto child = children.spawn(spec);
  REQUIRE_MESSAGE(child.has_value(), (child ? "" : child.error().message));
  const auto end = (*child)->wait(60);
  REQUIRE(end.has_value());
  return {*end, (*child)->captured_out(), (*child)->captured_err(), (*child)->layers()};
}

/// Compiles these into the compiler's cache, two at a time. Nothing is said of one that fails: it
/// fails again where it is looked at.
void compile_all(env::cpp_compiler& compiler,
                 const std::vector<env::cpp_compile_request>& requests);

/// Control groups of ours and processes that run the deed program: both empty after a test.
std::set<std::string> control_groups_left();
std::set<std::string> deeds_still_running();

}  // namespace quern::test
