// Protocol kernelbench_exact/1: what KernelBench's own evaluator says of a candidate, defects
// included. Decisions alone: the calls are made by process/kernelbench_exact.py, in a child of the
// warm Python.
//
// Formulas and keys are those of KernelBench (eval.py and timing.py, commit 423217d).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"
#include "base/status.hpp"

namespace quern::env {

inline constexpr std::string_view protocol_kernelbench_exact = "kernelbench_exact/1";

/// The arguments of KernelBench's function, with its defaults, and the time that it may take here.
struct exact_terms {
  std::int64_t seed = 42;           ///< all numbers of the evaluation follow from it
  std::int64_t correct_trials = 1;  ///< 0 .. 1000; with 0 everything that runs is correct
  std::int64_t warm_ups = 3;        ///< 0 .. 1000, before times are taken
  std::int64_t discarded = 1;       ///< 0 .. 1000, first times that are left out
  std::int64_t perf_trials = 10;    ///< 1 .. 10000
  bool measure = false;             ///< whether correct candidates are timed
  bool check_speedup = true;        ///< with `measure`: the reference is timed, too
  bool reference_only = false;      ///< as its baselines are made; nothing of a candidate is run
  double excessive_above = 10;      ///< ratio above which a speed-up is flagged
  std::string timing_method{"cuda_event"};
  std::string backend{"cuda"};  ///< the candidate's language, as KernelBench names it
  std::string build_dir;        ///< the candidate is told of it; nothing is built there
  double limit_s = 300;         ///< of processor time; 1 .. 3600
};

/// Reads the keys of exact_terms and `protocol`, which must be there. Errors (invalid_argument):
/// an unknown key or protocol, a value of another kind or out of bounds, each with what is allowed.
base::expected<exact_terms> parse_exact_terms(const base::json& terms);

/// An exception that leaves KernelBench's function.
struct raised_exception {
  std::string name;  ///< with its module: "builtins.ValueError"
  std::string text;
};

/// What KernelBench refuses by its arguments alone. `precision`: fp32, fp16 or bf16.
std::optional<raised_exception> refused_by_kernelbench(const exact_terms& terms,
                                                       std::string_view precision);

/// The question for python_child::kernelbench_exact(). Paths are those that the sandbox shows.
base::json exact_question(const exact_terms& terms, std::string_view precision,
                          const std::string& reference, const std::string& candidate);

/// What the child says. Untrusted: the candidate shares the process that says it.
struct exact_answer {
  enum class end {
    result,  ///< KernelBench returns a result
    retry,   ///< KernelBench returns None
    raised   ///< an exception leaves its function
  };
  end ending = end::result;
  bool compiled = false, correctness = false;
  base::json metadata = base::json::object();      ///< texts, and lists of texts
  std::vector<double> candidate_ms, reference_ms;  ///< single calls; empty: not timed
  raised_exception raised;
};

/// Error (invalid_argument): the text is no such answer, or is out of bounds.
base::expected<exact_answer> parse_exact_answer(std::string_view text);

/// The object of an answer (docs/bench.md, "KernelBench's own protocol"): `end`, and with
/// "result" the fields of KernelBench's result. `device_class` is its `hardware`, `device` as torch
/// names it.
base::json exact_result(const exact_answer& answer, const exact_terms& terms,
                        std::string_view device_class, std::string_view device = "cpu");
base::json exact_raised(const raised_exception& what);

/// Ends that KernelBench has no word for.
enum class exact_loss {
  lost,        ///< the process of both modules died, hung or answered nothing that can be read
  unsupported  ///< no host of this device class can run the candidate
};
base::json exact_without_result(exact_loss how, std::string_view why);

}  // namespace quern::env
