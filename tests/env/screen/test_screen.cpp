// The static screen: what it refuses, by which rule, and that it leaves honest kernels alone.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "base/random.hpp"
#include "env/lanes/cpp/screen/cpp_screen.hpp"
#include "env/screen/canonical.hpp"
#include "env/screen/lexer.hpp"
#include "support/test.hpp"

using namespace quern;
using env::screen_cpp;
using env::screen_rule;

namespace {

const std::string kernel =
    "extern \"C\" void kernel(const float* x, float* y, int64_t n, void* w, void* s) { y[0] = "
    "x[0]; }\n";

struct offence {
  screen_rule rule;
  std::string text;
};

void check_refused(const offence& item) {
  CAPTURE(item.text);
  const auto found = screen_cpp(item.text + "\n" + kernel);
  REQUIRE(found.has_value());
  CHECK(std::string(env::name_of(found->rule)) == std::string(env::name_of(item.rule)));
  CHECK(found->line >= 1);
  CHECK_FALSE(found->text.empty());
}

}  // namespace

TEST_CASE("honest kernels pass") {
  int seen = 0;
  for (const auto& item :
       std::filesystem::directory_iterator(test::source_dir() / "tests/env/screen/honest")) {
    CAPTURE(item.path().filename().string());
    const auto text = base::read_file(item.path());
    REQUIRE(text.has_value());
    const auto found = screen_cpp(*text);
    CHECK_MESSAGE(!found.has_value(), (found ? found->text : ""));
    ++seen;
  }
  CHECK(seen >= 15);
}

TEST_CASE("assembler in every spelling") {
  for (const char* text :
       {"asm(\"nop\");", "void f() { asm volatile(\"nop\"); }", "void f() { __asm__(\"nop\"); }",
        "void f() { __asm(\"nop\"); }", "as\\\nm(\"nop\");", "as\\  \nm(\"nop\");",
        "// \\\n\nasm(\"nop\");", "#define A asm", "/* */asm/* */(\"nop\");", "int x asm(\"y\");",
        "#pragma GCC ivdep\nasm(\"nop\");", "const char s[] = R\"(\n)\"; asm(\"nop\");",
        "<% asm(\"nop\"); %>", "const char c = '\"'; asm(\"nop\");"})
    check_refused({screen_rule::assembler, text});
}

TEST_CASE("preprocessor lines") {
  for (const char* text :
       {"#include <thread>", "#include <vector>", "#include \"/etc/passwd\"", "#include \"cmath\"",
        "#include HEADER", "#include <../include/cmath>", "#inc\\\nlude <thread>",
        "%:include <thread>", "#include", "/* */ # /* */ include <thread>"})
    check_refused({screen_rule::include, text});
  for (const char* text : {"#if 1\n#endif",
                           "#ifdef X",
                           "#undef A",
                           "#error no",
                           "#line 3",
                           "# 1 \"x\" 3",
                           "#define F(x) x",
                           "#define A x##y",
                           "#define A x%:%:y",
                           "#define E extern",
                           "#define S static",
                           "#define B {",
                           "#define A ;",
                           "#define L [",
                           "#define P (",
                           "#define kernel other",
                           "#define const",
                           "#define __restrict__",
                           "#define _Bool int",
                           "#define",
                           "#define 1",
                           "#embed \"x\"",
                           "#include_next <cmath>",
                           "#import <cmath>"})
    check_refused({screen_rule::preprocessor, text});
  for (const char* text :
       {"#pragma weak x = y", "#pragma redefine_extname a b", "#pragma GCC dependency \"x\"",
        "#pragma push_macro(\"A\")", "#pragma GCC poison x", "#pragma pack(1)",
        "#pragma GCC pch_preprocess \"x\"", "_Pragma(\"weak x\")",
        "_Pragma(\"GCC visibility push(hidden)\")", "_Pragma(R\"(weak x)\")",
        "#pragma GCC system_header"})
    check_refused({screen_rule::pragma, text});
}

TEST_CASE("declarations of what is elsewhere") {
  for (const char* text :
       {"extern \"C\" int close(int);", "extern int x;", "extern \"C\" { int close(int); }",
        "extern \"C\" { typedef int F(int); F close; }",
        "extern \"C\" { typedef int F(int); const F close; }", "void f() { extern int x; }",
        "namespace a { extern \"C\" long write(int, const void*, unsigned long); }",
        "extern \"C\" int x;", "extern \"C\" int x = 1;", "extern \"C\" { int x; }",
        "extern \"C\" void kernels(const float*);", "extern \"C\" { namespace a { int f(); } }",
        "ext\\\nern int x;", "extern template int f<int>();",
        "extern \"C\" __attribute__((hot)) int close(int);", "#pragma omp { { {\nextern int x;"})
    check_refused({screen_rule::external, text});
}

TEST_CASE("attributes that are not hints") {
  for (const char* text :
       {"__attribute__((constructor)) void f() {}", "__attribute__((__constructor__)) void f() {}",
        "[[gnu::constructor]] void f() {}", "[[using gnu: destructor]] void f() {}",
        "__attribute__((section(\".init_array\"))) int x = 0;",
        "int f() __attribute__((alias(\"g\")));", "__attribute__((hot, ifunc(\"g\"))) int f();",
        "__attribute((weak)) int f();", "void f() { int x __attribute__((cleanup(g))) = 0; }",
        "#define A __attribute__", "[[ /* */ gnu::weak]] int f() { return 0; }",
        "__attribute__((C)) int f();", "[[gnu::hot, gnu::symver(\"a@b\")]] int f() { return 0; }",
        "__attribute__((target_clones(\"avx2\"))) void f() {}"})
    check_refused({screen_rule::attribute, text});
}

TEST_CASE("pointers that outlive the call") {
  for (const char* text :
       {"static const float* last;", "const float* last = nullptr;",
        "void f() { static float* p = nullptr; }", "void f() { thread_local const void* p; }",
        "namespace { float *a, b; }", "struct s { static const float* last; };",
        "static void (*hook)(int) = nullptr;", "static const float* last[4];",
        "extern \"C\" { static float* p; }", "template <class T> void f() { static T* p; }",
        "static float* p{};"})
    check_refused({screen_rule::kept_pointer, text});
}

TEST_CASE("names that no kernel needs") {
  for (const char* text :
       {"void f() { syscall(1); }", "void f() { std::system(\"x\"); }",
        "void f() { std::exit(0); }", "void f() { exit(0); }", "void f() { fork(); }",
        "void f() { pthread_create(0, 0, 0, 0); }", "void f() { std :: /* */ thread t; }",
        "void f() { __builtin_exit(0); }", "void f() { __builtin_fork(); }",
        "void f() { __builtin_apply(0, 0, 0); }", "void f() { __builtin_return_address(0); }",
        "unsigned long f() { return __rdtsc(); }", "void f() { std::getenv(\"X\"); }",
        "#define X system(\"x\")", "#define Y _exit", "void f() { __builtin_printf(\"x\"); }",
        "unsigned long f() { return __builtin_ia32_rdtsc(); }",
        "unsigned long f(unsigned* a) { return __builtin_ia32_rdtscp(a); }",
        "void f() { kill(0, 9); }"})
    check_refused({screen_rule::forbidden_name, text});
  for (const char* text :
       {"int a = __LINE__;", "int a = __COUNTER__;", "const char a[] = __DATE__;",
        "int a = __builtin_LINE();", "#define L __LINE__"})
    check_refused({screen_rule::position, text});
}

TEST_CASE("texts that are none") {
  check_refused({screen_rule::malformed_text, "int \\u0061sm;"});
  check_refused({screen_rule::malformed_text, std::string("int a;\0int b;", 13)});
  check_refused({screen_rule::malformed_text, "const char* a = \"open;"});
  check_refused({screen_rule::malformed_text, "int a; @"});
  CHECK(screen_cpp(std::string(env::max_source_bytes + 1, ' '))->rule == screen_rule::too_long);
}

TEST_CASE("the first offence in the text is the one that is named") {
  const auto found = screen_cpp("int a;\n\n#include <thread>\nasm(\"\");\n");
  REQUIRE(found.has_value());
  CHECK(found->rule == screen_rule::include);
  CHECK(found->line == 3);
  CHECK(found->text.find("<thread>") != std::string::npos);
  CHECK(found->text.find("<cmath>") != std::string::npos);
}

TEST_CASE("long and nested texts take linear time") {
  for (const std::string unit : {"[", "(", "{", "static ", "namespace a{", "extern \"C\" {", "R\"x",
                                 "\\ ", "[[", "__attribute__((", "#include <", "\"", "/*",
                                 "template<", "static*", "#define A (\n", "int f(){static "}) {
    std::string text;
    while (text.size() + unit.size() <= env::max_source_bytes)
      text += unit;
    CAPTURE(unit);
    (void)screen_cpp(text);  // would take hours where it is not linear: the test's limit ends it
  }
  CHECK(true);
}

namespace {

const auto pieces = std::to_array<std::string_view>({"asm",
                                                     "as\\\nm",
                                                     "a",
                                                     "s",
                                                     "m",
                                                     "R\"(",
                                                     ")\"",
                                                     "R\"x(",
                                                     ")x\"",
                                                     "\"",
                                                     "'",
                                                     "\\\n",
                                                     "\\ \n",
                                                     "\n",
                                                     " ",
                                                     "/*",
                                                     "*/",
                                                     "//",
                                                     "#pragma omp ",
                                                     "#define Q ",
                                                     "%:pragma omp ",
                                                     "(\"nop\");",
                                                     "int",
                                                     ";",
                                                     "{",
                                                     "}",
                                                     "<%",
                                                     "%>",
                                                     "u8R\"(",
                                                     "LR\"",
                                                     "1'",
                                                     "'a'",
                                                     "\"\"",
                                                     "\r\n",
                                                     "?\?/\n",
                                                     "Q",
                                                     "L'",
                                                     "u8",
                                                     "0x",
                                                     "_",
                                                     "/",
                                                     "*",
                                                     "//\\\n",
                                                     "\\",
                                                     ")",
                                                     "("});

std::string random_program(std::uint64_t index) {
  base::random_stream random(19, "screen", {index});
  std::string text;
  const auto count = 3 + random.below(25);
  for (std::uint64_t k = 0; k < count; ++k)
    text += pieces[random.below(pieces.size())];
  return text;
}

// What the compiler's own preprocessor leaves of a text, or nothing where it gives up.
std::string preprocessed(const std::filesystem::path& folder, const std::string& text) {
  const auto in = folder / "in.cpp";
  const auto out = folder / "out.ii";
  REQUIRE(base::write_file_atomic(in, text).has_value());
  const std::string command =
      "g++ -std=c++20 -E -P -w " + in.string() + " -o " + out.string() + " 2>/dev/null";
  if (std::system(command.c_str()) != 0) return "";
  return base::read_file(out).value_or("");
}

}  // namespace

TEST_CASE("any text gets an answer, and the same one in its canonical form") {
  for (std::uint64_t i = 0; i < 20000; ++i) {
    const std::string text = random_program(i);
    CAPTURE(text);
    const auto found = screen_cpp(text);
    if (found) REQUIRE(found->line >= 1);
    REQUIRE(screen_cpp(env::canonical_source(text)).has_value() == found.has_value());
  }
}

TEST_CASE("no text hides assembler from the screen that the compiler would see") {
  if (std::system("g++ --version >/dev/null 2>&1") != 0)
    return test::skip("comparison with the compiler's preprocessor: no g++ in PATH");
  const auto folder = base::temp_folder::make("quern-screen");
  REQUIRE(folder.has_value());
  int compared = 0;
  for (std::uint64_t i = 0; i < 120; ++i) {
    // Several texts a call would hide one another's comments; so one call each.
    const std::string text = random_program(i);
    const std::string left = preprocessed(folder->path(), text);
    const auto tokens = env::lex_cpp(left);
    const bool visible = std::any_of(tokens.begin(), tokens.end(), [](const auto& item) {
      return item.kind == env::token_kind::identifier && item.text == "asm";
    });
    if (!visible) continue;
    ++compared;
    CAPTURE(text);
    CAPTURE(left);
    CHECK(screen_cpp(text).has_value());
  }
  CHECK(compared > 5);
}
