// The layers that the verdict on a kernel on a core rests on, by name, so that a test can take one
// away and see what gets through without it.
#pragma once

namespace quern::env {

enum class judge_layer {
  values,          ///< outputs are compared with the reference's, in checks and in timed windows
  timed_values,    ///< … in timed windows
  hidden_windows,  ///< windows of hidden content among the timed ones
  fresh_content,   ///< every call has content of its own
  unseen_inputs,   ///< … which nobody can read before the call is asked for
  other_sizes,     ///< hidden sizes
  repeats,         ///< the same inputs again must give the same bits
  read_only,       ///< inputs cannot be written
  floor,           ///< no time below half of the roofline's is believed
  canaries,        ///< memory beside outputs and workspace is looked at
  late_answers,    ///< CPU time between answer and next question convicts
  idle_charge,     ///< and is charged to the window (idle_charge.hpp)
  messages,        ///< answers are counted
  threads,         ///< a candidate can start no thread, and runs on one core
  thread_count,    ///< its threads are counted
  cpu_and_wall     ///< it cannot have used more CPU time than there was time
};
inline constexpr const char* judge_layer_names[] = {
    "values",   "timed_values", "hidden_windows", "fresh_content", "unseen_inputs", "other_sizes",
    "repeats",  "read_only",    "floor",          "canaries",      "late_answers",  "idle_charge",
    "messages", "threads",      "thread_count",   "cpu_and_wall"};

/// True. Programs that are installed have no other answer: a layer cannot be turned off in them.
/// Test programs define this function a second time (the library's is weak), to turn one off.
bool judges_with(judge_layer which);

}  // namespace quern::env
