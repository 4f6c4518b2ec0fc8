// All children of this process, whoever of its threads started them.
#pragma once

namespace quern::base {

/// SIGKILL to every child of this process that lives; whoever owns one still has to reap it. Safe
/// beside threads that start and reap children: nothing but a child is ever hit. For the end of a
/// process whose threads wait for what their children do.
void kill_children();

}  // namespace quern::base
