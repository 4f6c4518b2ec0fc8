// Python source is cut as Python cuts it, and what it refuses is a fault with its line.
#include <string>
#include <vector>

#include "env/lanes/pytorch/text/python_facts.hpp"
#include "env/lanes/pytorch/text/python_tokens.hpp"
#include "support/test.hpp"

using namespace quern;
using env::python_fault_kind;
using env::python_token_kind;
using env::tokenize_python;

namespace {

/// Tokens as one line: their texts, and signs for lines and levels.
std::string cut(std::string_view source) {
  const auto all = tokenize_python(source);
  std::string said;
  for (const auto& one : all.tokens) {
    if (!said.empty()) said += ' ';
    switch (one.kind) {
      case python_token_kind::newline:
        said += "NL";
        break;
      case python_token_kind::indent:
        said += ">>";
        break;
      case python_token_kind::dedent:
        said += "<<";
        break;
      case python_token_kind::formatted:
        said += "F:" + std::string(all.text_of(one));
        break;
      case python_token_kind::string:
        said += "S:" + std::string(all.text_of(one));
        break;
      case python_token_kind::number:
        said += "N:" + std::string(all.text_of(one));
        break;
      default:
        said += all.text_of(one);
    }
  }
  if (all.fault) said += " !" + std::string(to_string(all.fault->kind));
  return said;
}

void check_fault(std::string_view source, python_fault_kind kind, std::uint32_t line) {
  const auto all = tokenize_python(source);
  CAPTURE(std::string(source.substr(0, 80)));
  REQUIRE(all.fault);
  CHECK(to_string(all.fault->kind) == to_string(kind));
  CHECK(all.fault->line == line);
}

}  // namespace

TEST_CASE("lines and levels") {
  CHECK(cut("") == "");
  CHECK(cut("# a\n\n") == "");
  CHECK(cut("a") == "a NL");
  CHECK(cut("if a:\n b\n # c\nd") == "if a : NL >> b NL << d NL");
  CHECK(cut("if a:\n if b:\n  c") == "if a : NL >> if b : NL >> c NL << <<");
  CHECK(cut("(a\n  # b\n c)\n") == "( a c ) NL");
  CHECK(cut("a \\\n  b\n") == "a b NL");
  CHECK(cut("  a\nb") == ">> a NL << b NL");
  CHECK(cut("if a:\n  \\\n      b\n  c\n") == "if a : NL >> b NL c NL <<");
  CHECK(cut("\\\n\na") == "a NL");
}

TEST_CASE("lines of tokens are those of the text") {
  const auto all = tokenize_python("a\n\n'''\n'''  b\n(\n c, \\\n d)\r\ne\rf'''{\n1}''' g");
  std::string lines;
  for (const auto& one : all.tokens)
    if (one.kind == python_token_kind::name)
      lines += std::string(all.text_of(one)) + std::to_string(one.line) + " ";
  CHECK(lines == "a1 b4 c6 d7 e8 g10 ");
}

TEST_CASE("strings of all prefixes") {
  CHECK(cut("r'\\'' b'x'rb'y'") == "S:r'\\'' S:b'x' S:rb'y' NL");
  CHECK(cut("ur'x'") == "ur S:'x' NL");
  CHECK(cut("fb'x'") == "fb S:'x' NL");
  CHECK(cut("xf'a'") == "xf S:'a' NL");
  CHECK(cut("''''a'''") == "S:''''a''' NL");
  CHECK(cut("'' ''''''''") == "S:'' S:'''''' S:'' NL");
  CHECK(cut("'a\\\nb'") == "S:'a\\\nb' NL");
  CHECK(cut("a if b else'c'") == "a if b else S:'c' NL");
}

TEST_CASE("an f-string is one token, by the rules of 3.12") {
  CHECK(cut("f'{a['b']}'c") == "F:f'{a['b']}' c NL");
  CHECK(cut("f\"{f\"{f\"{1}\"}\"}\" + 1") == "F:f\"{f\"{f\"{1}\"}\"}\" + N:1 NL");
  CHECK(cut("f'{{}}{{{a}}}'") == "F:f'{{}}{{{a}}}' NL");
  CHECK(cut("f'{a:{w}}}}'") == "F:f'{a:{w}}}}' NL");
  CHECK(cut("f'{a:>{w}.{p}}' b") == "F:f'{a:>{w}.{p}}' b NL");
  CHECK(cut("f'{a # c '\n}' b") == "F:f'{a # c '\n}' b NL");
  CHECK(cut("f'{\"}\"}' b") == "F:f'{\"}\"}' b NL");
  CHECK(cut("f'\\{a}' b") == "F:f'\\{a}' b NL");
  CHECK(cut("f'\\N{LEFT CURLY BRACKET}' b") == "F:f'\\N{LEFT CURLY BRACKET}' b NL");
  CHECK(cut("rf'\\N{a}' b") == "F:rf'\\N{a}' b NL");
  CHECK(cut("f'{lambda x: 1}' b") == "F:f'{lambda x: 1}' b NL");
  CHECK(cut("f'{(lambda x: {1: \"}\"})}' b") == "F:f'{(lambda x: {1: \"}\"})}' b NL");
  CHECK(cut("f'{a!r:^{b}}' f\"{a != b}\"") == "F:f'{a!r:^{b}}' F:f\"{a != b}\" NL");
  CHECK(cut("f'''{a:\n}''' b") == "F:f'''{a:\n}''' b NL");
  CHECK(cut("f'{rb'}'}' b") == "F:f'{rb'}'}' b NL");
  // 3.14.
  CHECK(cut("t'{a['b']}' tr'\\{b}'") == "F:t'{a['b']}' F:tr'\\{b}' NL");
}

TEST_CASE("numbers and operators") {
  CHECK(cut("1if a else 2") == "N:1 if a else N:2 NL");
  CHECK(cut("0xfor x") == "N:0xf or x NL");
  CHECK(cut("1..a 1.5j .5 1.e5 1else") == "N:1. . a N:1.5j N:.5 N:1.e5 N:1 else NL");
  CHECK(cut("00 0_0 09.5 09e1 09j 0if") == "N:00 N:0_0 N:09.5 N:09e1 N:09j N:0 if NL");
  CHECK(cut("a**=b//c>>=d->e:=f!=g") == "a **= b // c >>= d -> e := f != g NL");
  CHECK(cut(".... a") == "... . a NL");
  CHECK(cut("a<-b") == "a < - b NL");
}

TEST_CASE("faults have their kind and line") {
  using enum python_fault_kind;
  check_fault(std::string("a\n\0", 3), nul_byte, 2);
  check_fault("a\n'\xE9'", not_utf8, 2);
  check_fault("'\xED\xA0\x80'", not_utf8, 1);
  check_fault("'\xC0\xAF'", not_utf8, 1);
  check_fault("'\xF4\x90\x80\x80'", not_utf8, 1);
  check_fault("'\xE2\x82", not_utf8, 1);
  check_fault("#\n# coding: latin-1\na", other_encoding, 2);
  check_fault("a\n'b\nc", unterminated_string, 2);
  check_fault("a\n\n'''b\nc", unterminated_string, 3);
  check_fault("f'{a}\n'", unterminated_string, 1);
  check_fault("f'{a", bad_field, 1);
  check_fault("f'{a'", unterminated_string, 1);
  check_fault("f'}'", bad_field, 1);
  check_fault("f'{a:'", bad_field, 1);
  check_fault("f'{(a]}'", bracket_mismatch, 1);
  check_fault("f'{a)}'", bracket_mismatch, 1);
  check_fault("f'{a $}'", bad_character, 1);
  check_fault("f'{a \\ }'", bad_continuation, 1);
  for (const char* number :
       {"0x", "0b12", "0o8", "1_", "1__0", "09", "1e+", "1x", "0xg", "1.5x", "1jx", "1_.5"}) {
    CAPTURE(number);
    check_fault(number, bad_number, 1);
  }
  for (const char* text : {"a$", "a?", "`a`", "!a", "a\v", "\x01",
                           "\xEF\xBB\xBF\xEF\xBB\xBF"
                           "a"})
    check_fault(text, bad_character, 1);
  check_fault("a \\ \nb", bad_continuation, 1);
  check_fault("a\nb \\\n", bad_continuation, 2);
  check_fault("a\n)", bracket_mismatch, 2);
  check_fault("(a\n]", bracket_mismatch, 2);
  check_fault("a\n(b\n[\nc", open_bracket, 3);
  check_fault("if a:\n  b\n c", bad_indentation, 3);
  check_fault("if a:\n        b\n\tc", mixed_tabs, 3);
  check_fault("if a:\n    if b:\n        c\n\td", mixed_tabs, 4);
}

TEST_CASE("what is read is bounded") {
  using enum python_fault_kind;
  check_fault(std::string(env::max_python_bytes + 1, 'a'), too_long, 1);
  CHECK(cut("a = " + std::string(200, '(') + std::string(200, ')')).ends_with(") NL"));
  check_fault("a = " + std::string(201, '('), too_deep, 1);
  std::string levels;
  for (int i = 0; i <= 99; ++i)
    levels += std::string(static_cast<std::size_t>(i), ' ') + "if a:\n";
  CHECK_FALSE(tokenize_python(levels).fault);
  check_fault(levels + std::string(100, ' ') + "b\n", too_deep, 101);
  std::string nested;
  for (int i = 0; i < 200000; ++i)
    nested += "f'{";
  check_fault(nested, too_deep, 1);
  std::string formats = "f'";
  for (int i = 0; i < 200000; ++i)
    formats += "{a:";
  check_fault(formats, too_deep, 1);
}

TEST_CASE("texts of many megabytes are read once") {
  // A reader that looks at the rest of the text for each of its tokens would take hours.
  for (const char* piece :
       {"f'{a}' ", "f'{", "'''", "a . ", "from ... ", "f'\\N{", "\\\n", "# coding\n", "((", "1_0 ",
        "f'''{x!r:{y}}", "from a.b import c, d\n"}) {
    CAPTURE(piece);
    std::string text;
    while (text.size() < (4U << 20U))
      text += piece;
    const auto all = tokenize_python(text);
    CHECK(all.tokens.size() <= text.size() + 2);
    CHECK(env::facts_of_python(all).classes.empty());
  }
}
