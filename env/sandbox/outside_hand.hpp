// Whether a child's end may be the doing of this host: somebody killed or stopped it, or something
// ran out.
#pragma once

#include "env/sandbox/child.hpp"

namespace quern::env {

enum class outside_hand {
  excluded,  ///< what the child was given to do explains its end
  possible,  ///< both explain it: it is to be done once more
  certain    ///< nothing that it was given ends it so
};

/// Of a compiler, which runs nothing of what it reads. Its exit status is the same for a wrong
/// text, a part of it that was killed, and a host that has no room, process or descriptor left.
outside_hand seen_in_compiler(const child_end& end);

/// What follows each end of a compiler that was given somebody's text. The text is at fault when
/// the compiler failed on it twice and, between the two, did what it should with a text of ours
/// (the control). So a fault of the host is blamed on the text only where it was there both times
/// and gone in between. The host is at fault when the control fails, or when the compiler was
/// killed twice. Thread-compatible.
class compiler_attempts {
 public:
  enum class next {
    believe,    ///< the end is the text's doing
    repeat,     ///< compile the text once more
    control,    ///< compile the control
    blame_host  ///< nothing is known about the text
  };
  next after_text(const child_end& end);
  next after_control(const child_end& end);

 private:
  bool control_passed_ = false;  ///< behind a failure on the text
  int kills_ = 0;
};

/// Of a runner. It may have its end from its candidate's code, so it is never certain.
outside_hand seen_in_runner(const child_end& end);

}  // namespace quern::env
