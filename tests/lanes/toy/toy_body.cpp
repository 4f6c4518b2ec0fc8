#include "lanes/toy/toy_body.hpp"

#include <array>
#include <stdexcept>

#include <fmt/format.h>

#include "env/task/yaml_reader.hpp"

namespace quern::env {

namespace {

constexpr std::array<std::string_view, 1> word_keys{"word"};
constexpr std::array<std::string_view, 1> line_keys{"lines"};

base::expected<std::shared_ptr<const task_body>> read_toy_body(const yaml_map& file) {
  auto body = std::make_shared<toy_body>();
  QUERN_TRY(body->word, file.text("word"));
  QUERN_TRY(body->lines, file.integer("lines"));
  return body;
}

}  // namespace

constexpr body_format toy_format{
    .name = "toy",
    .keys = {.after_family = word_keys, .after_baseline = line_keys, .after_reference = {}},
    .read = read_toy_body,
};

const toy_body& toy_of(const task& what) {
  const auto* toy = dynamic_cast<const toy_body*>(what.body.get());
  if (toy == nullptr) throw std::logic_error(fmt::format("task '{}' is no toy", what.name));
  return *toy;
}

bool toy_body::equals(const task_body& other) const {
  const auto* toy = dynamic_cast<const toy_body*>(&other);
  return toy != nullptr && toy->word == word && toy->lines == lines;
}

body_text toy_body::text() const {
  return {fmt::format("word: {}\n", word), fmt::format("lines: {}\n", lines), {}};
}

base::status toy_body::validate(const task& of) const {
  if (!is_identifier(word, 20))
    return base::fail(base::errc::invalid_argument, "'{}' is no word: use small letters", word);
  if (lines < 1)
    return base::fail(base::errc::invalid_argument, "lines is {}, it must be at least 1", lines);
  if (of.baseline == baseline_kind::plain)
    return base::fail(base::errc::invalid_argument, "toys have no baseline 'plain': use reference");
  return {};
}

std::vector<task_finding> toy_body::check_texts(const task& of) const {
  if (of.reference.find(word) == std::string::npos) return {};
  return {{true, "told", fmt::format("the reference names '{}': leave it out", word)}};
}

body_words toy_body::words(const task& /*of*/) const {
  return {fmt::format("a text with '{}'", word), fmt::format("{} lines", lines), "none",
          "- a text"};
}

}  // namespace quern::env
