// Making one sandboxed process: clone, hand-shake, report. Used by the spawner and by the probe.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "base/status.hpp"
#include "env/sandbox/cgroup.hpp"
#include "env/sandbox/setup.hpp"

namespace quern::env {

/// A process that has been cloned and waits for release() before it does anything.
struct embryo {
  int pid = -1;
  base::unique_fd pidfd;
  base::unique_fd go;      ///< write end: one byte lets it begin
  base::unique_fd report;  ///< its messages until exec
};

/// Clones the calling thread (the parent-death signal follows this thread) into the namespaces of
/// `plan`. argv and envp end with null and outlive the call. Fails with errno's text.
base::expected<embryo> clone_embryo(setup_plan& plan, char* const* argv, char* const* envp);

/// What a started child reported.
struct birth {
  layer_set layers;
  base::unique_fd work;  ///< its work folder
};

/// A child that could not put on a layer, with the layer, for the probe.
struct stillbirth {
  std::optional<setup_failure> failure;  ///< none: it ended without a word
};

/// Writes the user namespace's maps where that is needed, moves it into `group` (may be null), lets
/// it go, and waits until its program runs (or, without a program, until it has put on everything).
/// After an error the process is dead and reaped; `why` (may be null) then has the step.
base::expected<birth> release(embryo& child, const setup_plan& plan, const cgroup_leaf* group,
                              stillbirth* why);

}  // namespace quern::env
