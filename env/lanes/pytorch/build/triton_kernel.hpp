// A Triton kernel that a candidate launches, as a value, and what its build is kept as.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.hpp"
#include "base/json.hpp"
#include "base/status.hpp"
#include "env/lanes/pytorch/build/python_torch.hpp"
#include "env/sandbox/child.hpp"

namespace quern::env {

inline constexpr std::size_t most_triton_kernels = 64;                ///< of a candidate
inline constexpr std::size_t most_ttir_bytes = std::size_t{1} << 20;  ///< of a kernel
inline constexpr std::size_t most_triton_notes = 64;                  ///< of a recording
inline constexpr std::size_t most_triton_text = 16 << 10;             ///< of a recording

/// One specialisation of one kernel.
struct triton_kernel {
  std::string name;
  /// By which Triton finds the compiled kernel where the candidate runs: 64 hexadecimal digits.
  std::string launch_key;
  std::string ttir;  ///< the first of Triton's forms: no text of the candidate is needed behind it
  std::string signature;  ///< JSON: a list of types
  std::string options;    ///< JSON: what was asked for beyond Triton's defaults
  bool operator==(const triton_kernel&) const = default;
};

/// Why not every launch of a candidate was learnt.
enum class triton_reason {
  none,
  no_launch,       ///< it ran to its end and launched nothing
  data_dependent,  ///< the value of a tensor decides
  kernel_refused,  ///< Triton refuses a kernel: the candidate's error
  limit,           ///< too many kernels, or one too large
  raised,          ///< another exception
  lost             ///< the process ended without a word, or ran out of time
};
std::string_view name_of(triton_reason reason);

struct triton_recording {
  std::vector<triton_kernel> kernels;  ///< each once, in the order of their first launches
  std::vector<std::string> notes;  ///< what is left to the device, such as the choice of a tuner
  triton_reason reason = triton_reason::lost;
  std::string text;  ///< the end of the traceback
};

/// Reads what triton_recorder.py writes: bounded, and from a process that ran a hostile text. Error
/// (invalid_argument): a line is no answer, or a kernel is none.
base::expected<triton_recording> parse_triton_recording(std::string_view lines);

/// The same of a process whose answer may be the candidate's: one that cannot be read is lost, and
/// says why.
triton_recording read_triton_recording(std::string_view lines);

/// What it may take to learn what a text launches.
inline constexpr double longest_triton_recording_s = 120;

/// What triton_recorder.py is asked. Error: `init_args` or `inputs` is no JSON.
base::expected<base::json> triton_recorder_job(std::string_view source, std::string_view init_args,
                                               std::string_view inputs);

/// Runs triton_recorder.py of the folder `scripts` on a candidate's text: seconds. `init_args`: a
/// JSON list or object; `inputs`: a JSON list of what forward gets. Errors are of this host, or of
/// the answer.
base::expected<triton_recording> record_triton_kernels(
    spawner& children, const python_torch& python, const std::string& scripts,
    std::string_view source, std::string_view init_args, std::string_view inputs);

/// The job of triton_compiler.py.
std::string triton_job(const triton_kernel& kernel);

/// Key of the artefact. Two candidates with the same kernel share it. `toolchain`: fingerprint of
/// Triton, compilers and scripts.
base::hash128 triton_kernel_key(const triton_kernel& kernel, const base::hash128& toolchain);

/// An artefact:
///
///   quern_triton_kernel 1
///   content <32 hexadecimal digits: of all that follows this line>
///   <JSON: {"launcher": key, "launcher_content": hash, "triton": what Triton keeps beside it}>
///   <a cubin>
struct triton_artefact {
  base::hash128 launcher;          ///< key of the launcher in the same cache
  base::hash128 launcher_content;  ///< hash of its file
  std::string metadata;            ///< JSON
  std::string_view cubin;          ///< part of the file that was read
};
std::string write_triton_artefact(const triton_artefact& artefact);
/// Errors (corrupt): a byte was changed, or it is no such file. `file` outlives the result.
base::expected<triton_artefact> read_triton_artefact(std::string_view file);

/// Whether these bytes are machine code for sm_90: an ELF of CUDA with that number in its flags.
/// Error (corrupt): what was found instead.
base::status check_cubin(std::string_view bytes);

}  // namespace quern::env
