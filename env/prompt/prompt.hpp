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
#include "env/task/task.hpp"

namespace quern::env {

/// A template file: a first line "quern_prompt: 1", a second "name: NAME", a line "---", then text.
/// In the text
///   {{task.name}} {{task.family}} {{task.reference}} {{task.prototype}} {{task.workspace}}
///   {{task.sizes}}
///   {{task.inputs}} {{task.outputs}} {{task.tolerance}} {{lane}} {{language}} {{device_class}}
///   {{baseline}} {{restrictions}}
/// stand for what they say, and
///   {{#exemplars}} … {{exemplar.number}} {{exemplar.score}} {{exemplar.code}} … {{/exemplars}}
///   once for each
///   {{#no_exemplars}} … {{/no_exemplars}} when there are none
/// A tag alone on its line takes the line break with it. Anything else between double braces is an
/// error.
class prompt_template {
 public:
  /// Errors name the line and, for an unknown placeholder, the nearest known one.
  static base::expected<prompt_template> parse(std::string_view text);
  static base::expected<prompt_template> load(const std::filesystem::path& file);

  const std::string& name() const { return name_; }

  /// xxh128 of the file's bytes: what the ledger stores as template_hash.
  base::hash128 hash() const { return hash_; }

 private:
  friend std::string render_prompt(const prompt_template&, const task&,
                                   std::span<const struct exemplar>, const struct prompt_facts&);

  /// Literal text, a placeholder, or the beginning or end of a block.
  struct piece {
    enum class kind { text, value, block_begin, block_end } what;
    std::string text;
  };

  std::string name_;
  base::hash128 hash_;
  std::vector<piece> pieces_;
};

/// A prior variant shown with its score.
struct exemplar {
  std::string code;
  std::int64_t speedup_e2 = 0;  ///< over the task's baseline, in 1/100
};

/// What is true of where the kernel will run.
struct prompt_facts {
  std::string device_class;  ///< from the closed list: "cpp-avx2", "H200-SXM"
  std::vector<std::string>
      restrictions;  ///< sentences, from default_restrictions and the suite's policy
};

/// The sentences for a lane: what is forbidden and why it gives no reward.
std::vector<std::string> default_restrictions(lane where);

/// The prompt's text. Exemplars are shown in the order given. Hidden sizes and distributions never
/// appear.
std::string render_prompt(const prompt_template& form, const task& what,
                          std::span<const exemplar> exemplars, const prompt_facts& facts);

}  // namespace quern::env
