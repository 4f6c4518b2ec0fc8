// The body of a task of the toy lanes, which has no tensors: the word that a text must name, and
// how many lines a text has that is as fast as the baseline.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "env/task/task.hpp"

namespace quern::env {

extern const body_format toy_format;

struct toy_body final : task_body {
  std::string word;
  std::int64_t lines = 0;

  [[nodiscard]] const body_format& format() const override { return toy_format; }
  [[nodiscard]] bool equals(const task_body& other) const override;
  [[nodiscard]] body_text text() const override;
  [[nodiscard]] base::status validate(const task& of) const override;
  /// A reference that names the word would be a candidate itself.
  [[nodiscard]] std::vector<task_finding> check_texts(const task& of) const override;
  [[nodiscard]] bool has_plain() const override { return false; }
  [[nodiscard]] body_words words(const task& of) const override;
};

/// The body of a task of a toy lane. Throws std::logic_error where the task has none or another.
const toy_body& toy_of(const task& what);

}  // namespace quern::env
