// A lane: what candidates are written in and run on. Its definition (env/lanes) names all that
// differs from lane to lane; everything else asks the definition.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.hpp"
#include "base/status.hpp"
#include "env/verdict/baseline.hpp"

namespace quern::env {

class candidate_judge;
class kernel_grammar;
class task_checker;
enum class dtype;
struct body_format;
struct evaluator_options;
struct lane_on_gpus;
struct suite_policy;
struct task;
struct task_source;
struct verdict;

/// What a candidate runs on, alone while it is measured. A GPU is named by its driver's number.
enum class device_kind { core, gpu };

/// One for each lane, constant and for as long as the program runs: compared by address. Functions
/// may be called from any thread.
struct lane {
  /// In task files, keys, verdicts and on the wire.
  std::string_view name;
  /// What a person who chooses is told: "C++ on one core".
  std::string_view summary;
  /// As prompts name it.
  std::string_view language;
  /// Ending of a candidate's file, with its dot.
  std::string_view file_ending;
  /// The word behind the fences of a candidate's code in prompts and corpora. A completion is read
  /// whatever its fence says.
  std::string_view fence;
  device_kind device;
  /// Of a lane on cores whose judge can be opened on a GPU, too (evaluator_options::on_gpu): what
  /// differs there (env/task/lane_on_gpus.hpp). Null: it judges on its device alone.
  const lane_on_gpus* on_gpus_too = nullptr;
  /// Device class that prompts name where the machine has no such device (`--dry-run`).
  std::string_view usual_device_class;
  /// What its tasks have beyond the head, and how that is read from a task file
  /// (env/task/task_body.hpp). Never null.
  const body_format* body;
  /// Which files and names of others are its tasks as they are (env/task/task_source.hpp). Null:
  /// its tasks are task files alone.
  const task_source* tasks_from;
  /// Types that arguments of kernels may have; empty where tasks name no types.
  std::span<const dtype> element_types;
  /// What a run or a suite may name to measure over. A task's own baseline is always allowed.
  /// These and `protocols` are those of its device; of a GPU too: lane_on_gpus.
  std::span<const baseline_choice> baselines;
  /// Protocols that it measures by (env/measure/protocols.hpp).
  std::span<const std::string_view> protocols;
  /// Whether candidates can do without host code of their own, so that a suite or a run may forbid
  /// it, and with it graphs and libraries.
  bool host_code_is_optional;
  /// Shortest time of a baseline that is measured well, ns a call. No sharp limit, since machines
  /// differ: `check_baseline_time` of env/tensor_task says what is refused.
  std::int64_t least_baseline_ns;
  /// Speed-up x 100 above which a claim is measured again where a suite does not say.
  std::int64_t usual_recheck_above_e2;
  /// Tasks of a corpus whose candidates are compiled ahead of the one that is judged; 0: none, the
  /// device waits for compilers anyway.
  int corpus_tasks_ahead;

  /// Hash of a candidate's text: two texts with one hash are one candidate.
  base::hash128 (*identity)(std::string_view source);
  /// Declarations without their semicolons, never empty: of what a candidate must define, and of
  /// what it may define beside it to ask for scratch memory. The latter is null where a candidate
  /// needs nobody for that.
  std::string (*entry)(const task& what);
  std::string (*optional_entry)(const task& what);
  /// The rules that prompts state beside those of every lane, one sentence each.
  std::vector<std::string> (*restrictions)(const suite_policy& allowed);
  /// What the author of a candidate with this verdict should do. Asked for the kinds that mean
  /// something else in each lane: rejected_static, runtime_error, oom, noisy.
  std::string (*advice)(const verdict& v, const task& what);
  /// Text of a commented task file to start from. Error: a name that a task cannot have.
  base::expected<std::string> (*new_task)(std::string_view name);

  /// A new judge on core `options.core` or GPU `options.gpu` of this machine. Errors say what is
  /// missing and what to do; invalid_argument: an option's value.
  base::expected<std::unique_ptr<candidate_judge>> (*open_judge)(evaluator_options options);
  /// The checks of `quern tasks check`, on the device of a judge. Null: tasks of this lane cannot
  /// be checked.
  base::expected<std::unique_ptr<task_checker>> (*open_checker)(const evaluator_options& options);
  /// A checker for check_quickly(), with which `train` tries the tasks of a suite before it starts;
  /// on any machine. Null: their texts are read, and nothing is tried.
  base::expected<std::unique_ptr<task_checker>> (*open_quick_checker)(
      const evaluator_options& options);
  /// Looks for what a judge needs on this machine beside quern-torch. It compiles and measures
  /// nothing, since it is asked before each run. Error: what is missing and what to do. Null:
  /// nothing is needed.
  base::status (*check_programs)();
  /// Compiles a text of ours as a candidate is: the compiler's version. Error: what is wrong on
  /// this machine. Null: quern doctor has nothing to try.
  base::expected<std::string> (*try_compiler)();
  /// Class of the device of this machine, a GPU by its number. Error: unavailable.
  base::expected<std::string> (*device_class)(int gpu);

  /// Grammar of generated tasks, for as long as the program runs; null: this lane has none.
  const kernel_grammar* (*grammar)();
};

/// All there are. A program has the lanes whose list it links (env/lanes/all_lanes.cpp).
std::span<const lane* const> all_lanes();

/// Null: there is none of that name.
const lane* find_lane(std::string_view name);

std::vector<std::string_view> lane_names();

/// What speed-ups of the task are over unless somebody asks for another baseline: eager or plain.
baseline_choice own_baseline(const task& what);

/// `on_gpu`: whether a GPU is asked for (evaluator_options::on_gpu), which matters to lanes that
/// have both (lane::on_gpus_too). Error: invalid_argument, saying which baselines the lane has
/// there, or which the task has, and where else the one that is asked for is.
base::status check_baseline(const lane& where, bool on_gpu, baseline_choice asked);
base::status check_baseline(const task& what, bool on_gpu, baseline_choice asked);

/// Error: invalid_argument, naming the protocols that the lane has there.
base::status check_protocol(const lane& where, bool on_gpu, std::string_view protocol);

}  // namespace quern::env
