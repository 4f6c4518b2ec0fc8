// The identity of a text: what changes it and what does not.
#include <array>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "env/screen/canonical.hpp"
#include "env/screen/lexer.hpp"
#include "support/test.hpp"

using namespace quern;
using env::canonical_source;
using env::lex_cpp;
using env::token_kind;

namespace {

std::vector<std::string> texts_of(std::string_view source) {
  std::vector<std::string> texts;
  for (const auto& item : lex_cpp(source))
    texts.push_back(item.text);
  return texts;
}

using strings = std::vector<std::string>;

}  // namespace

TEST_CASE("comments and layout are not part of a source") {
  const std::string plain = "int f(int a){return a+1;}";
  CHECK(canonical_source(plain) == "int f ( int a ) { return a + 1 ; }\n");
  CHECK(canonical_source("int f ( int a )\n{\n  return a+1; // one more\n}\n") ==
        canonical_source(plain));
  CHECK(canonical_source("int/**/f(int a)/* x\n y */{return a\\\n+1;}") == canonical_source(plain));
  CHECK(canonical_source("in\\  \nt f(int a){return a+1;}") == canonical_source(plain));
  CHECK(canonical_source("int f(int a)<%return a+1;%>") == canonical_source(plain));
  CHECK(canonical_source("\xEF\xBB\xBFint f(int a){return a+1;}\r\n") == canonical_source(plain));
  CHECK(canonical_source("") == "");
  CHECK(env::source_hash(plain) == env::source_hash(" " + plain));
  CHECK(env::source_hash(plain) != env::source_hash("int f(int a){return a+2;}"));
}

TEST_CASE("preprocessor lines keep their line, and macros with parameters are not constants") {
  CHECK(canonical_source("#define A 1\nint a;") == "# define A 1\nint a ;\n");
  CHECK(canonical_source("int a;\n  #  pragma GCC ivdep\nint b;") ==
        "int a ;\n# pragma GCC ivdep\nint b ;\n");
  CHECK(canonical_source("#define F(x) x") != canonical_source("#define F (x) x"));
  CHECK(canonical_source("#define A \\\n 1") == canonical_source("#define A 1"));
}

TEST_CASE("a text that sees its layout is what it is to the byte") {
  const auto same = [](std::string_view a, std::string_view b) {
    return env::source_hash(a) == env::source_hash(b);
  };
  CHECK(same("int a = 1;", "\nint a = 1;"));
  CHECK_FALSE(same("int a = __LINE__;", "\nint a = __LINE__;"));
  CHECK_FALSE(same("int a = __LI\\\nNE__;", "\nint a = __LI\\\nNE__;"));
  CHECK_FALSE(same("int a = __builtin_LINE();", "\nint a = __builtin_LINE();"));
  const std::string pastes = "#define J(a, b) a##b\nint a = J(__LI, NE__);";
  CHECK_FALSE(same(pastes, "\n" + pastes));
  const std::string digraph = "%:define J(a, b) a%:%:b\nint a = J(__LI, NE__);";
  CHECK_FALSE(same(digraph, "\n" + digraph));
  const std::string says = "#define S(x) #x\nint a = sizeof S(a+b);";
  CHECK_FALSE(same(says, "#define S(x) #x\nint a = sizeof S(a + b);"));
  CHECK(canonical_source(pastes) == pastes);
  for (const char* of_headers : {"int a = __CONCAT(__LI, NE__);", "int a = sizeof __STRING(a+b);",
                                 "int a = sizeof _CCCL_TO_STRING(a+b);", "assert(a+b);",
                                 "CUB_STRINGIFY(a)", "int a = THRUST_PP_CAT2(__LI, NE__);"})
    CHECK_FALSE(same(of_headers, std::string("\n") + of_headers));
  // What kernels are made of does not.
  for (const char* common :
       {"__global__ void f(float* __restrict__ x);", "_Pragma(\"unroll\") int a;",
        "#if __CUDA_ARCH__ >= 900\nint a = __float2int_rn(1);\n#endif",
        "__shared__ float s[32]; __syncthreads(); __nv_bfloat16 b; float c = INFINITY;"})
    CHECK(same(common, std::string("\n") + common));
}

TEST_CASE("tokens are cut as the compiler cuts them") {
  CHECK(texts_of("a+++b") == strings{"a", "++", "+", "b"});
  CHECK(texts_of("x<::y>") == strings{"x", "<", "::", "y", ">"});
  CHECK(texts_of("x<::>") == strings{"x", "[", "]"});
  CHECK(texts_of("1'000.5e+3f-2") == strings{"1'000.5e+3f", "-", "2"});
  CHECK(texts_of("0xe+1") == strings{"0xe+1"});
  CHECK(texts_of("\"a\\\"b\"_s 'c'") == strings{"\"a\\\"b\"_s", "'c'"});
  CHECK(texts_of("R\"(a\"b)\" u8R\"x()\" )x\"") == strings{"R\"(a\"b)\"", "u8R\"x()\" )x\""});
  CHECK(texts_of("fooR\"(a)\"") == strings{"fooR", "\"(a)\""});
  CHECK(texts_of("R\"(a\\\nb)\"") == strings{"R\"(a\\\nb)\""});
  CHECK(texts_of("// a \\\n b\nc") == strings{"c"});
  CHECK(texts_of("/* // */ d /* unterminated") == strings{"d"});
  CHECK(texts_of("#include <a//b>\n<c//d>") == strings{"#", "include", "<a//b>", "<", "c"});
  CHECK(texts_of("as\\\nm") == strings{"asm"});
  CHECK(lex_cpp("\"open")[0].kind == token_kind::other);
  CHECK(lex_cpp("\\u0061")[0].kind == token_kind::other);
  CHECK(lex_cpp(std::string_view("\0", 1))[0].kind == token_kind::other);
  CHECK(lex_cpp("a\nb\\\nc\n/*\n*/d R\"(\n)\" e")[2].line == 5);
  CHECK(lex_cpp("a\nb\\\nc\n/*\n*/d R\"(\n)\" e").back().line == 6);
}

namespace {

const auto fragments = std::to_array<std::string_view>(
    {"a",        "asm",     "R\"(",       ")\"",   "\"",
     "'",        "\\",      "\\\n",       "\\ \n", "\n",
     " ",        "\t",      "\r\n",       "/*",    "*/",
     "//",       "#",       "%:",         "%:%:",  "##",
     "define",   "include", "<x>",        "(",     ")",
     "{",        "}",       "<:",         ":>",    "<::",
     "1",        "1'0",     "0x1p",       "+",     "e+",
     ".",        "...",     "u8R\"x(",    ")x\"",  "extern",
     "\"C\"",    "pragma",  "_Pragma(\"", "[[",    "]]",
     "static",   "*",       ";",          "=",     "__attribute__((",
     "\xCF\x83", "$",       "?\?/\n"});

std::string random_text(std::uint64_t index) {
  base::random_stream random(17, "canonical", {index});
  std::string text;
  const auto pieces = 1 + random.below(60);
  for (std::uint64_t i = 0; i < pieces; ++i)
    text += fragments[random.below(fragments.size())];
  return text;
}

}  // namespace

TEST_CASE("canonical texts are canonical, whatever they are made of") {
  for (std::uint64_t i = 0; i < 20000; ++i) {
    const std::string text = random_text(i);
    const std::string once = canonical_source(text);
    CAPTURE(text);
    REQUIRE(canonical_source(once) == once);
  }
}

TEST_CASE("layout between tokens never changes the identity") {
  for (std::uint64_t i = 0; i < 5000; ++i) {
    const std::string text = random_text(i);
    if (env::sees_layout(text)) continue;
    const auto tokens = lex_cpp(text);
    bool closed = true;
    for (const auto& item : tokens)
      closed = closed && item.kind != token_kind::other;
    if (!closed) continue;
    base::random_stream random(18, "layout", {i});
    std::string spread;
    bool in_directive = false;
    for (const auto& item : tokens) {
      const bool line = (item.directive && item.line_start) || (in_directive && !item.directive);
      const char* gaps[] = {" ", "\t\t", " /* x */ ", " \\\n ", " /**/"};
      if (line) {
        spread += "\n";
      } else if (!(item.directive && item.glued && item.text == "(")) {
        spread += gaps[random.below(5)];
        if (!item.directive && !in_directive && random.below(3) == 0 && item.text != "#")
          spread += " // y\n";
      }
      spread += item.text;
      in_directive = item.directive;
    }
    CAPTURE(text);
    CAPTURE(spread);
    REQUIRE(canonical_source(spread) == canonical_source(text));
  }
}
