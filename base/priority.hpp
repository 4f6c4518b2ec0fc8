// How much this process gives way to others.
#pragma once

namespace quern::base {

/// Gives every thread that this process has now the nice value (0 to 19), and so those that they
/// start later. Lowering the value again needs a privilege; where it is missing nothing happens.
void set_niceness(int nice);

}  // namespace quern::base
