// A verdict for a person: what was found, where, how fast, how sure, and what to do about it.
#pragma once

#include <string>
#include <string_view>

#include "env/task/task.hpp"
#include "env/verdict/verdict.hpp"

namespace quern::env {

/// A few lines: the verdict, the first wrong element or the compiler's first error, times with
/// interval, and one line "what to do". Ends with a newline.
std::string describe_verdict(const verdict& v, const task& what);

/// describe_verdict() and all evidence: every check, buckets, compiler command and text, sandbox
/// layers, device class, fingerprint.
std::string explain_verdict(const verdict& v, const task& what);

/// One line without the task: "ok 1.37x", "wrong_value: y[0,3] is 1.5 (0x1.8p+0), should be 1
/// (0x1p+0)", "compile_error: kernel.cpp:2:3: error: ...". No line end.
std::string outcome_line(const verdict& v);

/// What to do about a verdict of this kind: one sentence.
std::string advice_for(const verdict& v, const task& what);

/// For lanes whose candidates are kernels: what to do about a `runtime_error` whose process ended
/// without having told of a fault; empty: it told.
std::string_view advice_on_ended_kernel(const verdict& v);

}  // namespace quern::env
