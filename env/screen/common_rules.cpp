// The closed lists that the static screens of all lanes go by.
#include "env/screen/common_rules.hpp"

#include <algorithm>
#include <iterator>
#include <unordered_set>
#include <vector>

namespace quern::env::rules {
namespace {

using words = std::unordered_set<std::string_view>;

// clang-format off
const words attributes{
    "always_inline", "noinline", "hot", "cold", "pure", "const", "aligned", "vector_size",
    "optimize", "target", "flatten", "may_alias", "unused", "nonnull", "returns_nonnull",
    "assume_aligned", "malloc", "alloc_size", "packed", "nothrow", "leaf", "noclone", "noipa",
    "artificial", "gnu_inline", "no_sanitize", "deprecated", "maybe_unused", "nodiscard", "likely",
    "unlikely", "fallthrough", "noreturn", "no_unique_address", "assume", "carries_dependency",
    "unroll", "simd", "access", "mode", "warn_unused_result"};
// clang-format on

const words pragmas_of_gcc{"ivdep",        "unroll",      "optimize",      "target",
                           "push_options", "pop_options", "reset_options", "diagnostic"};

// clang-format off
const words keywords{
    "alignas", "alignof", "and", "and_eq", "auto", "bitand", "bitor", "bool", "break", "case",
    "catch", "char", "char8_t", "char16_t", "char32_t", "class", "compl", "concept", "const",
    "consteval", "constexpr", "constinit", "const_cast", "continue", "co_await", "co_return",
    "co_yield", "decltype", "default", "delete", "do", "double", "dynamic_cast", "else", "enum",
    "explicit", "export", "extern", "false", "float", "for", "friend", "goto", "if", "inline",
    "int", "long", "mutable", "namespace", "new", "noexcept", "not", "not_eq", "nullptr",
    "operator", "or", "or_eq", "private", "protected", "public", "register", "reinterpret_cast",
    "requires", "return", "short", "signed", "sizeof", "static", "static_assert", "static_cast",
    "struct", "switch", "template", "this", "thread_local", "throw", "true", "try", "typedef",
    "typeid", "typename", "union", "unsigned", "using", "virtual", "void", "volatile", "wchar_t",
    "while", "xor", "xor_eq", "defined", "kernel", "workspace_bytes", "std", "final", "override",
    "import", "module"};
// clang-format on

// clang-format off
const words positions{
    "__LINE__", "__FILE__", "__DATE__", "__TIME__", "__TIMESTAMP__", "__COUNTER__", "__BASE_FILE__",
    "__FILE_NAME__", "__INCLUDE_LEVEL__", "source_location", "__builtin_LINE", "__builtin_FILE",
    "__builtin_source_location"};
// clang-format on

// No honest kernel has a use for these names, even as its own.
// clang-format off
const words forbidden{
    "syscall", "fork", "vfork", "execl", "execle", "execlp", "execv", "execve", "execvp", "execvpe",
    "fexecve", "posix_spawn", "posix_spawnp", "popen", "pclose", "waitpid", "wait4", "ptrace",
    "prctl", "dlopen", "dlsym", "dlvsym", "dlclose", "dlmopen", "dladdr", "dl_iterate_phdr", "mmap",
    "mmap64", "munmap", "mremap", "mprotect", "madvise", "memfd_create", "shm_open", "socket",
    "socketpair", "setsockopt", "getaddrinfo", "fopen", "freopen", "fdopen", "tmpfile", "openat",
    "unlink", "unlinkat", "quick_exit", "_exit", "_Exit", "atexit", "at_quick_exit", "on_exit",
    "__cxa_atexit", "sigaction", "sigprocmask", "setitimer", "setjmp", "longjmp", "getenv",
    "secure_getenv", "setenv", "putenv", "environ", "__environ", "clock_gettime", "clock_settime",
    "clock_getres", "clock_nanosleep", "nanosleep", "usleep", "gettimeofday", "settimeofday",
    "adjtimex", "sched_setaffinity", "sched_setscheduler", "setpriority", "setrlimit", "prlimit",
    "_rdtsc", "__rdtsc", "__rdtscp", "_rdpmc", "__rdpmc", "_writefsbase_u64", "_writegsbase_u64",
    "_writefsbase_u32", "_writegsbase_u32", "thrd_create", "process_vm_readv", "process_vm_writev",
    "init_array", "fini_array", "__start", "_start", "_dl_open", "__libc_dlopen_mode"};
// clang-format on

// Ordinary words, so only where they are called.
const words forbidden_calls{"system", "exit", "raise", "kill", "signal", "alarm", "pause"};

// clang-format off
const words forbidden_in_std{
    "thread", "jthread", "async", "this_thread", "promise", "packaged_task", "filesystem",
    "ofstream", "ifstream", "fstream", "system", "exit", "quick_exit", "atexit", "at_quick_exit",
    "_Exit", "getenv", "chrono", "signal", "raise", "random_device", "clock", "time", "fopen"};
// clang-format on

// clang-format off
const words builtins{
    "expect", "expect_with_probability", "assume", "assume_aligned", "assume_separate_storage",
    "prefetch", "unreachable", "trap", "constant_p", "choose_expr", "types_compatible_p",
    "bit_cast", "is_constant_evaluated", "addressof", "offsetof", "object_size",
    "dynamic_object_size", "convertvector", "shuffle", "shufflevector", "memcpy", "memset",
    "memmove", "memcmp", "memchr", "mempcpy", "strlen", "alloca", "alloca_with_align",
    "cpu_supports", "cpu_init", "cpu_is", "launder", "assoc_barrier", "signbit", "signbitf",
    "signbitl", "isnan", "isnanf", "isinf", "isinff", "isinf_sign", "isfinite", "isnormal",
    "finite", "finitef", "isgreater", "isgreaterequal", "isless", "islessequal", "islessgreater",
    "isunordered", "fpclassify", "issignaling", "malloc", "free", "calloc", "aligned_alloc",
    "operator_new", "operator_delete", "has_attribute", "complex", "speculation_safe_value",
    "clear_padding", "abs", "labs", "llabs"};
// clang-format on

// clang-format off
const std::string_view builtin_families[] = {
    "ia32_", "aarch64_", "neon_", "clz", "ctz", "clrsb", "ffs", "popcount", "parity", "bswap",
    "bitreverse", "rotateleft", "rotateright", "add_overflow", "sub_overflow", "mul_overflow",
    "sadd", "ssub", "smul", "uadd", "usub", "umul", "elementwise_", "reduce_", "nontemporal_",
    "inf", "nan", "huge_val", "va_", "addc", "subc"};
// clang-format on

// Of the family ia32_, but clocks and bases of segments: as _rdtsc and its like above.
// clang-format off
const words clock_builtins{
    "ia32_rdtsc", "ia32_rdtscp", "ia32_rdpmc", "ia32_rdpid", "ia32_wrfsbase32", "ia32_wrfsbase64",
    "ia32_wrgsbase32", "ia32_wrgsbase64"};
// clang-format on

// clang-format off
const words mathematics{
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "copysign", "cos",
    "cosh", "erf", "erfc", "exp", "exp10", "exp2", "expm1", "fabs", "fdim", "floor", "fma", "fmax",
    "fmin", "fmod", "frexp", "hypot", "ilogb", "ldexp", "lgamma", "llrint", "llround", "log",
    "log10", "log1p", "log2", "logb", "lrint", "lround", "modf", "nearbyint", "nextafter",
    "nexttoward", "pow", "powi", "remainder", "remquo", "rint", "round", "roundeven", "scalbln",
    "scalbn", "significand", "sin", "sincos", "sinh", "sqrt", "tan", "tanh", "tgamma", "trunc",
    "j0", "j1", "y0", "y1"};
// clang-format on

const words other_declarations{"using", "typedef", "template",      "class",   "struct",
                               "union", "enum",    "static_assert", "concept", "namespace"};

std::string join(const words& items) {
  std::vector<std::string_view> sorted(items.begin(), items.end());
  std::sort(sorted.begin(), sorted.end());
  std::string text;
  for (const auto item : sorted)
    text += (text.empty() ? "" : ", ") + std::string(item);
  return text;
}

std::string_view without_underscores(std::string_view name) {
  if (name.size() > 4 && name.starts_with("__") && name.ends_with("__"))
    return name.substr(2, name.size() - 4);
  return name;
}

}  // namespace

std::vector<std::string> restrictions(bool lower_precision) {
  std::vector<std::string> all{
      "Take sizes from the arguments and write only to the outputs and the workspace; inputs stay "
      "as they are.",
      "No threads, files, system calls, inline assembly, or declarations of functions from "
      "elsewhere."};
  if (!lower_precision)
    all.emplace_back("Compute at least as precisely as the types of the arguments.");
  return all;
}

bool is_known_pragma(std::span<const token> line) {
  if (line.empty()) return true;  // means nothing
  const std::string_view first = line[0].text;
  const std::string_view second = line.size() > 1 ? std::string_view(line[1].text) : "";
  if (first == "GCC") return pragmas_of_gcc.contains(second);
  // Without -fopenmp the first does nothing but be common; the others are other compilers' hints.
  return first == "omp" || first == "once" || first == "unroll" || first == "ivdep" ||
         first == "simd" || first == "vector" || (first == "clang" && second == "loop") ||
         (first == "STDC" && second == "FP_CONTRACT");
}

bool is_reserved_macro_name(std::string_view name) {
  const bool reserved = name.starts_with("__") ||
                        (name.size() > 1 && name[0] == '_' && name[1] >= 'A' && name[1] <= 'Z');
  return reserved || keywords.contains(name) || forbidden.contains(name);
}

bool is_assembler(std::string_view word) {
  return word == "asm" || word == "__asm" || word == "__asm__";
}

bool is_position(std::string_view word) {
  return positions.contains(word);
}

bool is_forbidden_name(std::string_view word) {
  return forbidden.contains(word) || word.starts_with("pthread_") ||
         word.starts_with("__pthread_") || word.starts_with("io_uring_");
}

bool is_forbidden_call(std::string_view word) {
  return forbidden_calls.contains(word);
}

bool is_forbidden_in_std(std::string_view word) {
  return forbidden_in_std.contains(word);
}

bool is_known_builtin(std::string_view word) {
  const std::string_view name = word.substr(std::string_view("__builtin_").size());
  if (clock_builtins.contains(name)) return false;
  if (builtins.contains(name) || mathematics.contains(name)) return true;
  if (name.size() > 1 && (name.back() == 'f' || name.back() == 'l') &&
      mathematics.contains(name.substr(0, name.size() - 1)))
    return true;
  return std::any_of(std::begin(builtin_families), std::end(builtin_families),
                     [&](std::string_view family) { return name.starts_with(family); });
}

bool is_attribute_word(std::string_view word) {
  return word == "__attribute__" || word == "__attribute" || word == "__declspec";
}

bool is_known_attribute(std::string_view name) {
  return attributes.contains(name) || attributes.contains(without_underscores(name));
}

std::string attribute_names() {
  return join(attributes);
}

bool begins_other_declaration(std::string_view word) {
  return other_declarations.contains(word);
}

}  // namespace quern::env::rules
