// Rules about the text of references: what TorchScript refuses, and what would make a bad judge.
#include <algorithm>
#include <array>
#include <cctype>

#include <fmt/ranges.h>

#include "base/text.hpp"
#include "env/tensor_task/check.hpp"
#include "env/tensor_task/tensor_body.hpp"

namespace quern::env {

namespace {

struct banned_word {
  std::string_view word;
  std::string_view rule;
  std::string_view advice;
};

constexpr std::string_view random_advice = "a reference must give the same result every time";
constexpr std::string_view file_advice = "a reference only computes";
constexpr std::string_view cast_advice =
    "it would round where the candidate need not; cast integers with .to(other.dtype) or "
    ".type_as(other)";
constexpr std::string_view empty_advice =
    "its content is whatever was in memory; use zeros or full";
constexpr std::string_view script_advice =
    "TorchScript text knows torch.<operator> and methods only";

constexpr auto banned = std::to_array<banned_word>({
    {"rand", "random", random_advice},
    {"randn", "random", random_advice},
    {"randint", "random", random_advice},
    {"rand_like", "random", random_advice},
    {"randn_like", "random", random_advice},
    {"randint_like", "random", random_advice},
    {"randperm", "random", random_advice},
    {"bernoulli", "random", random_advice},
    {"multinomial", "random", random_advice},
    {"normal", "random", random_advice},
    {"poisson", "random", random_advice},
    {"dropout", "random", random_advice},
    {"alpha_dropout", "random", random_advice},
    {"feature_dropout", "random", random_advice},
    {"rrelu", "random", random_advice},
    {"manual_seed", "random", random_advice},
    {"seed", "random", random_advice},
    {"open", "file", file_advice},
    {"save", "file", file_advice},
    {"load", "file", file_advice},
    {"from_file", "file", file_advice},
    {"print", "file", file_advice},
    {"half", "down_cast", cast_advice},
    {"bfloat16", "down_cast", cast_advice},
    {"float16", "down_cast", cast_advice},
    {"float32", "down_cast", cast_advice},
    {"short", "down_cast", cast_advice},
    {"char", "down_cast", cast_advice},
    {"quantize_per_tensor", "down_cast", cast_advice},
    {"empty", "uninitialised", empty_advice},
    {"empty_like", "uninitialised", empty_advice},
    {"new_empty", "uninitialised", empty_advice},
    {"empty_strided", "uninitialised", empty_advice},
    {"import", "script", script_advice},
    {"F", "script", script_advice},
    {"math", "script", script_advice},
    {"nn", "script", script_advice},
    {"linalg", "script", "write torch.linalg_vector_norm instead of torch.linalg.vector_norm"},
});

bool is_word_char(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

/// The text with comments and the content of string literals blanked out, line breaks kept.
std::string code_only(std::string_view text) {
  std::string result(text);
  char quote = 0;
  bool comment = false;
  for (std::size_t i = 0; i < result.size(); ++i) {
    const char c = text[i];
    if (c == '\n') {
      comment = false;
      quote = 0;
    } else if (comment || (quote != 0 && c != quote)) {
      result[i] = ' ';
    } else if (quote != 0) {
      quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '#') {
      comment = true;
      result[i] = ' ';
    }
  }
  return result;
}

struct word {
  std::string_view text;
  char before =
      ' ';           // last character that is not a space before it, ' ' at the beginning of a line
  char after = ' ';  // first one behind it
  std::size_t line = 1;
};

std::vector<word> words_of(std::string_view code) {
  std::vector<word> result;
  std::size_t line = 1;
  char before = ' ';
  for (std::size_t i = 0; i < code.size();) {
    if (!is_word_char(code[i])) {
      if (code[i] == '\n') ++line;
      if (code[i] == '\n' || code[i] != ' ') before = code[i] == '\n' ? ' ' : code[i];
      ++i;
      continue;
    }
    const std::size_t begin = i;
    while (i < code.size() && is_word_char(code[i]))
      ++i;
    const std::size_t next = code.find_first_not_of(" \t", i);
    result.push_back(
        {code.substr(begin, i - begin), before, next < code.size() ? code[next] : '\n', line});
    before = code[i - 1];
  }
  return result;
}

void check_words(std::string_view code, std::vector<task_finding>& findings) {
  for (const word& one : words_of(code)) {
    const bool called = one.after == '(';
    const bool member = one.before == '.';
    // A bare name that is not called (a variable called `seed` or `F`) does no harm; F. and nn. do.
    const bool used = called || member || one.after == '.' || one.text == "import";
    const auto found = std::find_if(banned.begin(), banned.end(),
                                    [&](const banned_word& b) { return b.word == one.text; });
    if (used && found != banned.end()) {
      findings.push_back({true, std::string(found->rule),
                          fmt::format("line {} of the reference uses '{}': {}", one.line, one.text,
                                      found->advice)});
    } else if (called && (one.text == "float" || one.text == "double") && member) {
      findings.push_back({true, "down_cast",
                          fmt::format("line {} of the reference uses '.{}()': {}", one.line,
                                      one.text, cast_advice)});
    } else if (called && one.text.size() > 1 && one.text.back() == '_' &&
               !one.text.ends_with("__")) {
      findings.push_back(
          {true, "in_place",
           fmt::format(
               "line {} of the reference uses the in-place operator '{}': use the one without _",
               one.line, one.text)});
    } else if (one.text == "out" && one.after == '=' && (one.before == ',' || one.before == '(')) {
      findings.push_back(
          {true, "in_place",
           fmt::format("line {} of the reference uses 'out=': return the result", one.line)});
    }
  }
}

void check_assignments(std::string_view code, std::vector<task_finding>& findings) {
  for (std::size_t i = 1; i + 1 < code.size(); ++i) {
    if (code[i] != '=' || code[i + 1] == '=') continue;
    const std::size_t last = code.find_last_not_of(" \t", i - 1);
    const char before = last == std::string_view::npos ? ' ' : code[last];
    const bool augmented =
        i - 1 == last && std::string_view("+-*/%&|^@").find(before) != std::string_view::npos;
    if (!augmented && before != ']') continue;
    findings.push_back(
        {true, "in_place",
         fmt::format(
             "line {} of the reference assigns into a tensor: TorchScript does that in place; "
             "make a new one (x = x + y, torch.where, torch.cat)",
             1 + std::count(code.begin(), code.begin() + static_cast<std::ptrdiff_t>(i), '\n'))});
  }
}

/// Names of forward's parameters, without annotations and defaults; nothing where there is no
/// forward.
std::optional<std::vector<std::string>> forward_parameters(std::string_view code) {
  const std::size_t at = code.find("def forward(");
  if (at == std::string_view::npos) return std::nullopt;
  const std::size_t begin = at + std::string_view("def forward(").size();
  const std::size_t end = code.find(')', begin);
  if (end == std::string_view::npos) return std::nullopt;
  std::vector<std::string> result;
  for (const std::string_view part : base::split(code.substr(begin, end - begin), ',')) {
    const std::string_view name = base::trim(part.substr(0, part.find_first_of(":=")));
    if (!name.empty()) result.emplace_back(name);
  }
  return result;
}

}  // namespace

std::vector<task_finding> check_reference_text(const task& what) {
  std::vector<task_finding> findings;
  const std::string code = code_only(what.reference);
  const auto parameters = forward_parameters(code);
  std::vector<std::string> inputs;
  for (const input_spec& input : tensors_of(what).inputs)
    inputs.push_back(input.name);
  if (!parameters) {
    findings.push_back(
        {true, "signature",
         "the reference does not define forward: write def forward(...) at the left edge"});
  } else if (*parameters != inputs) {
    findings.push_back(
        {true, "signature",
         fmt::format(
             "forward takes ({}), the inputs are ({}): use the same names in the same order",
             fmt::join(*parameters, ", "), fmt::join(inputs, ", "))});
  }
  check_words(code, findings);
  check_assignments(code, findings);
  return findings;
}

}  // namespace quern::env
