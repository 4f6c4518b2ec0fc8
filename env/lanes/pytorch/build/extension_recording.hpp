// Learns which extensions a candidate asks for, in a sandboxed Python of its own.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "env/lanes/pytorch/build/extension_request.hpp"
#include "env/lanes/pytorch/build/python_torch.hpp"
#include "env/sandbox/child.hpp"

namespace quern::env {

/// Longest text of a recording that is kept.
inline constexpr std::int64_t most_recording_text = 16 << 10;

struct extension_recording {
  enum class end {
    imported,     ///< the text ran to its end
    constructed,  ///< it had calls that its import need not have made, and its model was made
    called,       ///< as before, and its model was called on tensors without memory
    raised,       ///< `text` has the end of the traceback
    lost          ///< the process ended without a word, or ran out of time
  };
  std::vector<extension_request> requests;  ///< each once, in the order in which they were made
  end ending = end::lost;
  std::string text;
  bool asks_later = false;  ///< its next stage may ask for more
};

/// Reads what extension_recorder.py writes: bounded, and from a process that ran a hostile text.
/// Error (invalid_argument): a line is no answer, or a request is none.
base::expected<extension_recording> parse_extension_recording(std::string_view lines);

/// The answer of a forked process (module_child.py): JSON with `requests`, `end`, `text` and
/// `asks_later`. Errors as above.
base::expected<extension_recording> parse_recorded_extensions(std::string_view json);

/// Runs extension_recorder.py of the folder `scripts` on a candidate's text: about two seconds, of
/// which the import of torch takes nearly all. `init_args`: a JSON list or object, or "null". The
/// model is called only where the text has `get_inputs`.
/// Errors are of this host, or of the answer.
base::expected<extension_recording> record_extensions(spawner& children, const python_torch& python,
                                                      const std::string& scripts,
                                                      std::string_view source,
                                                      std::string_view init_args);

/// A child that runs this Python: what it sees, its environment and its limits.
child_spec python_spec(const python_torch& python, std::vector<std::string> arguments);

}  // namespace quern::env
