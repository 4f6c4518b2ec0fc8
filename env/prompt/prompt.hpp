// The prompt: a template file filled with a task, scored exemplars and the rules that hold.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.hpp"
#include "base/status.hpp"
#include "env/task/suite.hpp"
#include "env/task/task.hpp"

namespace quern::env {

/// A template file: a first line "quern_prompt: 1", a second "name: NAME", a line "---", then text.
/// In the text
///
///   {{task.name}} {{task.family}} {{task.reference}} {{task.prototype}} {{task.workspace}}
///   {{task.signature}} {{task.sizes}} {{task.inputs}} {{task.outputs}} {{task.tolerance}}
///   {{lane}} {{language}} {{fence}} {{device_class}} {{baseline}} {{restrictions}}
///
/// stand for what they say, and
///
///   {{#exemplars}} … {{exemplar.number}} {{exemplar.score}} {{exemplar.code}} … {{/exemplars}}
///   {{#no_exemplars}} … {{/no_exemplars}}
///
/// enclose what is written once for each exemplar, and what is written where there are none. A
/// block's tag that is alone on its line takes the line break with it. Blocks do not nest. Anything
/// else between double braces is an error. A value is never read as a template again.
class prompt_template {
 public:
  /// One stretch of a template.
  struct part {
    enum class kind { text, value, each_exemplar, no_exemplars, block_end } part_kind;
    std::string text;  ///< the literal text, or the placeholder's name
  };

  /// Errors name the line and, for an unknown placeholder, the nearest known one.
  static base::expected<prompt_template> parse(std::string_view text);

  /// Reads a file; errors begin with its path.
  static base::expected<prompt_template> load(const std::filesystem::path& file);

  const std::string& name() const { return name_; }

  /// xxh128 of the file's bytes: what the ledger stores as template_hash.
  base::hash128 hash() const { return hash_; }

  const std::vector<part>& parts() const { return parts_; }

 private:
  prompt_template() = default;

  std::string name_;
  base::hash128 hash_;
  std::vector<part> parts_;
};

inline constexpr int prompt_version = 1;

/// A prior variant shown with its score.
struct exemplar {
  std::string code;
  std::int64_t speedup_e2 = 0;  ///< over the task's baseline, in 1/100; 0 where it is wrong
  /// The name of a wrong variant's verdict; the score then reads "0.00 (wrong_value)". Empty: it is
  /// right. Not owned: name_of() gives texts that stay.
  std::string_view wrong = {};
};

/// What is true of where the kernel will run.
struct prompt_facts {
  std::string device_class;               ///< from the closed list: "cpp-avx2", "H200-SXM"
  std::vector<std::string> restrictions;  ///< sentences; see default_restrictions
  /// What speed-up is over where that is not the task's own.
  baseline_choice baseline = baseline_choice::of_task;
};

/// The rules of a lane under a suite's policy, one sentence each: what gives no reward, and why.
/// `on_gpu`: as measures_on_gpu() has it. A copy may be added to.
std::vector<std::string> default_restrictions(const lane& where, const suite_policy& allowed = {},
                                              bool on_gpu = false);

/// The prompt's text. Exemplars are shown in the order given. Hidden sizes and distributions never
/// appear.
std::string render_prompt(const prompt_template& form, const task& what,
                          std::span<const exemplar> exemplars, const prompt_facts& facts);

}  // namespace quern::env
