// Errors of evaluation, and that every limit holds.
#include <string>

#include "env/launch/plan_fixture.hpp"

using namespace quern;

namespace {

struct failing_case {
  const char* body;
  const char* error;  // line:column: text, lines counted from the body's first
};

const failing_case failing_bodies[] = {
    {"copy<<<0, 1, 0, stream>>>(x, y, 1);", "1:1: grid.x is 0: allowed are 1 to 2147483647"},
    {"copy<<<1, 1025, 0, stream>>>(x, y, 1);", "1:1: block.x is 1025: allowed are 1 to 1024"},
    {"copy<<<1, dim3(32, 33), 0, stream>>>(x, y, 1);",
     "1:1: a block of 1056 threads: at most 1024"},
    {"copy<<<1, dim3(1, 1, 65), 0, stream>>>(x, y, 1);", "1:1: block.z is 65: allowed are 1 to 64"},
    {"copy<<<dim3(1, 65536), 1, 0, stream>>>(x, y, 1);",
     "1:1: grid.y is 65536: allowed are 1 to 65535"},
    {"copy<<<dim3(1, 1, 0), 1, 0, stream>>>(x, y, 1);", "1:1: grid.z is 0: allowed are 1 to 65535"},
    {"copy<<<2147483648, 1, 0, stream>>>(x, y, 1);",
     "1:1: grid.x is 2147483648: allowed are 1 to 2147483647"},
    {"copy<<<n * 10000000, 1, 0, stream>>>(x, y, 1);",
     "1:10: 10000000000 does not fit unsigned int"},
    {"copy<<<-n, 1, 0, stream>>>(x, y, 1);", "1:8: -1000 does not fit unsigned int"},
    {"copy<<<1, 1, 232449, stream>>>(x, y, 1);",
     "1:1: 232449 bytes of dynamic shared memory: allowed are 0 to 232448"},
    {"copy<<<1, 1, 0 - n, stream>>>(x, y, 1);", "1:16: -1000 does not fit unsigned long"},
    {"cudaFuncSetAttribute(copy, cudaFuncAttributeMaxDynamicSharedMemorySize, 300 * 1024);",
     "1:1: 307200 bytes of dynamic shared memory: allowed are 0 to 232448"},
    {"copy<<<1, 1, 0, stream>>>(x, y, n * 10000000);", "1:35: 10000000000 does not fit int"},
    {"numbers<<<1, 1, 0, stream>>>(0, 200, 0, 0, 0, 0);", "1:33: 200 does not fit char"},
    {"numbers<<<1, 1, 0, stream>>>(0, 0, 40000, 0, 0, 0);", "1:36: 40000 does not fit short"},
    {"numbers<<<1, 1, 0, stream>>>(0, 0, 0, -n, 0, 0);", "1:39: -1000 does not fit unsigned int"},
    {"int a = n / (m - 8);", "1:11: 1000 / 0: division by zero"},
    {"int a = n % (m - 8);", "1:11: 1000 % 0: division by zero"},
    {"int a = 2147483647; a += 1;", "1:23: 2147483647 + 1 does not fit int"},
    {"int a = 2147483647; a++;", "1:22: 2147483647 + 1 does not fit int"},
    {"int64_t a = n * 9223372036854775807;", "1:15: 1000 * 9223372036854775807 does not fit long"},
    {"int a = 1 << n;", "1:11: shift of int by 1000: allowed are 0 to 31"},
    {"int a = 1; a <<= 31;", "1:14: 1 << 31 does not fit int"},
    {"int a = n >> -1;", "1:11: shift of long by -1: allowed are 0 to 63"},
    {"int a = -2147483647 - 1; a = -a;", "1:30: -(-2147483648) does not fit int"},
    {"int a = (int)(n * 100000000);", "1:9: 100000000000 does not fit int"},
    {"int a = 1e10;", "1:9: 10000000000 does not fit int"},
    {"unsigned a = m - n;", "1:16: -992 does not fit unsigned int"},
    {"int a = (float)n * 1e10f;", "1:18: 9999999827968 does not fit int"},
    {"int a = 0.0 / 0;", "1:13: -nan does not fit int"},
    {"int a; int b = a;", "1:16: a variable is read before it has a value"},
    {"int a; if (n < 3) a = 4; int b = a + 1;", "1:34: a variable is read before it has a value"},
    {"copy<<<1, 1, 0, stream>>>(x - 1, y, 1);",
     "1:29: an argument is byte -4 of input 'x', which has 32000 bytes"},
    {"copy<<<1, 1, 0, stream>>>(x + 8001, y, 1);",
     "1:29: an argument is byte 32004 of input 'x', which has 32000 bytes"},
    {"copy<<<1, 1, 0, stream>>>((float*)workspace + 262145, y, 1);",
     "1:45: an argument is byte 1048580 of the workspace, which has 1048576 bytes"},
    {"const float* p = nullptr; copy<<<1, 1, 0, stream>>>(p + 1, y, 1);",
     "1:55: an argument is byte 4 of a null pointer, which has 0 bytes"},
    {"cudaMemsetAsync(y, 0, 32001, stream);",
     "1:1: what cudaMemsetAsync sets is 32001 bytes from byte 0 of output 'y' on, which has 32000 "
     "bytes"},
    {"cudaMemsetAsync(y + 8000, 0, 1, stream);",
     "1:1: what cudaMemsetAsync sets is 1 bytes from byte 32000 of output 'y' on, which has 32000 "
     "bytes"},
    {"cudaMemsetAsync(y, 256, 1, stream);", "1:1: cudaMemsetAsync sets bytes, 256 is none"},
    {"cudaMemsetAsync((float*)x, 0, 4, stream);", "1:1: cudaMemsetAsync writes to input 'x'"},
    {"cudaMemsetAsync(y, 0, -1, stream);", "1:23: -1 does not fit unsigned long"},
    {"cudaMemsetAsync(y, 0, (size_t)-1, stream);",
     "1:1: what cudaMemsetAsync sets is 9223372036854775807 bytes from byte 0 of output 'y' on, "
     "which has 32000 bytes"},
    {"cudaMemsetAsync(nullptr, 0, 1, stream);",
     "1:1: what cudaMemsetAsync sets is 1 bytes from byte 0 of a null pointer on, which has 0 "
     "bytes"},
    {"cudaMemcpyAsync((void*)ids, x, 4, cudaMemcpyDeviceToDevice, stream);",
     "1:1: cudaMemcpyAsync writes to input 'ids'"},
    {"cudaMemcpyAsync(y, x, 32004, cudaMemcpyDeviceToDevice, stream);",
     "1:1: what cudaMemcpyAsync writes is 32004 bytes from byte 0 of output 'y' on, which has "
     "32000 bytes"},
    {"cudaMemcpyAsync(y, ids, 4001, cudaMemcpyDeviceToDevice, stream);",
     "1:1: what cudaMemcpyAsync reads is 4001 bytes from byte 0 of input 'ids' on, which has 4000 "
     "bytes"},
    {"cudaMemcpyAsync(y, y + 1, 8, cudaMemcpyDeviceToDevice, stream);",
     "1:1: cudaMemcpyAsync reads and writes the same bytes of output 'y'"},
    {"while (true) { }", "1:1: more than 16384 statements in one call"},
    {"for (;;) ;", "1:10: more than 16384 statements in one call"},
    {"int64_t s = 0; for (int i = 0; i < 20000; ++i) s += i;",
     "1:48: more than 16384 statements in one call"},
    {"for (int i = 0; i < 1025; ++i) copy<<<1, 1, 0, stream>>>(x, y, 1);",
     "1:32: more than 1024 steps in one call"},
    {"x += 9223372036854775807; copy<<<1, 1, 0, stream>>>(x, y, 1);",
     "1:3: a pointer moved by 9223372036854775807 elements of 4 bytes does not fit int64_t"},
    {"char* p = (char*)workspace + 9223372036854775807; p++; copy<<<1, 1, 0, stream>>>(x, y, 1);",
     "1:52: a pointer moved by 1 elements of 1 bytes does not fit int64_t"},
    {"switch (m / (n - 1000)) { case 1: break; }", "1:11: 8 / 0: division by zero"},
    {"bool a = n / 0.0 > 3; int b = a ? 1 / (m - 8) : 3;", "1:37: 1 / 0: division by zero"},
};

std::string failure_of(std::string_view body) {
  const auto plan = env::parse_launch_plan(test::plan_file(body), test::plan_signature());
  if (!plan) return "parse: " + env::to_string(plan.error());
  const auto steps = plan->steps(test::plan_call(1000, 8));
  if (steps) return "steps";
  std::uint32_t line = 0;
  std::uint32_t column = 0;
  int read = 0;
  const std::string& text = steps.error().message;
  if (std::sscanf(text.c_str(), "line %u, column %u: %n", &line, &column, &read) != 2) return text;
  return fmt::format("{}:{}: {}", line - test::plan_body_line() + 1, column, text.substr(read));
}

// The message of the parser for a file that is too much.
std::string refusal_of_file(const std::string& file) {
  const auto plan = env::parse_launch_plan(file, test::plan_signature());
  return plan ? "accepted" : plan.error().text;
}

std::string repeated(std::string_view what, int times) {
  std::string text;
  for (int i = 0; i < times; ++i)
    text += what;
  return text;
}

}  // namespace

TEST_CASE("values that do not fit, steps that are not allowed, work without end") {
  for (const failing_case& one : failing_bodies) {
    CAPTURE(one.body);
    CHECK(failure_of(one.body) == one.error);
  }
}

TEST_CASE("a body may be as large as a limit and no larger") {
  const std::string launch = "copy<<<1, 1, 0, stream>>>(x, y, 1);\n";
  CHECK(test::steps_of("for (int i = 0; i < 1024; ++i) " + launch).size() > 1024 * 30);
  CHECK(test::contains(
      test::refusal_of("int a = " + repeated("(", 200) + "1" + repeated(")", 200) + ";"),
      "nested deeper than 128"));
  CHECK(test::contains(test::refusal_of("int a = " + repeated("- ", 200) + "1;"),
                       "nested deeper than 128"));
  CHECK(test::contains(test::refusal_of(repeated("{", 200) + repeated("}", 200)),
                       "nested deeper than 128"));
  CHECK(test::contains(test::refusal_of(repeated("if (n) ", 200) + ";"), "nested deeper than 128"));
  CHECK(test::contains(test::refusal_of("int a = 1" + repeated(" + 1", 200) + ";"),
                       "an expression deeper than 128"));
  CHECK(test::refusal_of("int a = 1" + repeated(" + 1", 100) + ";") == "accepted");
  CHECK(test::contains(test::refusal_of("int a = 1;" + repeated("a = a + a;", 30000)),
                       "more than 131072 expressions and statements"));
  CHECK(test::contains(test::refusal_of(repeated(";", 262144)), "more than 262144 tokens"));
  CHECK(test::contains(refusal_of_file(std::string(env::plan_limits::source_bytes + 1, ' ')),
                       "the file has 1048577 bytes, at most 1048576"));
  CHECK(
      test::contains(test::refusal_of("copy<<<1, 1, 0, stream>>>(" + repeated("1, ", 300) + "1);"),
                     "more than 256 arguments"));
}

TEST_CASE("macros, templates and functions cannot grow without end") {
  std::string laughs = "#define A0 1 +\n";
  for (int i = 1; i < 40; ++i)
    laughs += fmt::format("#define A{} A{} A{}\n", i, i - 1, i - 1);
  CHECK(test::contains(refusal_of_file(laughs + "int a = A39 1;"), "macro 'A"));
  std::string silent = "#define B0\n";
  for (int i = 1; i < 40; ++i)
    silent += fmt::format("#define B{} B{} B{}\n", i, i - 1, i - 1);
  CHECK(test::contains(refusal_of_file(silent + "B39"), "macro 'B"));
  std::string nested = "#define C(x) (x)\n";
  CHECK(test::contains(refusal_of_file(nested + repeated("C(", 100) + repeated(")", 100)),
                       "nested deeper than 64"));
  CHECK(refusal_of_file("#define D D E\n#define E D E\nint d = D;") !=
        "accepted");  // names of a macro in itself stay
  const std::string head =
      "extern \"C\" void kernel(const float* x, const int* ids, float* y, int64_t n, int64_t m, "
      "void* "
      "w, cudaStream_t s) { ";
  std::string chain = "int f0(int a) { return a; }\n";
  for (int i = 1; i < 60; ++i)
    chain += fmt::format("int f{}(int a) {{ return f{}(a) + f{}(a); }}\n", i, i - 1, i - 1);
  CHECK(test::contains(test::steps_of_file(chain + head + "int a = f20(1); }", 1, 1),
                       "more than 16384 statements"));
  CHECK(test::steps_of_file(chain + head + "int a = f10(1); a += 1; }", 1, 1) == "");
  const std::string sum = "(1" + repeated(" + 1", 100) + ")";
  CHECK(test::contains(test::steps_of("int64_t a = 0; for (int i = 0; i < 5000; ++i) a = " + sum +
                                      " + " + sum + " + " + sum + ";"),
                       "more than 1048576 operations"));
  CHECK(test::contains(test::steps_of_file(chain + head + "const int a = f20(1); }", 1, 1),
                       "more than 16384 statements"));
  CHECK(test::contains(test::steps_of_file(chain + head + "int a = f59(1); }", 1, 1),
                       "nested deeper than 128"));
  const std::string many = "template <int N> int g(int a) { return a + N; }\n" + head;
  std::string calls;
  for (int i = 0; i < 300; ++i)
    calls += fmt::format("a = g<{}>(a); ", i);
  CHECK(test::contains(refusal_of_file(many + "int a = 0; " + calls + "}"),
                       "more than 256 functions"));
}

TEST_CASE("what a runner does not take has no plan, and the reason says so") {
  CHECK(env::plan_limits::kernels == 64);
  CHECK(env::plan_limits::kernel_parameters == 64);
  const std::string head =
      "extern \"C\" void kernel(const float* x, const int* ids, float* y, int64_t n, int64_t m, "
      "void* w, cudaStream_t s) { ";
  const auto with_kernels = [&](int count) {
    std::string launches;
    for (int i = 0; i < count; ++i)
      launches += fmt::format("k<{}><<<1, 1, 0, s>>>(y); ", i);
    // One that was launched before is no other kernel.
    launches += "k<0><<<1, 1, 0, s>>>(y); ";
    return refusal_of_file("template <int N> __global__ void k(float* y) {}\n" + head + launches +
                           "}");
  };
  CHECK(with_kernels(64) == "accepted");
  CHECK(with_kernels(65) == "more than 64 kernels, which is what a runner takes");
  const auto with_parameters = [&](int count, bool as_array) {
    std::string parameters = "float* y", arguments = "y", addresses = "&y";
    for (int i = 1; i < count; ++i) {
      parameters += fmt::format(", int a{}", i);
      arguments += ", 1";
      addresses += ", &one";
    }
    return refusal_of_file(
        "__global__ void k(" + parameters + ") {}\n" + head +
        (as_array ? "int one = 1; void* args[] = {" + addresses +
                        "}; cudaLaunchCooperativeKernel((void*)k, dim3(1), dim3(1), args, 0, s); }"
                  : "k<<<1, 1, 0, s>>>(" + arguments + "); }"));
  };
  for (const bool as_array : {false, true}) {
    CAPTURE(as_array);
    CHECK(with_parameters(64, as_array) == "accepted");
    CHECK(with_parameters(65, as_array) ==
          "kernel 'k' has 65 parameters: a runner takes 64 at most");
    CHECK(with_parameters(70, as_array) ==
          "kernel 'k' has 70 parameters: a runner takes 64 at most");
  }
  // Functions that are never launched are the plan's own affair.
  std::string wide = "int wide(int a0", ones = "1";
  for (int i = 1; i < 100; ++i) {
    wide += fmt::format(", int a{}", i);
    ones += ", 1";
  }
  CHECK(refusal_of_file(wide + ") { return a0; }\n" + head + "int a = wide(" + ones +
                        "); a += 1; }") == "accepted");
}

TEST_CASE("the workspace and the call have to fit the signature") {
  const std::string kernel =
      "__global__ void k(float* y) {}\nextern \"C\" void kernel(const float* x, const int* ids, "
      "float* "
      "y, int64_t n, int64_t m, void* w, cudaStream_t s) { k<<<1, 1, 0, s>>>((float*)w); }\n";
  const auto plain = env::parse_launch_plan(kernel, test::plan_signature());
  REQUIRE(plain.has_value());
  CHECK(plain->workspace(std::vector<std::int64_t>{3, 4}) == 0);
  const auto plan = env::parse_launch_plan(
      kernel +
          "extern \"C\" int64_t workspace_bytes(int64_t n, int64_t m) {\n"
          "  int64_t all = 0;\n  for (int64_t s = n; s > 1; s = (s + 1) / 2) all += s;\n"
          "  if (m == 7) return -1;\n  if (m == 8) return 1 / (m - 8);\n"
          "  if (m < 9) return all * (int64_t)sizeof(double);\n}\n",
      test::plan_signature());
  REQUIRE_MESSAGE(plan.has_value(), env::to_string(plan.error()));
  CHECK(plan->workspace(std::vector<std::int64_t>{8, 4}) == 8 * (8 + 4 + 2));
  const auto message = [&](std::int64_t m) {
    return plan->workspace(std::vector<std::int64_t>{8, m}).error().message;
  };
  CHECK(message(7) == "workspace_bytes is -1, at least 0");
  CHECK(message(8) == "line 7, column 24: 1 / 0: division by zero");
  CHECK(test::contains(message(9), "function 'workspace_bytes' ends without a return"));
  CHECK(plan->workspace(std::vector<std::int64_t>{8}).error().message ==
        "a call with 1 sizes, the kernel has 2");
  env::plan_call call = test::plan_call(3, 4);
  call.sizes.push_back(5);
  CHECK(plan->steps(call).error().message == "a call with 3 sizes, the kernel has 2");
  call = test::plan_call(3, 4);
  call.output_bytes.clear();
  CHECK(plan->steps(call).error().message ==
        "a call with 2 inputs and 0 outputs, the kernel has 2 and 1");
  call = test::plan_call(3, 4);
  call.workspace_bytes = 0;
  CHECK(plan->steps(call).has_value());
}

TEST_CASE("a plan says what its kernels take") {
  const auto plan = env::parse_launch_plan(
      test::plan_file("numbers<<<1, 1, 0, stream>>>(1, 1, 1, 1, 1, 1); typed<float4><<<1, 1, 0, "
                      "stream>>>((float4*)x, (float4*)y, 1);"),
      test::plan_signature());
  REQUIRE(plan.has_value());
  REQUIRE(plan->kernels().size() == 2);
  std::string text;
  for (const env::plan_parameter& one : plan->kernels()[0].parameters)
    text += fmt::format("{}:{}{} ", one.type, one.size, one.pointer ? "*" : "");
  for (const env::plan_parameter& one : plan->kernels()[1].parameters)
    text += fmt::format("{}:{}{} ", one.type, one.size, one.pointer ? "*" : "");
  CHECK(text ==
        "bool:1 char:1 short:2 unsigned int:4 long long:8 double:8 const float4*:8* "
        "float4*:8* unsigned int:4 ");
}
