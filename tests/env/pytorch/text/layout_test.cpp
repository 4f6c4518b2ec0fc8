// Layout never changes the identity of a Python module, and any other change does.
#include <array>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/random.hpp"
#include "env/lanes/pytorch/text/python_identity.hpp"
#include "support/test.hpp"

using namespace quern;
using env::python_hash;
using env::python_token_kind;
using env::python_tokens;
using env::tokenize_python;

namespace {

constexpr auto words = std::to_array<std::string_view>({"a",
                                                        "self",
                                                        "torch",
                                                        "f",
                                                        "rb",
                                                        "if",
                                                        "in",
                                                        "not",
                                                        "lambda",
                                                        "1",
                                                        "0x1f",
                                                        "1.5e-3",
                                                        ".5",
                                                        "1_0j",
                                                        "'x'",
                                                        "\"\"",
                                                        "r'\\d'",
                                                        "b'y'",
                                                        "'''z\n  # no comment\n'''",
                                                        "\"\"\"\\\n\"\"\"",
                                                        "f'{x!r:>{w}}'",
                                                        "f'{a[\"b\"]} {{ }}'",
                                                        "f'{a['b']}'",
                                                        "f'''{\nx  # in it\n}'''",
                                                        "t'{x}'",
                                                        "+",
                                                        "-",
                                                        "*",
                                                        "**",
                                                        "/",
                                                        "//",
                                                        "=",
                                                        "==",
                                                        "!=",
                                                        ":=",
                                                        "->",
                                                        "<",
                                                        "<<=",
                                                        ".",
                                                        "...",
                                                        ",",
                                                        ":",
                                                        ";",
                                                        "@",
                                                        "~",
                                                        "\xCF\x83"});

/// A text of tokens that need not be a program.
std::string random_python(std::uint64_t index) {
  base::random_stream random(23, "python", {index});
  std::string text;
  std::size_t level = 0;
  const auto lines = 1 + random.below(8);
  for (std::uint64_t line = 0; line < lines; ++line) {
    level = random.chance(0.3) ? level + 1 : random.below(level + 1);
    if (line == 0) level = 0;
    text.append(level, ' ');
    std::string open;
    const auto count = 1 + random.below(9);
    for (std::uint64_t i = 0; i < count; ++i) {
      if (random.chance(0.15)) {
        const auto which = random.below(3);
        text += "([{"[which];
        open += ")]}"[which];
      } else {
        text += words[random.below(words.size())];
      }
      text += ' ';
      if (!open.empty() && random.chance(0.3)) {
        text += open.back();
        text += ' ';
        open.pop_back();
      }
    }
    for (; !open.empty(); open.pop_back())
      text += open.back();
    text += '\n';
  }
  return text;
}

std::string golden_module(std::string_view name) {
  const auto text = base::read_file(test::source_dir() / "tests/golden/pytorch/identity.json");
  REQUIRE(text);
  const auto entries = base::parse_json(*text);
  REQUIRE(entries);
  for (const auto& entry : *entries)
    if (entry.at("name") == name) return entry.at("text").get<std::string>();
  FAIL("no golden text ", std::string(name));
  return {};
}

/// The text of tokens, laid out at random.
class layouter {
 public:
  layouter(const python_tokens& cut, std::uint64_t index)
      : cut_(cut), random_(29, "layout", {index}) {}

  std::string run() {
    const std::string_view end = pick({"\n", "\r\n", "\r"});
    if (random_.chance(0.2)) text_ += "#!/usr/bin/python\n";
    if (random_.chance(0.2)) text_ += "# -*- coding: utf-8 -*-\n";
    for (const auto& one : cut_.tokens)
      token(one);
    empty_lines();
    // A backslash has to be followed by a line.
    if (random_.chance(0.2) && text_.ends_with('\n') && !text_.ends_with("\\\n\n"))
      text_.pop_back();
    std::string whole = random_.chance(0.2) ? "\xEF\xBB\xBF" : "";
    for (const char c : text_)
      whole += c == '\n' ? end : std::string_view(&c, 1);
    return whole;
  }

 private:
  std::string_view pick(std::initializer_list<std::string_view> from) {
    return from.begin()[random_.below(from.size())];
  }

  void empty_lines() {
    while (random_.chance(0.2)) {
      text_ +=
          pick({"\n", "   \n", "\t\n", "\f\n", "# x\n", "                # )]}'''\n", "\t#y\n"});
    }
  }

  void token(const env::python_token& one) {
    if (one.kind == python_token_kind::indent) {
      columns_.push_back(columns_.back() +
                         std::string(pick({" ", "  ", "    ", "\t", "       ", " \t"})));
      return;
    }
    if (one.kind == python_token_kind::dedent) {
      columns_.pop_back();
      return;
    }
    if (one.kind == python_token_kind::newline) {
      text_ += pick({"", "", " ", "\t", "  # z", " \\\n", " \f"});
      text_ += '\n';
      is_first_ = true;
      return;
    }
    const std::string_view word = cut_.text_of(one);
    if (is_first_) {
      empty_lines();
      text_ += columns_.back();
    } else {
      gap(word);
    }
    text_ += word;
    is_first_ = false;
    is_glue_ = is_bracket(word) || word == ",";
    if (one.kind == python_token_kind::operation && is_bracket(word))
      open_ += std::string_view("([{").find(word) != std::string_view::npos ? 1 : -1;
  }

  static bool is_bracket(std::string_view word) {
    return word.size() == 1 && std::string_view("()[]{}").find(word) != std::string_view::npos;
  }

  void gap(std::string_view next) {
    if ((is_glue_ || is_bracket(next) || next == ",") && random_.chance(0.3)) return;
    text_ += pick({" ", " ", "  ", "\t", " \f ", " \\\n", "\\\n     ", " \\\n\\\n\t"});
    if (open_ > 0 && random_.chance(0.3)) {
      text_ += pick({"\n", "\n\n  ", " # x ' {\n", "\n# y\n", "\f\n"});
    }
  }

  const python_tokens& cut_;
  base::random_stream random_;
  std::string text_;
  std::vector<std::string> columns_{""};
  bool is_first_ = true;
  bool is_glue_ = false;
  int open_ = 0;
};

void check_layouts(const std::string& text, std::uint64_t seed, std::uint64_t count) {
  const auto cut = tokenize_python(text);
  REQUIRE_FALSE(cut.fault);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::string anew = layouter(cut, seed + i).run();
    CAPTURE(text);
    CAPTURE(anew);
    REQUIRE(env::canonical_python(anew) == env::canonical_python(text));
    REQUIRE(python_hash(anew) == python_hash(text));
  }
}

/// Another token of its kind; none: it has no text.
std::string other_than(python_token_kind kind, std::string_view word) {
  switch (kind) {
    case python_token_kind::name:
      return std::string(word) + "_";
    case python_token_kind::number:
      return word == "7" ? "8" : "7";
    case python_token_kind::string:
      return word == "'p'" ? "'q'" : "'p'";
    case python_token_kind::formatted:
      return std::string(word.substr(0, word.find_first_of("'\""))) + "'{p}'";
    case python_token_kind::operation:
      return word == "%" ? "&" : "%";
    default:
      return " ";
  }
}

void check_changes(const std::string& source) {
  // Without comments and blank lines, which could stand for what is taken away.
  const std::string text = env::python_spelling(tokenize_python(source));
  const auto cut = tokenize_python(text);
  REQUIRE_FALSE(cut.fault);
  REQUIRE_FALSE(env::python_sees_layout(text));
  for (const auto& one : cut.tokens) {
    if (one.begin == one.end || one.end == text.size()) continue;
    std::string changed = cut.text;
    changed.replace(one.begin, one.end - one.begin, other_than(one.kind, cut.text_of(one)));
    CAPTURE(text);
    CAPTURE(changed);
    REQUIRE(python_hash(changed) != python_hash(text));
    if (one.kind == python_token_kind::newline) continue;
    std::string without = cut.text;
    without.replace(one.begin, one.end - one.begin, " ");
    CAPTURE(without);
    REQUIRE(python_hash(without) != python_hash(text));
  }
}

}  // namespace

TEST_CASE("layout never changes the identity of a module") {
  for (const char* name : {"a reference", "a candidate with inline CUDA", "a candidate with Triton",
                           "f-strings with comments and lines inside", "operators"})
    check_layouts(golden_module(name), 0, 200);
}

TEST_CASE("layout never changes the identity, whatever a text is made of") {
  for (std::uint64_t i = 0; i < 3000; ++i)
    check_layouts(random_python(i), 1000 + 4 * i, 4);
}

TEST_CASE("every token is part of the identity") {
  for (const char* name :
       {"a reference", "a candidate with inline CUDA", "a candidate with Triton"})
    check_changes(golden_module(name));
  for (std::uint64_t i = 0; i < 300; ++i)
    check_changes(random_python(i));
}

TEST_CASE("levels and statements are part of the identity") {
  const auto differ = [](std::string_view a, std::string_view b) {
    return python_hash(a) != python_hash(b);
  };
  CHECK(differ("if a:\n b\n c\n", "if a:\n b\nc\n"));
  CHECK(differ("if a:\n if b:\n  c\n d\n", "if a:\n if b:\n  c\n  d\n"));
  CHECK(differ("a\nb\n", "a; b\n"));
  CHECK(differ("a\n(b)\n", "a(b)\n"));
  CHECK(differ("a - -b\n", "a -- b\n") == false);
  CHECK(differ("a == b\n", "a = = b\n"));
  CHECK(differ("'a' 'b'\n", "'a b'\n"));
  CHECK(differ("'a'\n", "\"a\"\n"));
  CHECK(differ("f'{a}'\n", "f'{a }'\n"));
  CHECK(differ("'''a\n'''\n", "'''a\n\n'''\n"));
  CHECK(differ("def f():\n '''One.'''\n", "def f():\n '''Two.'''\n"));
}

TEST_CASE("a text that sees its layout, or that Python refuses, is what it is to the byte") {
  for (const char* text : {"a = __file__\n", "import inspect\n", "a = f'{b.lineno}'\n", "a = $\n",
                           "a = (\n", "a = 'x\n"}) {
    CAPTURE(text);
    CHECK(python_hash(text) == python_hash(std::string(text)));
    CHECK(python_hash(text) != python_hash(std::string("\n") + text));
    CHECK(python_hash(text) != python_hash(std::string("# c\n") + text));
    CHECK((env::canonical_python(text).form == env::python_form::bytes));
  }
  CHECK(env::python_sees_layout("a = f'{__file__}'"));
  CHECK_FALSE(env::python_sees_layout("a = '__file__'  # inspect"));
}
