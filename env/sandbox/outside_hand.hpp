// Whether a child's end may be the doing of somebody else on this host, who killed or stopped it.
#pragma once

#include "env/sandbox/child.hpp"

namespace quern::env {

enum class outside_hand {
  excluded,  ///< what the child was given to do explains its end
  possible,  ///< both explain it: it is to be done once more, and the second end is believed
  certain    ///< nothing that it was given ends it so
};

/// Of a compiler, which runs nothing of what it reads. `starts_others`: it is a driver (g++, nvcc),
/// which tells of a part that was killed by the exit status that it has for a wrong source.
outside_hand seen_in_compiler(const child_end& end, bool starts_others);

/// Of a runner. It may have its end from its candidate's code, so it is never certain.
outside_hand seen_in_runner(const child_end& end);

}  // namespace quern::env
