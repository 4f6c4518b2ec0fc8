// What the grammar does not cover: each with its place and the words of the error.
#include <string>

#include "env/launch/plan_fixture.hpp"

using namespace quern;

namespace {

// "@S" stands for this list, "@P" for the parameters of `kernel`.
const std::string statements =
    "a declaration, an assignment, if, for, while, do, switch, return, a launch with <<<...>>>, "
    "cudaLaunchCooperativeKernel, cudaMemsetAsync, cudaMemcpyAsync, cudaFuncSetAttribute, "
    "(void)name, or a function of this file";
const std::string parameters =
    "const float* x, const int* ids, float* y, int64_t n, int64_t m, void* workspace, "
    "cudaStream_t stream";

struct refused_case {
  const char* text;
  const char* error;  // line:column: text
};

const refused_case refused_bodies[] = {
    {"printf(\"hello\");", "1:1: found 'printf', allowed: @S"},
    {"int a = 5", "2:1: found the end, allowed behind a declaration: ';'"},
    {"copy<<<1, 1>>>(x, y, 1);",
     "1:12: a launch without a stream, which would not be ordered with the others: allowed is "
     "<<<grid, block, shared, stream>>>"},
    {"copy<<<1, 1, 0>>>(x, y, 1);",
     "1:15: a launch without a stream, which would not be ordered with the others: allowed is "
     "<<<grid, block, shared, stream>>>"},
    {"copy<<<1, 1, 0, 0>>>(x, y, 1);",
     "1:17: found '0' as the stream of a launch: allowed is the stream parameter of this function"},
    {"copy<<<1, 1, 0, other>>>(x, y, 1);",
     "1:17: found 'other' as the stream of a launch: allowed is the stream parameter of this "
     "function"},
    {"copy<<<1, 1, 0, stream, 3>>>(x, y, 1);", "1:23: found ',', allowed behind the stream: '>>>'"},
    {"copy<<<1, 1, 0, stream>>>(x, y);", "1:1: kernel 'copy' has 3 parameters, found 2 arguments"},
    {"copy<<<1, 1, 0, stream>>>(x, x, 1);",
     "1:30: argument 2 of kernel 'copy' is const float*, allowed: float*"},
    {"copy<<<1, 1, 0, stream>>>(ids, y, 1);",
     "1:27: argument 1 of kernel 'copy' is const int*, allowed: const float*"},
    {"copy<<<1, 1, 0, stream>>>(x, y, y);",
     "1:33: argument 3 of kernel 'copy' is float*, allowed: int"},
    {"copy(x, y, 1);", "1:5: found '(', allowed behind a kernel's name: '<<<'"},
    {"unknown<<<1, 1, 0, stream>>>(x, y, 1);", "1:1: found 'unknown', allowed: @S"},
    {"float v = x[0];",
     "1:12: found '[': device memory cannot be read on the host (allowed: &pointer[index])"},
    {"float v = *x;", "1:11: found '*': device memory cannot be read on the host"},
    {"x[0] = 1;", "1:2: found '[': device memory cannot be written on the host"},
    {"int* p = &n;", "1:10: '&': allowed are &pointer[index], and &variable inside void* args[]"},
    {"const char* s = \"text\";",
     "1:17: found '\"text\"', allowed: a number, a name, a cast or '('"},
    {"static int calls = 0;", "1:12: 'calls' is static: allowed are static constants"},
    {"static const int k = n;", "1:18: 'k' is static: allowed are static constants"},
    {"constexpr int k = n;", "1:15: 'k' is constexpr, but its value is no constant"},
    {"const int k;", "1:11: 'k' is constant without a value"},
    {"const int k = 3; k = 4;", "1:18: 'k' is constant: it cannot be assigned"},
    {"n++; m--; y++; int q = n++;", "1:25: '++' inside an expression: allowed as a statement"},
    {"int a = (b = 3);",
     "1:10: 'b' is not known here: allowed are variables, and constants of this file"},
    {"auto f = [&](int i) { return i; };",
     "1:10: found '[', allowed: a number, a name, a cast or '('"},
    {"int values[3] = {1, 2, 3};",
     "1:1: an array: allowed is void* args[] = {&a, &b} for a cooperative launch"},
    {"#ifdef FOO\n"
     "#endif",
     "1:1: '#ifdef': allowed directives are #include, #define, #undef and #pragma"},
    {"#define LOCAL 3\n"
     "int a = LOCAL;",
     "1:1: '#define' inside a host function: allowed outside"},
    {"if constexpr (true) return;",
     "1:4: if constexpr is not in the grammar: allowed is if (condition)"},
    {"goto end;", "1:1: found 'goto', allowed: @S"},
    {"try { } catch (...) { }", "1:1: found 'try', allowed: @S"},
    {"return 3;", "1:1: return with a value in a function that returns void"},
    {"break;", "1:1: 'break' outside a loop"},
    {"cudaMalloc(&workspace, n);", "1:1: found 'cudaMalloc', allowed: @S"},
    {"cudaDeviceSynchronize();", "1:1: found 'cudaDeviceSynchronize', allowed: @S"},
    {"cudaMemcpyAsync(y, x, 4, cudaMemcpyHostToDevice, stream);",
     "1:26: found 'cudaMemcpyHostToDevice', allowed: cudaMemcpyDeviceToDevice"},
    {"cudaMemcpy(y, x, 4, cudaMemcpyDeviceToDevice);", "1:1: found 'cudaMemcpy', allowed: @S"},
    {"cudaMemsetAsync(y, 0, 4);", "1:24: found ')', allowed behind the number of bytes: ','"},
    {"cudaMemsetAsync(x, 0, 4, stream);", "1:17: what is set is const float*, allowed: void*"},
    {"cudaFuncSetAttribute(copy, cudaFuncAttributePreferredSharedMemoryCarveout, 100);",
     "1:28: found 'cudaFuncAttributePreferredSharedMemor...', allowed: "
     "cudaFuncAttributeMaxDynamicSharedMemorySize"},
    {"cudaError_t e = cudaGetLastError();", "1:1: found 'cudaError_t', allowed: @S"},
    {"tiled<n><<<1, 1, 0, stream>>>(x, y, n);",
     "1:7: depends on a variable: allowed is a constant"},
    {"tiled<<<1, 1, 0, stream>>>(x, y, n);", "1:1: template argument 'B' of 'tiled' is not given"},
    {"copy<3><<<1, 1, 0, stream>>>(x, y, 1);", "1:5: 'copy' is no template"},
    {"tiled<1, 2><<<1, 1, 0, stream>>>(x, y, n);", "1:10: 'tiled' has 1 template parameters"},
    {"tiled<float><<<1, 1, 0, stream>>>(x, y, n);",
     "1:12: found '>', allowed behind a type in an expression: '('"},
    {"typed<<<1, 1, 0, stream>>>(x, (int*)y, n);",
     "1:31: template parameter 'T' would be float and int"},
    {"int i = std::max(n, 3);",
     "1:9: max of long and int: allowed are two numbers of one type (cast one, or write "
     "std::max<int64_t>(a, b))"},
    {"int i = 3.5 % 2;", "1:13: operands are double and int: allowed are integers"},
    {"int i = y - y;",
     "1:11: operands are float* and float*: allowed are numbers, and pointers plus or minus "
     "integers"},
    {"if (workspace) return;", "1:5: a condition is void*: allowed are numbers"},
    {"size_t a = (size_t)workspace;",
     "1:12: a pointer has no number here: allowed are casts between pointer types"},
    {"float* p = workspace;", "1:12: 'p' is void*, allowed: float*"},
    {"void* p = workspace; p += 3;",
     "1:24: void* cannot be moved: the size of what it points to is not known here"},
    {"long double d = 1;",
     "1:1: 'long' begins no type of a plan: allowed are the integer types, float, double and bool"},
    {"unsigned float d = 1;",
     "1:1: 'unsigned' begins no type of a plan: allowed are the integer types, float, double and "
     "bool"},
    {"int i = 99999999999999999999;",
     "1:9: found '99999999999999999999', allowed are numbers that fit int64_t, uint64_t, float or "
     "double"},
    {"int i = 0xfg;",
     "1:9: found '0xfg', allowed are numbers that fit int64_t, uint64_t, float or double"},
    {"int i = sizeof(n);", "1:16: found 'n', allowed: sizeof(type)"},
    {"int i = sizeof(void);", "1:9: sizeof(void): its size is not known here"},
    {"void* args[] = {&x}; cudaLaunchCooperativeKernel((void*)copy, 1, 1, args, 0, stream);",
     "1:22: kernel 'copy' has 3 parameters, found 1 arguments"},
    {"void* args[] = {&x, &y, &n}; cudaLaunchCooperativeKernel((void*)copy, 1, 1, args, 0, "
     "stream);",
     "1:26: argument 3 of kernel 'copy' is long, its parameter is int: a cooperative launch "
     "converts nothing"},
    {"int undefined = later;",
     "1:17: 'later' is not known here: allowed are variables, and constants of this file"},
    {"int n2 = n; { int inner = 1; } n2 = inner;",
     "1:37: 'inner' is not known here: allowed are variables, and constants of this file"},
    {"dim3 g(1, 2, 3, 4);", "1:7: dim3 has 3 members, found 4"},
    {"dim3 g; g.w = 3;", "1:11: found 'w', allowed: x, y or z"},
    {"int a = 5; a.x = 3;",
     "1:13: found '.', allowed behind a variable: =, +=, -=, *=, /=, %=, <<=, >>=, &=, |=, ^=, ++ "
     "or --"},
    {"for (int i = 0; i < 3; i++;) { }", "1:27: found ';', allowed behind for: ')'"},
    {"while (n > 3", "0:130: '{' is never closed"},
    {"{ int a = 1;", "0:130: '{' is never closed"},
    {"int a = min(1);", "1:9: 'min' has 2 arguments, found 1"},
    {"int a = std::gcd(4, 6);",
     "1:9: a call of 'std::gcd': allowed are functions of this file, min, max and functions of "
     "<cmath>"},
    {"int a = 1 / 0 * BLOCK; constexpr int b = 7 / (BLOCK - 256);",
     "1:44: 7 / 0: division by zero"},
    {"tiled<1 << 40><<<1, 1, 0, stream>>>(x, y, n);",
     "1:9: shift of int by 40: allowed are 0 to 31"},
    {"volatile int a = 3; int& b = a;", "1:21: a reference: allowed are variables by value"},
    {"int a = 3, int b = 4;", "1:12: 'int' is no name for a variable"},
    {"asm(\"nop\");", "1:1: found 'asm', allowed: @S"},
    {"throw 3;", "1:1: found 'throw', allowed: @S"},
    {"new int;", "1:1: found 'new', allowed: @S"},
    {"case 3: return;", "1:1: found 'case', allowed: @S"},
    {"int a = n > 3 ? y : 3;", "1:15: ? : of float* and int: allowed are two of one type"},
    {"int a = ({ 3; });", "1:10: found '{', allowed: a number, a name, a cast or '('"},
    {"a = 3;", "1:1: found 'a', allowed: @S"},
    {"stream = 0;", "1:10: 'stream' is int, allowed: cudaStream_t"},
    {"std::vector<int> v;", "1:1: found 'std::vector', allowed: @S"},
    {"sizeof(int);", "1:1: found 'sizeof', allowed: @S"},
    {"BLOCK = 3;", "1:1: found 'BLOCK', allowed: @S"},
    {"int a = copy;", "1:9: kernel 'copy' in an expression: allowed is a launch <<<...>>>"},
    {"int a = 3, int b = 4;", "1:12: 'int' is no name for a variable"},
    {"int a = 3; { int a = 4; } int a = 5;", "1:31: 'a' is declared a second time"},
    {"int n = 3;", "1:5: 'n' is declared a second time"},
    {"std::vector<int> v;", "1:1: found 'std::vector', allowed: @S"},
    {"int dim3 = 3;", "1:5: 'dim3' is no name for a variable"},
    {"if (n > 3) int q = 4; q = 5;", "1:23: found 'q', allowed: @S"},
};

const refused_case refused_files[] = {
    {"__global__ void k(float* y) {}",
     "1:1: no function 'kernel' is defined: extern \"C\" void kernel(...)"},
    {"#if 1\n"
     "#endif",
     "1:1: '#if': allowed directives are #include, #define, #undef and #pragma"},
    {"int a = (3;", "1:9: '(' is never closed"},
    {"}", "1:1: '}' without its opening bracket"},
    {"namespace a {", "1:13: a namespace is never closed"},
    {"template <", "1:1: 'template <' is never closed"},
    {"extern \"C\" void kernel(@P) { } extern \"C\" void kernel(@P) { }",
     "1:146: 'kernel' is defined a second time"},
    {"template <int N> void kernel(@P) { }", "1:23: 'kernel' is not extern \"C\""},
    {"void kernel(@P) { }", "1:6: 'kernel' is not extern \"C\""},
    {"extern \"C\" __device__ void kernel(@P) { }",
     "1:28: 'kernel' is __device__: it has to run on the host"},
    {"extern \"C\" __global__ void kernel(@P) { }", "1:28: 'kernel' has to be a host function"},
    {"extern \"C\" int kernel(@P) { }", "1:16: 'kernel' has to return void"},
    {"extern \"C\" void kernel(const float* x, cudaStream_t stream) { }",
     "1:17: 'kernel' has 2 parameters, the task's has 7"},
    {"extern \"C\" void kernel(float* x, const int* ids, float* y, int64_t n, int64_t m, void* w, "
     "cudaStream_t st) { }",
     "1:24: parameter 1 is float*, the task's 'x' is const float*"},
    {"extern \"C\" void kernel(const float* x, const int* ids, const float* y, int64_t n, int64_t "
     "m, void* w, cudaStream_t st) { }",
     "1:56: parameter 3 is const float*, the task's 'y' is float*"},
    {"extern \"C\" void kernel(const double* x, const int* ids, float* y, int64_t n, int64_t m, "
     "void* w, cudaStream_t st) { }",
     "1:24: parameter 1 is const double*, the task's 'x' is const float*"},
    {"extern \"C\" void kernel(const float* x, const int* ids, float* y, int n, int64_t m, void* "
     "w, cudaStream_t st) { }",
     "1:66: parameter 4 is int, the task's 'n' is long"},
    {"extern \"C\" void kernel(const float* x, const int* ids, float* y, uint64_t n, int64_t m, "
     "void* w, cudaStream_t st) { }",
     "1:66: parameter 4 is unsigned long, the task's 'n' is long"},
    {"extern \"C\" void kernel(const float* x, const int* ids, float* y, int64_t n, int64_t m, "
     "float* w, cudaStream_t st) { }",
     "1:88: parameter 6 is float*, the task's 'workspace' is void*"},
    {"extern \"C\" void kernel(const float* x, const int* ids, float* y, int64_t n, int64_t m, "
     "void* w, void* st) { }",
     "1:97: parameter 7 is void*, the task's 'stream' is cudaStream_t"},
    {"extern \"C\" void kernel(const float* x, const int* ids, float* y, int64_t& n, int64_t m, "
     "void* w, cudaStream_t st) { }",
     "1:66: a reference: parameters of 'kernel' are numbers and pointers by value"},
    {"extern \"C\" void kernel(const float* x, const int* ids, float* y, int64_t n = 3, int64_t m, "
     "void* w, cudaStream_t st) { }",
     "1:76: default arguments are not in the grammar"},
    {"extern \"C\" void kernel(@P) { } extern \"C\" int64_t workspace_bytes(int64_t n) { return 3; "
     "}",
     "1:149: 'workspace_bytes' has 1 parameters, the task has 2 sizes"},
    {"extern \"C\" void kernel(@P) { } extern \"C\" int workspace_bytes(int64_t n, int64_t m) { "
     "return 3; }",
     "1:145: 'workspace_bytes' has to return int64_t"},
    {"extern \"C\" void kernel(@P) { } extern \"C\" int64_t workspace_bytes(int64_t n, int m) { "
     "return 3; }",
     "1:176: parameter 2 is int, the task's 'm' is long"},
    {"extern \"C\" void kernel(@P) { } extern \"C\" int64_t workspace_bytes(int64_t n, int64_t m) "
     "{ return; }",
     "1:189: return without a value"},
    {"extern \"C\" void kernel(@P) { } extern \"C\" int64_t workspace_bytes(int64_t n, int64_t m) "
     "{ return n + k; }",
     "1:200: 'k' is not known here: allowed are variables, and constants of this file"},
    {"struct P { int a; };\n"
     "__global__ void k(P p) {}\n"
     "extern \"C\" void kernel(@P) { k<<<1, 1, 0, stream>>>(nullptr); }",
     "2:19: parameter 1 of kernel 'k' is P: allowed are numbers and pointers"},
    {"__global__ void k(const __grid_constant__ CUtensorMap map) {}\n"
     "extern \"C\" void kernel(@P) { k<<<1, 1, 0, stream>>>(nullptr); }",
     "1:19: parameter 1 of kernel 'k' is CUtensorMap: allowed are numbers and pointers"},
    {"__global__ void k(float4 v) {}\n"
     "extern \"C\" void kernel(@P) { k<<<1, 1, 0, stream>>>(nullptr); }",
     "1:19: parameter 1 of kernel 'k' is float4: allowed are numbers and pointers"},
    {"__global__ void k(float* y);\n"
     "extern \"C\" void kernel(@P) { k<<<1, 1, 0, stream>>>(y); }",
     "2:128: kernel 'k' is not defined in this file"},
    {"__global__ void k(float* y) {} __global__ void k(int* y) {}\n"
     "extern \"C\" void kernel(@P) { k<<<1, 1, 0, stream>>>(y); }",
     "2:128: kernel 'k' is defined more than once"},
    {"template <typename... T> __global__ void k(T*... y) {}\n"
     "extern \"C\" void kernel(@P) { k<<<1, 1, 0, stream>>>(y); }",
     "1:11: template parameters of 'k': allowed are types and values, no packs and no templates"},
    {"template <template <class> class T> __global__ void k(float* y) {}\n"
     "extern \"C\" void kernel(@P) { k<<<1, 1, 0, stream>>>(y); }",
     "1:11: template parameters of 'k': allowed are types and values, no packs and no templates"},
    {"template <typename T> __global__ void k(float* y) {}\n"
     "extern \"C\" void kernel(@P) { k<<<1, 1, 0, stream>>>(y); }",
     "2:128: template argument 'T' of 'k' is not given"},
    {"int f(int a) { return f(a - 1); }\n"
     "extern \"C\" void kernel(@P) { int a = f(3); }",
     "1:23: 'f' calls itself"},
    {"auto g(int a); int f(int a) { return g(a); } auto g(int a) { return f(a); }\n"
     "extern \"C\" void kernel(@P) { int a = f(3); }",
     "1:69: 'f' calls itself"},
    {"int f(int a) { return a; } int f(float a) { return 1; }\n"
     "extern \"C\" void kernel(@P) { int a = f(3); }",
     "2:136: 'f' is defined more than once: allowed is one definition"},
    {"int f(int a);\n"
     "extern \"C\" void kernel(@P) { int a = f(3); }",
     "2:136: 'f' is not defined in this file"},
    {"__device__ int f(int a) { return a; }\n"
     "extern \"C\" void kernel(@P) { int a = f(3); }",
     "2:136: 'f' is __device__: the host cannot call it"},
    {"int f(int& a) { a = 3; return a; }\n"
     "extern \"C\" void kernel(@P) { int a = 3; a = f(a); }",
     "1:7: a reference: parameters of 'f' are numbers and pointers by value"},
    {"int f(int a) { static int calls = 0; return calls++; }\n"
     "extern \"C\" void kernel(@P) { int a = f(3); }",
     "1:27: 'calls' is static: allowed are static constants"},
    {"int f(std::vector<int> a) { return 3; }\n"
     "extern \"C\" void kernel(@P) { int a = f(3); }",
     "1:7: found 'std', allowed: a type"},
    {"template <int N> int f(int a) { return N ? f<N - 1>(a) : f<N + 1>(a); }\n"
     "extern \"C\" void kernel(@P) { int a = f<3>(3); }",
     "1:40: nested deeper than 128"},
    {"static int calls = 0;\n"
     "extern \"C\" void kernel(@P) { calls += 1; }",
     "2:128: found 'calls', allowed: @S"},
    {"const float* table = nullptr;\n"
     "extern \"C\" void kernel(@P) { int a = table; }",
     "1:14: 'table' is no number: no constant of a plan"},
    {"constexpr int A = B; constexpr int B = A;\n"
     "extern \"C\" void kernel(@P) { int a = A; }",
     "1:15: 'A' is defined by itself"},
    {"constexpr int A = 1 << 31;\n"
     "extern \"C\" void kernel(@P) { int a = A; }",
     "1:21: 1 << 31 does not fit int"},
    {"constexpr float3 A = {1, 2, 3};\n"
     "extern \"C\" void kernel(@P) { int a = A; }",
     "1:18: 'A' is no number: no constant of a plan"},
    {"using int64_t = int;\n"
     "extern \"C\" void kernel(@P) { }",
     "1:1: 'int64_t' is declared anew"},
    {"struct float4 { double x[4]; };\n"
     "extern \"C\" void kernel(@P) { }",
     "1:1: 'float4' is declared anew"},
    {"template <typename size_t> __global__ void k(size_t n) {}\n"
     "extern \"C\" void kernel(@P) { k<int><<<1, 1, 0, stream>>>(3); }",
     "1:11: 'size_t' is declared anew"},
    {"#define TWO(a, b) a\n"
     "extern \"C\" void kernel(@P) { int a = TWO(3); }",
     "2:136: macro 'TWO' has 2 parameters, found 1"},
    {"#define JOIN(a, b) a##b\n"
     "extern \"C\" void kernel(@P) { int a = JOIN(3, 4); }",
     "2:136: a call of 'JOIN': allowed are functions of this file, min, max and functions of "
     "<cmath>"},
    {"#define BODY { } __global__ void k() {}\n"
     "extern \"C\" void kernel(@P) BODY",
     "2:1: a host function that a macro makes with more"},
    {"extern \"C\" void kernel(@P) {\n"
     "#include \"secret\"\n"
     "}",
     "2:1: '#include' inside a host function: allowed outside"},
    {"extern \"C\" void kernel(@P) {\n"
     "#pragma unroll\n"
     "int a = 3;\n"
     "#error no\n"
     "}",
     "4:1: '#error': allowed directives are #include, #define, #undef and #pragma"},
};

std::string filled_in(std::string text) {
  for (const auto& [mark, meant] : {std::pair{"@S", statements}, std::pair{"@P", parameters}})
    for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at))
      text.replace(at, 2, meant);
  return text;
}

}  // namespace

TEST_CASE("bodies that the grammar does not cover") {
  for (const refused_case& one : refused_bodies) {
    CAPTURE(one.text);
    CHECK(test::refusal_of(one.text) == filled_in(one.error));
  }
}

TEST_CASE("files that have no plan") {
  for (const refused_case& one : refused_files) {
    CAPTURE(one.text);
    const auto plan = env::parse_launch_plan(filled_in(one.text), test::plan_signature());
    REQUIRE(!plan.has_value());
    CHECK(fmt::format("{}:{}: {}", plan.error().line, plan.error().column, plan.error().text) ==
          filled_in(one.error));
  }
}

TEST_CASE("a function cannot be hidden from the parser") {
  // Comments, spliced lines, digraphs, a mark at the file's beginning: read as the compiler does.
  const std::string file =
      "\xEF\xBB\xBF__global__ void k(float* y) {}\n"
      "extern \"C\" void ker\\\nnel(const float* x, const int* ids, float* y, int64_t n, int64_t "
      "m, "
      "void* w, cudaStream_t s) <%\n"
      "  /* } */ k<<<1, 2, 0, s>>>(y); // }\n%>\n";
  CHECK(test::steps_of_file(file, 1, 1) == "k<<<1 1 1|2 1 1|0>>>(out0+0)");
  const auto plan = env::parse_launch_plan(file, test::plan_signature());
  REQUIRE(plan.has_value());
  const std::string kept = "\xEF\xBB\xBF__global__ void k(float* y) {}\n";
  REQUIRE(plan->device_source().size() == file.size());
  CHECK(plan->device_source().substr(0, kept.size()) == kept);
  CHECK(plan->device_source().find_first_not_of(" \n", kept.size()) == std::string::npos);
}
