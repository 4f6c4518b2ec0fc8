// A task: what a candidate has to compute, and what it is measured against. The value type of
// docs/formats/task.md, in two parts: the head below, which is the same in all lanes, and the body
// of its lane. Reading and writing files is in task_codec.hpp.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/status.hpp"
#include "env/task/lane.hpp"
#include "env/task/task_body.hpp"

namespace quern::env {

/// What speed-up is measured against: the reference run by ATen, or the task's own plain kernel.
enum class baseline_kind { reference, plain };

/// An element is right when |got - want| <= atol + rtol * |want|; both non-negative and finite.
struct tolerance {
  double atol = 0;
  double rtol = 0;
  friend bool operator==(const tolerance&, const tolerance&) = default;
};

/// A value: copies share the body, which is immutable. Equal are tasks with equal heads whose
/// bodies have equal values.
struct task {
  std::string name;
  const env::lane* lane = nullptr;  ///< never null in a valid task
  std::string family;
  env::tolerance tolerance;
  baseline_kind baseline = baseline_kind::reference;
  bool degenerate = false;  ///< the author says that a constant output or an ignored input is meant
  std::string reference;    ///< text of what must be computed; ends with one newline
  /// Never null in a valid task, and in the format of its lane.
  std::shared_ptr<const task_body> body;
  friend bool operator==(const task& a, const task& b);
};

/// "name@<32 hex digits>": the hash is xxh128 of canonical_text(). Two tasks with the same id are
/// the same task.
std::string task_id(const task& what);

/// The name part of an id ("softmax_rows" of "softmax_rows@0123…"); the whole text where there is
/// no '@'.
std::string_view task_name_of(std::string_view id);

/// The hash part of an id, empty where there is no '@'.
std::string_view task_hash_of(std::string_view id);

/// Longest reference or plain text of a task.
inline constexpr std::size_t max_block_bytes = 64 * 1024;

/// Refuses a task that breaks a rule of the format, whatever made it: the rules of the head (names,
/// tolerance, text of the reference), a body that is not in the format of its lane, and the rules
/// of the body.
base::status validate(const task& what);

/// Part of validate(), for texts of bodies: at most max_block_bytes of printable ASCII. `which`
/// names the text in the message.
base::status check_block(std::string_view which, std::string_view text);

/// The same for UTF-8 (reference_text::utf8): no control characters but line breaks and tabs.
base::status check_utf8_block(std::string_view which, std::string_view text);

/// Part of validate(): a small letter, then at most `longest` letters, digits and _ in all.
bool is_identifier(std::string_view text, std::size_t longest);

}  // namespace quern::env
