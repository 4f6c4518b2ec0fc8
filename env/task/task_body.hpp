// The body of a task: what a task has beyond the head that all lanes share. A lane names the format
// of its bodies; shared code asks a body through this interface and knows no lane's fields.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "env/task/task_check.hpp"

namespace quern::env {

struct task;
class task_body;
class yaml_map;

/// Keys of a body in a task file, by the places that they have in the canonical form.
struct body_keys {
  std::span<const std::string_view> after_family;
  std::span<const std::string_view> after_baseline;
  std::span<const std::string_view> after_reference;
};

/// What characters a reference may have beside line breaks and tabs; never control characters.
enum class reference_text { printable_ascii, utf8 };

/// How bodies of one kind stand in task files. A constant for as long as the program runs, compared
/// by address: lanes whose tasks have the same fields name the same format.
struct body_format {
  std::string_view name;  ///< for messages: "tensors"
  body_keys keys;
  /// UTF-8 where others wrote the references, whose comments have it.
  reference_text reference = reference_text::printable_ascii;
  /// Reads the body's keys of a task file, which has no keys but those of the head and of this
  /// format. Checks no rules (task_body::validate() does). Errors say where and what is allowed.
  base::expected<std::shared_ptr<const task_body>> (*read)(const yaml_map& file);
};

/// Lines of the canonical form, each with its line break, for the places of body_keys.
struct body_text {
  std::string after_family;
  std::string after_baseline;
  std::string after_reference;
};

/// What templates of prompts say of a body, without a line break at the end. Hidden parts of a task
/// never appear.
struct body_words {
  std::string signature;  ///< {{task.signature}}: names and shapes of arguments, in one line
  std::string sizes;      ///< {{task.sizes}}
  std::string inputs;     ///< {{task.inputs}}: a line each
  std::string outputs;    ///< {{task.outputs}}: a line each
};

/// Immutable, so that tasks that are copied share it; any thread may ask it. Functions that take a
/// task `of` are called with the task whose body this is.
class task_body {
 public:
  virtual ~task_body() = default;

  [[nodiscard]] virtual const body_format& format() const = 0;
  /// Whether `other` is of the same class and has the same value.
  [[nodiscard]] virtual bool equals(const task_body& other) const = 0;
  /// What the canonical form says of it: equal bodies have equal text, others have other text.
  [[nodiscard]] virtual body_text text() const = 0;
  /// Refuses what breaks a rule of the format. The head's own rules hold already. Among the rules
  /// are those of the reference's kind, and that a baseline `plain` is there.
  [[nodiscard]] virtual base::status validate(const task& of) const = 0;
  /// What is wrong with the texts of a valid task, found without running any of them.
  [[nodiscard]] virtual std::vector<task_finding> check_texts(const task& of) const = 0;
  /// Whether the task has a plain kernel, over which a suite may want speed-ups.
  [[nodiscard]] virtual bool has_plain() const = 0;
  [[nodiscard]] virtual body_words words(const task& of) const = 0;

 protected:
  task_body() = default;
  task_body(const task_body&) = default;
  task_body(task_body&&) = default;
  task_body& operator=(const task_body&) = default;
  task_body& operator=(task_body&&) = default;
};

}  // namespace quern::env
