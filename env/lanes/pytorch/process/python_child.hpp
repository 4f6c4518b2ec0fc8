// One forked Python process with one module: what it can be asked beyond the commands of every
// runner.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/children.hpp"
#include "base/status.hpp"
#include "env/lanes/pytorch/process/module_sheet.hpp"
#include "env/runner/link.hpp"
#include "env/runner/memory_file.hpp"
#include "env/sandbox/layer.hpp"

namespace quern::env {

/// Files of such a process by their index: inputs, outputs, weights, and the sheet for answers.
enum class python_file : std::uint32_t { inputs, outputs, weights, sheet };

/// The weights of a reference's model, which every process of its task is given.
struct module_weights {
  memory_file file;
  std::vector<std::uint64_t> offsets;  ///< of each of module_sheet::weights
};

/// Where weights lie in a region of device memory that processes of its task are lent.
struct lent_weights {
  std::int32_t region = 0;
  std::vector<std::uint64_t> offsets;  ///< of each of module_sheet::weights
  std::uint64_t bytes = 0;
};

/// How models of a task are made.
struct module_making {
  std::string precision = "fp32";  ///< fp32, fp16 or bf16: of floating inputs and weights
  std::uint64_t seed = 0;          ///< of the constructor's random numbers, below 2^63
  /// Of models on a GPU: constructors draw their numbers on a core all the same, which takes
  /// longer. Numbers of the two places differ.
  bool draws_on_core = false;
};

/// What a process says of a model that it made.
struct made_model {
  /// Weights count as it made them, which was on a core, where the reference drew on the device:
  /// the reference must draw there, too (module_making::draws_on_core).
  bool drawn_elsewhere = false;
  std::int64_t weights_taken = 0;  ///< of the reference, by name and shape
  /// Some of these its constructor had made otherwise: drawn in another order, or changed on
  /// purpose.
  bool weights_changed = false;
  bool own_weights = false;  ///< it has some that the reference has not, by name and shape
};

/// What becomes of a candidate's weights that have name and shape of the reference's.
enum class named_weights { of_reference, as_constructed };

/// Ends with this object. One thread. Answers fail as those of runner_link do; `limits` are for one
/// question.
class python_child {
 public:
  /// `folder`: empty but for one with a GPU.
  python_child(base::killed_at_end process, runner_link link, memory_file sheet, bool stood_ready,
               std::string folder)
      : process_(std::move(process)),
        link_(std::move(link)),
        sheet_(std::move(sheet)),
        stood_ready_(stood_ready),
        folder_(std::move(folder)) {}

  [[nodiscard]] runner_link& link() { return link_; }
  [[nodiscard]] int pid() const { return link_.pid(); }
  /// Whether it had been forked before it was asked for.
  [[nodiscard]] bool stood_ready() const { return stood_ready_; }
  /// Of a child with a GPU: shown to it, for what it is to load. Goes with the process.
  [[nodiscard]] const std::string& folder() const { return folder_; }
  /// Those that were on when it answered last.
  [[nodiscard]] layer_set layers() const { return layers_; }

  /// Runs the module; its code is on. `path`: one of those that the sandbox shows.
  answered<runner::reply> load(const std::string& path, question_limits limits);

  /// Of a reference: makes its model and calls it three times. The text is for
  /// parse_module_sheet().
  answered<std::string> describe(const module_making& how, question_limits limits);
  /// As describe(), by one call on tensors without memory, so that no module is too large: types
  /// and shapes are right, and what only values can tell is told as false. The process is of no use
  /// for calls after it.
  answered<std::string> describe_without_values(const module_making& how, question_limits limits);
  /// Of a reference that has a plan: inputs of calls `first` ... by get_inputs, a seed each,
  /// changed as `family` says (module_distributions.py). `row`: nominal ones may be drawn together,
  /// by the first seed.
  answered<std::string> content(std::int64_t first, std::span<const std::uint64_t> seeds,
                                std::string_view family, question_limits limits, bool row = false);
  /// Of a reference: puts the tensors of its model into `to`.
  answered<std::string> write_weights(const module_weights& to, question_limits limits);
  answered<std::string> write_weights(const lent_weights& to, question_limits limits);
  /// Makes its model as the reference's sheet says.
  answered<made_model> construct(const module_making& how, const module_sheet& sheet,
                                 const module_weights& weights, question_limits limits,
                                 named_weights named = named_weights::of_reference);
  answered<made_model> construct(const module_making& how, const module_sheet& sheet,
                                 const lent_weights& weights, question_limits limits,
                                 named_weights named = named_weights::of_reference);
  /// Of a reference: makes its model as describe() does, with the numbers that it draws.
  answered<made_model> construct_again(const module_making& how, const module_sheet& sheet,
                                       question_limits limits);
  /// Of a reference that only makes content: what describe() would have told it.
  answered<std::string> take_arguments(const module_making& how, const module_sheet& sheet,
                                       question_limits limits);
  /// Of a reference with a GPU: gives up its module and its model, and may load another one.
  /// False: the module changed settings of torch, which would be those of the next one.
  answered<bool> forget(question_limits limits);
  /// Of a reference with a GPU whose inputs are in place: calls its model in its precision and, if
  /// `in_f64`, in that. The text says how large results are and how far they are apart.
  answered<std::string> calibrate(bool in_f64, question_limits limits);
  /// Of a reference with a GPU that has a plan and a model: from now on it is called as this
  /// baseline (a name of baseline.hpp), in windows of `calls` calls. What compiles, tunes or
  /// captures does so here.
  answered<std::string> call_as(std::string_view baseline, int calls, question_limits limits);
  /// In a process that has loaded nothing: runs the module with builds of extensions replaced, to
  /// learn which it asks for. The text is for parse_recorded_extensions().
  answered<std::string> record(const std::string& path, question_limits limits);
  /// Behind record(): makes its model, without memory, and answers in the same way with all that
  /// was asked for so far. `init`: as module_sheet::init.
  answered<std::string> record_making(const std::string& init, question_limits limits);
  /// Behind that: calls the model. `inputs`: of arguments_json(), or null: by get_inputs of the
  /// module, if it has that.
  answered<std::string> record_call(const base::json& inputs, question_limits limits);
  /// In a process that has loaded nothing and is ended then: which Triton kernels a text launches.
  /// `job`: of triton_recorder.py; the text has one of its lines in each line.
  answered<std::string> record_kernels(const base::json& job, question_limits limits);
  /// In a process that has loaded nothing: KernelBench's own evaluation of a reference and a
  /// candidate, which share the process. `question`: of exact_question(); the text is for
  /// parse_exact_answer().
  answered<std::string> kernelbench_exact(const base::json& question, question_limits limits);
  /// Of a candidate with a GPU that was started to profile, whose inputs are in place and which has
  /// made no call: what it tells of how it computes. The text is for parse_evidence().
  answered<std::string> evidence(question_limits limits);
  /// Gives it a file for answers; load() does so, too.
  answered<runner::reply> open(question_limits limits);

 private:
  /// Maps the file for reading, or for writing: where it lies there.
  answered<std::uint64_t> map(const memory_file& file, python_file as, question_limits limits);
  answered<std::string> ask(const base::json& question, question_limits limits);
  /// `weights`: the keys that say which and where.
  answered<made_model> construct_from(const module_making& how, const module_sheet& sheet,
                                      const base::json& weights, question_limits limits,
                                      named_weights named);

  base::killed_at_end process_;
  runner_link link_;
  memory_file sheet_;
  layer_set layers_;
  bool stood_ready_ = false;
  std::string folder_;
};

/// Memory for the weights of a model, still zero; written by a reference, read by candidates.
base::expected<module_weights> make_weights(const module_sheet& sheet, memory_use use);
/// Where they lie in a region of a device. Errors as weight_layouts().
base::expected<lent_weights> places_of_weights(const module_sheet& sheet, std::int32_t region);

}  // namespace quern::env
