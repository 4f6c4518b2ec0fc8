// The closed lists that the static screen of lane `cuda` goes by.
#include "env/lanes/cuda/screen/cuda_rules.hpp"

#include <algorithm>
#include <cctype>
#include <unordered_set>

#include "env/screen/common_rules.hpp"

namespace quern::env::cuda_rules {
namespace {

using word_set = std::unordered_set<std::string_view>;

constexpr std::string_view no_clock = "a kernel has no clock: it is timed from outside";
constexpr std::string_view no_host =
    "a candidate computes; it has no processes, threads, files, "
    "signals or clocks";
constexpr std::string_view no_output = "a kernel prints nothing";
constexpr std::string_view no_end = "a kernel neither ends nor stops itself";
constexpr std::string_view no_heap =
    "memory is the outputs, the workspace and what the CUDA runtime gives";
constexpr std::string_view no_sharing = "device memory is not shared with other processes";
constexpr std::string_view no_settings = "the device's settings are not a candidate's";
constexpr std::string_view no_callback = "host code runs in kernel() and nowhere else";
constexpr std::string_view no_library = "library calls are not allowed in this suite";
constexpr std::string_view no_graph = "graphs are not allowed in this suite";
constexpr std::string_view no_managed = "managed memory is not allowed: tensors lie on the device";
constexpr std::string_view no_loading = "code is not loaded at run time";

const word_set clocks{"clock64",
                      "globaltimer",
                      "__globaltimer",
                      "__nvvm_read_ptx_sreg_clock",
                      "__nvvm_read_ptx_sreg_clock64",
                      "__nvvm_read_ptx_sreg_globaltimer",
                      "cudaEventElapsedTime",
                      "cuEventElapsedTime",
                      "__clock64",
                      "__clock",
                      "__clock_hi",
                      "clock_gettime",
                      "omp_get_wtime"};
const word_set ends{"__trap", "__brkpt", "__nanosleep", "__assert_fail", "__assertfail",
                    "assert", "abort",   "terminate",   "__builtin_trap"};
const word_set output{"printf", "vprintf", "fprintf", "sprintf", "snprintf", "puts",   "putchar",
                      "cout",   "cerr",    "clog",    "fwrite",  "fputs",    "perror", "dprintf"};
const word_set heap{"malloc",         "calloc",   "realloc", "free", "aligned_alloc",
                    "posix_memalign", "memalign", "valloc",  "sbrk", "__nv_aligned_device_malloc"};
const word_set device_settings{"cudaDeviceReset",
                               "cudaDeviceSetLimit",
                               "cudaThreadExit",
                               "cudaSetDeviceFlags",
                               "cuDevicePrimaryCtxReset",
                               "cuDevicePrimaryCtxRelease",
                               "cuCtxCreate",
                               "cuCtxDestroy",
                               "cuCtxSetLimit",
                               "cuCtxSetCurrent",
                               "cuCtxPushCurrent",
                               "cudaSetDevice",
                               "cudaProfilerStart",
                               "cudaProfilerStop",
                               "cudaDeviceSetCacheConfig",
                               "cuMulticastCreate"};
const word_set sharing{"cudaIpcGetMemHandle",
                       "cudaIpcOpenMemHandle",
                       "cudaIpcGetEventHandle",
                       "cudaIpcOpenEventHandle",
                       "cudaMemPoolExportToShareableHandle",
                       "cudaMemPoolImportFromShareableHandle",
                       "cudaMemPoolImportPointer"};
const word_set callbacks{"cudaLaunchHostFunc",  "cudaStreamAddCallback", "cuLaunchHostFunc",
                         "cuStreamAddCallback", "cudaGraphAddHostNode",  "cudaUserObjectCreate"};
const word_set host_memory{"cudaMallocHost",           "cudaHostAlloc",  "cudaHostRegister",
                           "cudaHostGetDevicePointer", "cuMemHostAlloc", "cuMemHostRegister"};
const word_set loading{"cudaLibraryLoadData", "cudaLibraryLoadFromFile", "nvrtcCreateProgram",
                       "cuModuleLoad",        "cuModuleLoadData",        "cuModuleLoadDataEx",
                       "cuLibraryLoadData",   "cuModuleLoadFatBinary",   "cuLinkCreate"};

// Beyond what lane cpp forbids: the host's side of a candidate is a program with libraries.
const word_set host_names{"chrono",         "thread",
                          "jthread",        "async",
                          "filesystem",     "ifstream",
                          "ofstream",       "fstream",
                          "random_device",  "open",
                          "read",           "write",
                          "ioctl",          "close",
                          "sigsetjmp",      "siglongjmp",
                          "__asm",          "getpid",
                          "getppid",        "gettid",
                          "sleep",          "poll",
                          "select",         "sendmsg",
                          "recvmsg",        "send",
                          "recv",           "prlimit64",
                          "mlock",          "dup",
                          "dup2",           "pipe",
                          "pipe2",          "lseek",
                          "pread",          "pwrite",
                          "ftruncate",      "__attribute_used__",
                          "backtrace",      "sem_open",
                          "shmget",         "shmat",
                          "tgkill",         "timer_create",
                          "timerfd_create", "eventfd",
                          "setrlimit",      "sched_yield",
                          "nvmlInit"};
// Ordinary words as names of variables; functions of the C library when they are called.
const word_set only_called{"clock",  "time",  "open",  "read",     "write",  "close",
                           "send",   "recv",  "pipe",  "dup",      "sleep",  "poll",
                           "select", "free",  "async", "thread",   "assert", "abort",
                           "puts",   "times", "ioctl", "terminate"};

const word_set pragmas{"unroll",
                       "nounroll",
                       "once",
                       "nv_diag_suppress",
                       "nv_diag_default",
                       "nv_diag_warning",
                       "nv_diagnostic",
                       "nv_diag_remark",
                       "nv_exec_check_disable",
                       "hd_warning_disable"};

const word_set places{"__device__", "__global__", "__host__"};

const word_set specifiers{"__device__", "__constant__", "__global__", "__managed__",  "__shared__",
                          "__host__",   "static",       "extern",     "thread_local", "const",
                          "constexpr",  "inline",       "volatile"};

const word_set counters{"int",     "unsigned", "signed",  "long",     "short",   "char",
                        "bool",    "uint32_t", "int32_t", "uint64_t", "int64_t", "uint16_t",
                        "int16_t", "uint8_t",  "int8_t",  "size_t",   "std",     "cuda",
                        "atomic",  "volatile", "uint",    "ull"};

bool begins_with_any(std::string_view word, std::initializer_list<std::string_view> beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(),
                     [&](std::string_view item) { return word.starts_with(item); });
}

// cublasSgemm, cudnnCreate, …: a capital or '_' behind the library's name.
bool is_library_name(std::string_view word) {
  for (const std::string_view library :
       {"cublas", "cublasLt", "cudnn", "cufft", "cusparse", "cusolver", "curand", "nccl", "nvtx"})
    if (word.size() > library.size() && word.starts_with(library) &&
        (std::isupper(static_cast<unsigned char>(word[library.size()])) != 0 ||
         word[library.size()] == '_'))
      return true;
  return word == "cutlass" || word == "cute";
}

}  // namespace

std::string_view why_forbidden(std::string_view word, bool called,
                               const cuda_screen_policy& policy) {
  if (!called && only_called.contains(word)) return {};
  if (clocks.contains(word) || (called && (word == "clock" || word == "time" || word == "times")))
    return no_clock;
  if (ends.contains(word)) return no_end;
  if (output.contains(word)) return no_output;
  if (heap.contains(word)) return no_heap;
  if (word == "__managed__" || word == "cudaMallocManaged" || word == "cuMemAllocManaged")
    return no_managed;
  if (device_settings.contains(word)) return no_settings;
  if (sharing.contains(word) ||
      begins_with_any(word, {"cudaIpc", "cuIpc", "cuMemExport", "cuMemImport", "cuMulticast"}))
    return no_sharing;
  if (callbacks.contains(word)) return no_callback;
  if (host_memory.contains(word)) return no_heap;
  if (loading.contains(word)) return no_loading;
  if (begins_with_any(word, {"nvml", "cupti", "__cudaRegister", "__cudaUnregister"}))
    return no_settings;
  if (!policy.library_calls && is_library_name(word)) return no_library;
  if (!policy.graphs && begins_with_any(word, {"cudaGraph", "cuGraph", "cudaStreamBeginCapture"}))
    return no_graph;
  if (host_names.contains(word) || rules::is_forbidden_name(word)) return no_host;
  if (called && rules::is_forbidden_call(word)) return no_host;
  return {};
}

bool is_known_pragma(std::span<const token> words) {
  return words.empty() || pragmas.contains(words[0].text) || rules::is_known_pragma(words);
}

std::string_view pragma_names() {
  return "unroll; nounroll; once; nv_diag_suppress and its like; nv_exec_check_disable; GCC ivdep, "
         "unroll, diagnostic; omp";
}

bool is_reserved_macro_name(std::string_view name) {
  return rules::is_reserved_macro_name(name) || specifiers.contains(name) ||
         name.starts_with("cuda") || name == "threadIdx" || name == "blockIdx" ||
         name == "blockDim" || name == "gridDim" || name == "workspace_bytes";
}

bool is_specifier(std::string_view word) {
  return specifiers.contains(word);
}

bool is_place(std::string_view word) {
  return places.contains(word);
}

bool is_counter_type(std::string_view word) {
  return counters.contains(word);
}

}  // namespace quern::env::cuda_rules
