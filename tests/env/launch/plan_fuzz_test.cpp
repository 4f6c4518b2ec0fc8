// Seeded fuzzing: whatever the text, a plan or an error with a place; whatever the plan, steps
// within the limits or an error. Plans made at random and written out are read back the same.
#include <chrono>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "env/launch/plan_fixture.hpp"
#include "env/screen/lexer.hpp"

using namespace quern;

namespace {

const char* const seed_bodies[] = {
    "for (int i = 0; i < 3; ++i) { copy<<<dim3(n, m), BLOCK, 0, stream>>>(x + i, y, (int)n); }",
    "float* tmp = reinterpret_cast<float*>(workspace) + n; cudaMemsetAsync(tmp, 0, n * "
    "sizeof(float), "
    "stream); tiled<TILE><<<ceil_div(n, 256), 256, 16 << 2, stream>>>(tmp, &y[m], n);",
    "int k = n > 3 ? 1 : round_up(7, 4); void* args[] = {&x, (void*)&y, &k}; "
    "cudaLaunchCooperativeKernel((void*)copy, dim3(4), 128, args, 512, stream);",
    "switch (m) { case 8: detail::fill<float, detail::WARPS><<<1, 1, 0, stream>>>(y, n); break; "
    "default: typed<<<1, 1, 0, stream>>>(x, y, n); }",
    "int64_t s = n; while (s > 1) { s = (s + 1) / 2; if (s == 7) continue; scale<<<s, 32, 0, "
    "stream>>>(x, y, s, 1.0f / std::sqrt((float)s)); }",
};

const char* const words[] = {"{",
                             "}",
                             "(",
                             ")",
                             "[",
                             "]",
                             "<",
                             ">",
                             "<<<",
                             ">>>",
                             "<<",
                             ">>",
                             "::",
                             ";",
                             ",",
                             "=",
                             "+=",
                             "++",
                             "--",
                             "&",
                             "*",
                             "?",
                             ":",
                             "-",
                             "~",
                             "%",
                             "/",
                             "0",
                             "1",
                             "-1",
                             "9223372036854775807",
                             "0x",
                             "1e99",
                             "1.5f",
                             "'a'",
                             "\"s\"",
                             "#define A A A\n",
                             "\n#if 1\n",
                             "\n#include <x>\n",
                             "\\\n",
                             "/*",
                             "*/",
                             "//",
                             "R\"(",
                             "template <typename T> ",
                             "template <int N> ",
                             "__global__ void q(int a) {}",
                             "namespace z {",
                             "extern \"C\" ",
                             "const",
                             "constexpr",
                             "static",
                             "auto",
                             "float",
                             "int64_t",
                             "void",
                             "struct S",
                             "S",
                             "dim3",
                             "stream",
                             "workspace",
                             "x",
                             "y",
                             "n",
                             "m",
                             "BLOCK",
                             "TILE",
                             "copy",
                             "tiled",
                             "typed",
                             "detail",
                             "ceil_div",
                             "round_up",
                             "std::min<int>",
                             "max",
                             "sizeof",
                             "static_cast<",
                             "if",
                             "else",
                             "for",
                             "while",
                             "do",
                             "switch",
                             "case",
                             "default",
                             "break",
                             "continue",
                             "return",
                             "cudaMemsetAsync",
                             "cudaMemcpyAsync",
                             "cudaLaunchCooperativeKernel",
                             "cudaFuncSetAttribute",
                             "nullptr",
                             "true",
                             "kernel",
                             "workspace_bytes",
                             "using T = ",
                             "typedef ",
                             "operator",
                             "\xc3\x28",
                             "\xEF\xBB\xBF",
                             "%:",
                             "<:",
                             "if (n > 3) "};

/// Reads a text and tries its plan; counts plans and steps.
struct trial {
  int plans = 0;
  int steps = 0;

  void operator()(const std::string& text) {
    const auto plan = env::parse_launch_plan(text, test::plan_signature());
    if (!plan) {
      REQUIRE(plan.error().line >= 1);
      REQUIRE(plan.error().column >= 1);
      REQUIRE(!plan.error().text.empty());
      return;
    }
    ++plans;
    REQUIRE(plan->device_source().size() == text.size());
    for (const std::int64_t n : {std::int64_t{1}, std::int64_t{1000}, std::int64_t{1} << 40}) {
      env::plan_call call = test::plan_call(n, 8);
      const auto asked = plan->workspace(call.sizes);
      if (asked) REQUIRE(*asked >= 0);
      const auto made = plan->steps(call);
      if (!made) {
        REQUIRE(!made.error().message.empty());
        continue;
      }
      REQUIRE(made->size() <= static_cast<std::size_t>(env::plan_limits::steps));
      for (const env::launch_step& step : *made)
        REQUIRE(test::broken_rule(*plan, step, call) == "");
      ++steps;
    }
  }
};

// The file as pieces: tokens, with what stands between them.
std::vector<std::string> pieces_of(const std::string& file) {
  std::vector<std::string> pieces;
  std::size_t before = 0;
  for (const env::token& one : env::lex_cpp(file)) {
    pieces.push_back(file.substr(before, one.end - before));
    before = one.end;
  }
  pieces.push_back(file.substr(before));
  return pieces;
}

}  // namespace

TEST_CASE("mutated files have a plan or an error, and plans keep to their limits") {
  std::vector<std::vector<std::string>> seeds;
  std::size_t head = 0;
  for (const char* body : seed_bodies) {
    seeds.push_back(pieces_of(test::plan_file(body)));
    head = pieces_of(std::string(test::plan_prelude)).size() - 1;
  }
  trial tried;
  const auto begin = std::chrono::steady_clock::now();
  for (std::uint64_t i = 0; i < 40000; ++i) {
    base::random_stream random(3, "launch_fuzz", {i});
    std::vector<std::string> pieces = seeds[random.below(seeds.size())];
    for (auto edits = 1 + random.below(4); edits > 0; --edits) {
      // Mostly inside the host function.
      const std::size_t low = random.chance(0.7) ? std::min(head, pieces.size() - 1) : 0;
      const std::size_t at = low + random.below(pieces.size() - low);
      switch (random.below(5)) {
        case 0:
          pieces.insert(pieces.begin() + static_cast<std::ptrdiff_t>(at),
                        std::string(" ") + words[random.below(std::size(words))]);
          break;
        case 1:
          pieces.erase(pieces.begin() + static_cast<std::ptrdiff_t>(at));
          if (pieces.empty()) pieces.emplace_back(" ");
          break;
        case 2:
          pieces[at] = std::string(" ") + words[random.below(std::size(words))];
          break;
        case 3:
          std::swap(pieces[at], pieces[low + random.below(pieces.size() - low)]);
          break;
        default: {
          const std::size_t from = low + random.below(pieces.size() - low);
          const std::size_t to = std::min(pieces.size(), from + random.below(12));
          const std::vector<std::string> part(pieces.begin() + static_cast<std::ptrdiff_t>(from),
                                              pieces.begin() + static_cast<std::ptrdiff_t>(to));
          pieces.insert(pieces.begin() + static_cast<std::ptrdiff_t>(at), part.begin(), part.end());
        }
      }
    }
    std::string text;
    for (const std::string& one : pieces)
      text += one;
    tried(text);
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  MESSAGE("plans: ", tried.plans, ", with steps: ", tried.steps, ", seconds: ", took.count());
  CHECK(tried.plans > 1000);
  CHECK(tried.steps > 1000);
}

TEST_CASE("bodies of random words and files of random bytes") {
  trial tried;
  for (std::uint64_t i = 0; i < 30000; ++i) {
    base::random_stream random(4, "launch_words", {i});
    std::string body;
    for (auto count = random.below(30); count > 0; --count)
      body += std::string(words[random.below(std::size(words))]) + (random.chance(0.8) ? " " : "");
    tried(random.chance(0.5) ? test::plan_file(body) : body);
  }
  const std::string seed = test::plan_file(seed_bodies[1]);
  for (std::uint64_t i = 0; i < 10000; ++i) {
    base::random_stream random(5, "launch_bytes", {i});
    std::string text = seed;
    for (auto edits = 1 + random.below(5); edits > 0; --edits) {
      const std::size_t at = random.below(text.size());
      if (random.chance(0.5)) {
        text[at] = static_cast<char>(random.below(256));
      } else {
        text.erase(at, random.below(20));
      }
      if (text.empty()) text = seed;
    }
    if (random.chance(0.05)) {
      for (char& c : text)
        c = static_cast<char>(random.below(256));
    }
    tried(text);
  }
  CHECK(tried.plans > 100);
}

TEST_CASE("texts that grow are read in time that grows with them") {
  const auto many = [](std::string_view what, std::size_t bytes) {
    std::string text;
    while (text.size() < bytes)
      text += what;
    return text;
  };
  trial tried;
  const auto begin = std::chrono::steady_clock::now();
  for (const char* what : {"(",
                           ")",
                           "{",
                           "}",
                           "<",
                           ">",
                           "<<<",
                           "template <",
                           "template <> void f<",
                           "a<",
                           "namespace a{",
                           "extern \"C\"{",
                           "int a;",
                           "a::",
                           "= {",
                           "const int a = a<b, c<d;",
                           "#define A A\n",
                           "A(",
                           "\"",
                           "R\"(",
                           "/*",
                           "\\\n",
                           "x,",
                           "__launch_bounds__(",
                           "[[",
                           "void f(int a) {}",
                           "struct s {",
                           "-",
                           "typedef int a;",
                           "using a = b;",
                           "operator",
                           "0x",
                           "'",
                           "~",
                           "if(n)",
                           "do ",
                           "1?"}) {
    const std::string long_text = many(what, 60000);
    tried(long_text);
    tried(test::plan_file(long_text));
    tried(test::plan_file("int a = " + long_text));
    tried(test::plan_file("tiled<" + long_text));
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  MESSAGE("seconds: ", took.count());
  CHECK(took.count() < 200);  // seconds where nothing is sanitised and the machine is idle
}

// ---- plans written out ----

namespace {

class plan_writer {
 public:
  explicit plan_writer(std::uint64_t seed)
      : random_(7, "launch_property", {seed}), call_(test::plan_call(n_, m_)) {}

  /// A body of `kernel`; the steps it has to make are in steps().
  std::string body() {
    std::string text;
    for (auto count = random_.below(8); count > 0; --count)
      text += guarded(step());
    return text;
  }
  [[nodiscard]] const std::vector<std::string>& steps() const { return steps_; }
  [[nodiscard]] static std::int64_t n() { return n_; }
  [[nodiscard]] static std::int64_t m() { return m_; }

 private:
  // One of many ways to write a number.
  std::string number(std::int64_t value) {
    switch (random_.below(8)) {
      case 0:
        return fmt::format("(n + {} - {})", value, n_);
      case 1:
        return value >= 0 && value < 1 << 30 ? fmt::format("0x{:X}", value)
                                             : fmt::format("{}", value);
      case 2:
        return fmt::format("(m == {} ? {} : {})", m_, value, value + 1);
      case 3: {
        const std::string name = fmt::format("v{}", ++names_);
        before_ += fmt::format("{} {} = {};\n", random_.chance(0.5) ? "const int64_t" : "auto",
                               name, value);
        return name;
      }
      case 4:
        return fmt::format("static_cast<int64_t>({} * {} + {})", value / 3, 3, value % 3);
      case 5:
        return fmt::format("ceil_div({}L * 10 - 3, 10L)", value);
      case 6:
        return fmt::format("int64_t({})", value);
      default:
        return fmt::format("{}", value);
    }
  }

  std::string dimensions(std::array<std::int64_t, 3>& made, std::int64_t x, std::int64_t y,
                         std::int64_t z) {
    made = {random_.between(1, x), 1, 1};
    if (random_.chance(0.3)) return number(made[0]);
    made[1] = random_.between(1, y);
    if (random_.chance(0.5)) made[2] = random_.between(1, z);
    const std::string x_text = number(made[0]);
    const std::string y_text = number(made[1]);
    const std::string z_text = number(made[2]);
    if (random_.chance(0.5)) return fmt::format("dim3({}, {}, {})", x_text, y_text, z_text);
    const std::string name = fmt::format("v{}", ++names_);
    before_ += fmt::format("dim3 {}({}); {}.y *= {}; {}.z = {};\n", name, x_text, name, y_text,
                           name, z_text);
    return name;
  }

  // A float pointer; what it means goes to `meant`.
  std::string pointer(std::string& meant, bool writable) {
    const auto which = random_.below(writable ? 2 : 3);
    const std::int64_t at = random_.between(0, 4 * n_ * m_ / 8);
    const std::string index = number(at);
    if (which == 0) {
      meant = fmt::format("ws+{}", 4 * at);
      return random_.chance(0.5) ? fmt::format("((float*)workspace + {})", index)
                                 : fmt::format("(float*)((char*)workspace + 4 * {})", index);
    }
    meant = fmt::format("{}+{}", which == 1 ? "out0" : "in0", 4 * at);
    const char* name = which == 1 ? "y" : "x";
    return random_.chance(0.5) ? fmt::format("&{}[{}]", name, index)
                               : fmt::format("{} + {}", name, index);
  }

  std::string step() {
    std::string from;
    std::string to;
    const std::string to_text = pointer(to, true);
    if (random_.chance(0.2)) {
      const std::int64_t bytes = random_.between(1, 1000);
      const std::int64_t byte = random_.between(0, 255);
      steps_.push_back(fmt::format("set({}, {}, {})", to, byte, bytes));
      return fmt::format("cudaMemsetAsync({}, {}, {}, stream);\n", to_text, number(byte),
                         number(bytes));
    }
    const std::string from_text = pointer(from, false);
    std::array<std::int64_t, 3> grid{};
    std::array<std::int64_t, 3> block{};
    const std::string grid_text = dimensions(grid, 100000, 500, 500);
    const std::string block_text = dimensions(block, 16, 8, 8);
    const std::int64_t shared = random_.between(0, 1000);
    const std::int64_t count = random_.between(-100, 100000);
    const std::string launch = fmt::format("<<<{} {} {}|{} {} {}|{}>>>", grid[0], grid[1], grid[2],
                                           block[0], block[1], block[2], shared);
    const std::string set_up =
        fmt::format("<<<{}, {}, {}, stream>>>", grid_text, block_text, number(shared));
    const bool tiled = random_.chance(0.4);
    const std::int64_t tile = 1 << random_.below(11);
    const std::string name = tiled ? fmt::format("tiled<{}>", tile) : "copy";
    const std::int64_t given = tiled ? std::abs(count) : count;
    steps_.push_back(
        fmt::format("{}{}({}, {}, {}{})", name, launch, from, to, given, tiled ? "L" : ""));
    std::string written = name;
    if (tiled && random_.chance(0.5)) {
      written = fmt::format("tiled<T{}>", ++names_);
      before_ += fmt::format("constexpr int T{} = {};\n", names_, tile);
    }
    return fmt::format("{}{}({}, {}, {});\n", written, set_up, from_text, to_text, number(given));
  }

  // The step as it is, in a block, behind a condition, in a loop that ends at once.
  std::string guarded(const std::string& text) {
    const std::string all = std::exchange(before_, "") + text;
    switch (random_.below(5)) {
      case 0:
        return "{\n" + all + "}\n";
      case 1:
        return fmt::format("if (n == {}) {{\n{}}} else if (m) return;\n", n_, all);
      case 2:
        return fmt::format("for (int i{0} = 7; i{0} < 8; ++i{0}) {{\n{1}}}\n", ++names_, all);
      case 3:
        return fmt::format("switch (m) {{ case {}: {{\n{}}} break; default: return; }}\n", m_, all);
      default:
        return all;
    }
  }

  static constexpr std::int64_t n_ = 1000;
  static constexpr std::int64_t m_ = 8;
  base::random_stream random_;
  env::plan_call call_;
  std::vector<std::string> steps_;
  std::string before_;
  int names_ = 0;
};

}  // namespace

TEST_CASE("a plan written out in any way is read back as the same steps") {
  for (std::uint64_t i = 0; i < 3000; ++i) {
    plan_writer writer(i);
    const std::string body = writer.body();
    std::string wanted;
    for (const std::string& one : writer.steps())
      wanted += (wanted.empty() ? "" : "; ") + one;
    CAPTURE(body);
    REQUIRE(test::steps_of(body, plan_writer::n(), plan_writer::m()) == wanted);
  }
}
