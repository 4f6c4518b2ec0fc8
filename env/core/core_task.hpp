// What checks and the clock on a core need of a task, whatever its lane: inputs, what they must
// give, how the content of timed calls is made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/host_memory.hpp"
#include "base/status.hpp"
#include "env/core/output_limits.hpp"
#include "env/runner/arena.hpp"
#include "env/task/task.hpp"
#include "env/tensor_task/fill.hpp"

namespace quern::env {

/// One set of inputs and the reference's outputs on it.
struct expected_case {
  std::string name;  ///< "n=7 m=33, large", for messages
  std::vector<tensor_bytes> inputs;
  std::vector<tensor_bytes> want;
  /// In the place of the task's: where results of this content have other scales.
  std::optional<output_limits> limit = std::nullopt;
};

/// The case's own limit, or that of the task.
inline const output_limits& limit_of(const expected_case& one, const output_limits& of_task) {
  return one.limit ? *one.limit : of_task;
}

/// All cases of one choice of sizes. A candidate is called on them one after the other in the same
/// memory, so that a result kept by address is found out; the last is the first with one element
/// changed, so that one kept by a fingerprint of a few elements is, too.
struct expected_size {
  task_instance instance;
  std::vector<expected_case> cases;
  /// Of a reference whose calls depend on those before in the same question: calls of one question,
  /// in order. Each case above is then the first call of a question. Else empty.
  std::vector<expected_case> in_a_row;
};

/// Memory that inputs and outputs of all cases take.
std::size_t bytes_of(const expected_size& size);

/// Bytes of the inputs and outputs of one call.
std::int64_t bytes_of_call(const task_instance& at);

/// Whether calls of `timed` can be judged where so much memory is: with K bytes of kept cases
/// (`kept`) and C bytes of a call,
///
///     K + 4 C
///
/// must fit. 4 C: the candidate's memory, the baseline's, the contents of a window, and what the
/// reference's process holds. Error: exhausted, with the sizes and what to do.
base::status check_room(const task_instance& timed, std::int64_t kept,
                        const base::host_memory& machine);

/// Another number in the place of one element of one input, taken from elsewhere in the same input,
/// so that it belongs to the distribution; an input of equal elements gets a different number.
/// `inputs`: of this instance. Drawn by the seed.
void change_one_element(const task_instance& instance, std::vector<tensor_bytes>& inputs,
                        std::uint64_t seed);

/// Where the content of one input of timed calls comes from: in call `call` it is
/// refresh_input(layout, kind, where, call, base).
struct timed_input {
  distribution kind = distribution::normal;
  content_address where;  ///< its seed is a secret of the evaluator
};

struct core_task;

/// Content of calls `first` ... of a task whose lane makes none itself, one for each of `slots` of
/// `inputs`. The arguments were valid when the lane made the base content with them.
void draw_timed_inputs(const core_task& of, std::uint64_t first, std::int64_t slots,
                       const tensor_arena& inputs);

/// Content of timed calls that a lane makes itself. One thread.
class timed_content_maker {
 public:
  virtual ~timed_content_maker() = default;
  /// Writes the inputs of calls `first` ... to the slots of `inputs`, all of them. The same call
  /// has the same content.
  virtual base::status fill(std::uint64_t first, const tensor_arena& inputs) = 0;
};

/// A lane's prepared task derives from it, or has one. It needs no tensor_body. A value.
struct core_task {
  std::shared_ptr<const task> subject;
  std::string id;
  std::vector<expected_size> hidden;
  /// The timed sizes. First the case with the timed distributions, whose inputs are the base
  /// content from which every timed call's own content is made; then the hidden rounds
  /// `timed_rounds`, since a kernel could be right on them at the hidden sizes only.
  expected_size timed;
  /// One for each input of timed.instance, unless the lane makes the content
  /// (timing_request::maker). refresh_input must take it with that input's layout and base content:
  /// time_candidate does not ask.
  std::vector<timed_input> timed_content;
  /// Hidden rounds of timed.cases[1], [2], …, by the lane's count.
  std::vector<int> timed_rounds;
  std::int64_t floor_ns = 0;
  /// A first idea of the baseline's call time in ns; 0 before it was ever timed.
  double baseline_ns = 0;
  std::size_t bytes = 0;  ///< memory that inputs and outputs take
};

}  // namespace quern::env
