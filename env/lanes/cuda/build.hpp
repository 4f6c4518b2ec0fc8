// From the text of a candidate of lane `cuda` to what runs: a launch plan and device code, or a
// shared object.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "env/build/shared_compilation.hpp"
#include "env/gpu/runner_process.hpp"
#include "env/lanes/cuda/build/cubin.hpp"
#include "env/lanes/cuda/build/cuda_compiler.hpp"
#include "env/lanes/cuda/build/device_code.hpp"
#include "env/lanes/cuda/launch/launch_plan.hpp"
#include "env/task/task.hpp"
#include "env/verdict/finding.hpp"

namespace quern::env {

/// One where every name of the runtime in the source is known to keep to the stream that is given
/// (memory, attributes, launches); all for whoever makes streams, graphs or library handles, finds
/// functions by name, casts to a stream, or hides what it names.
work_queues queues_for(const std::string& source);

/// What a suite allows of lane `cuda` (suite.hpp, suite_policy).
struct cuda_policy {
  bool host_entry = true;
  bool library_calls = false;
  /// No plan is looked for (evaluation_request::as_host_entry).
  bool as_host_entry = false;
};

/// One candidate, built. Movable.
struct built_candidate {
  cuda_form form = cuda_form::device_only;
  std::optional<launch_plan> plan;          ///< device_only
  device_code code;                         ///< device_only
  std::vector<std::string> symbols;         ///< device_only: of the plan's kernels, in its order
  std::vector<kernel_resources> resources;  ///< device_only: as far as the machine code tells
  bool uses_device_heap = false;  ///< device_only: a kernel takes or gives back memory; not built
  /// host_entry: the suite allows vendor libraries, and its artefact names cuBLAS or cuDNN in
  /// DT_NEEDED. Such a process sees their folder and keeps the right to make memory executable.
  bool calls_libraries = false;
  work_queues queues = work_queues::one;  ///< host_entry: what its text may have a use for
  base::unique_fd file;                   ///< the artefact, open for reading
  compile_result compiled;
};

struct build_result {
  finding outcome;  ///< not ok: the candidate's fault; infra_error: this host's
  /// Why the text has no launch plan; empty where it has one.
  std::string no_plan;
  std::optional<compile_result> compiled;
  std::optional<built_candidate> built;
};

/// Whether host code of candidates may run in children with these layers. `required`: not without
/// what admit() asks for it (sandbox/probe.hpp), Landlock among it, which keeps it from writing its
/// own text (env/runner/file_lock.hpp). Error: unavailable, with what to do.
base::status admit_host_entry(layer_set layers, bool required);

/// Reads the plan, compiles by the form that this gives, opens the artefact. A candidate with a
/// plan whose headers (CUB, Thrust, libcu++, cooperative groups) NVRTC does not compile is built by
/// nvcc instead, where the policy has host code; `no_plan` says so. Thread-safe.
build_result build_candidate(cuda_compiler& with, shared_compilation& shared, const task& what,
                             const std::string& source, const std::string& architecture,
                             const cuda_policy& policy);

}  // namespace quern::env
