// The layers that convict kernels on a GPU, as names: what a control takes away, one at a time or
// some together, to see that a hostile candidate gets through without them.
//
// In every program that is shipped all layers are on, for good: env/gpu/layers_on.cpp is what they
// link, and it has no switch. A test program links another definition of the same function
// (tests/env/gpu/layer_switches.cpp). libc only: quern-runner asks, too.
#pragma once

namespace quern::env {

enum class check_layer {
  values,     ///< outputs of checks and of timed calls are compared
  content,    ///< every call has new content, hidden rounds and plants among it
  late,       ///< a part of a module's inputs is copied just before its call is asked for
  pause,      ///< in some calls a part of that comes 20 us later
  sample,     ///< outputs of some calls are read at the answer, and the last call is drawn
  still,      ///< a module's process stands still while it is not asked
  poison,     ///< outputs and workspace hold a secret word before every call
  read_only,  ///< inputs are mapped for reading where candidates and references run
  memory,     ///< what a candidate's process takes of the device's memory is looked at
  guards,     ///< words beside outputs and workspace are looked at
  charge,     ///< what the evaluator's clock shows beyond the events is part of a call
  floor,      ///< below half of the roofline's time nothing is believed
  again,      ///< a large claim is measured again, and the lower counts
  threads,    ///< threads of a candidate's process are counted
  messages,   ///< replies are counted, and of one size (judge_layer::messages, for cores too)
  files,      ///< runner: file_lock.hpp
  seal,       ///< runner: the copy that is loaded cannot be written
  filter,     ///< runner: gpu_lock::before_loading
  executable  ///< runner: gpu_lock::before_calling
};
inline constexpr const char* check_layer_names[] = {
    "values",    "content", "late",   "pause",  "sample",    "still", "poison",
    "read_only", "memory",  "guards", "charge", "floor",     "again", "threads",
    "messages",  "files",   "seal",   "filter", "executable"};

/// Any thread.
bool is_on(check_layer which);

}  // namespace quern::env
