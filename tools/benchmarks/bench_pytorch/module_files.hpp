// Modules of tests/honest/pytorch and tests/hostile/pytorch as tests and bench_pytorch judge them:
// a text with a head of comments that says what it is.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "env/task/task.hpp"
#include "env/verdict/verdict.hpp"

namespace quern::tools {

/// A file "# key: value" lines first, then the text that is judged.
struct headed_text {
  std::map<std::string, std::string> head;
  std::string text;  ///< without the head; may be empty
};

/// The head ends at the first line that is no "# key: value" with one of `keys`. `name` is what
/// errors call the text. Error: invalid_argument: a key given twice, or one of `needed` missing.
base::expected<headed_text> parse_headed(std::string_view name, std::string_view text,
                                         const std::vector<std::string>& keys,
                                         const std::vector<std::string>& needed);

/// One honest candidate with its task.
struct honest_module {
  std::string name;   ///< of its file: "softmax.by_hand"
  std::string style;  ///< one line for people
  bool on_cores = false;
  bool is_supported = true;  ///< false: it needs a compiler where the module runs
  std::shared_ptr<const env::task> subject;
  std::string source;
};

/// One hostile, malformed or wrong candidate.
struct hostile_module {
  std::string name;     ///< of its file
  std::string attempt;  ///< one line for people
  std::string kind;     ///< wrong, malformed, hostile, reaching
  bool on_cores = true, on_gpus = true;
  bool only_timed = false;  ///< what it does wrong shows among timed calls alone
  bool is_small = false;    ///< it is after calls that are short, also on a GPU
  /// The verdicts that are right on a core; several: a race. `ok` is right where it does not pay.
  std::vector<env::verdict_kind> caught;
  std::string said, reason;  ///< parts of the verdict on a core; empty: any
  /// Layers without which it is `ok`: of judge_layer on a core, of check_layer on a GPU.
  std::vector<std::string> without, without_on_gpu;
  /// Why no layer can be left out to show what holds it; empty where one can, or where its kind
  /// needs no proof: `hostile` alone needs one of `without`, `without_on_gpu` and this.
  std::string exempt;
  /// docs/integrity.md says that nothing holds it: reported beside the others, never as caught.
  bool is_known_gap = false;
  std::string source;
};

/// What texts of hostile modules name by {folder} and {port}.
struct hostile_places {
  std::string folder;  ///< of temporary files, the evaluator's too
  int port = 0;        ///< of this machine, where somebody listens
};

/// The task of a reference's text, whose head may name its precision. `name` becomes part of its
/// name.
base::expected<std::shared_ptr<const env::task>> module_task_of(std::string_view name,
                                                                std::string_view text);

/// All of `tree`/tests/honest/pytorch in the order of their names. Errors name the file.
base::expected<std::vector<honest_module>> read_honest_modules(const std::filesystem::path& tree);

/// All of `tree`/tests/hostile/pytorch in the order of their names. Errors name the file.
base::expected<std::vector<hostile_module>> read_hostile_modules(const std::filesystem::path& tree,
                                                                 const hostile_places& places);

/// Whether a verdict blames the candidate, which then has a reward of 0.
bool is_own_fault(env::verdict_kind kind);

}  // namespace quern::tools
