// Which compiler flags a candidate may ask for.
#include "env/lanes/pytorch/build/extension_flags.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include <fmt/core.h>

#include "base/text.hpp"

namespace quern::env {
namespace {

template <std::size_t N>
bool is_flag_of(const std::array<std::string_view, N>& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

template <std::size_t N>
bool begins_flag_of(const std::array<std::string_view, N>& list, std::string_view word) {
  return std::any_of(list.begin(), list.end(),
                     [&](std::string_view start) { return word.starts_with(start); });
}

constexpr std::array<std::string_view, 6> optimisation_flags{"-O0", "-O1", "-O2",
                                                             "-O3", "-Os", "-Ofast"};
constexpr std::array<std::string_view, 6> language_standards{
    "-std=c++17", "-std=c++20", "-std=gnu++17", "-std=gnu++20", "--std=c++17", "--std=c++20"};
constexpr std::array<std::string_view, 26> cxx_flags{"-w",
                                                     "-g",
                                                     "-fPIC",
                                                     "-fpic",
                                                     "-ffast-math",
                                                     "-fopenmp",
                                                     "-pthread",
                                                     "-funroll-loops",
                                                     "-fno-math-errno",
                                                     "-ftree-vectorize",
                                                     "-fpermissive",
                                                     "-march=native",
                                                     "-mtune=native",
                                                     "-mavx",
                                                     "-mavx2",
                                                     "-mfma",
                                                     "-mavx512f",
                                                     "-msse4.2",
                                                     "-mf16c",
                                                     "-fno-strict-aliasing",
                                                     "-fstrict-aliasing",
                                                     "-finline-functions",
                                                     "-fomit-frame-pointer",
                                                     "-fvisibility=hidden",
                                                     "-DNDEBUG",
                                                     "-fno-trapping-math"};
constexpr std::array<std::string_view, 29> nvcc_flags{"--use_fast_math",
                                                      "-use_fast_math",
                                                      "--extended-lambda",
                                                      "-extended-lambda",
                                                      "--expt-extended-lambda",
                                                      "-expt-extended-lambda",
                                                      "--expt-relaxed-constexpr",
                                                      "-expt-relaxed-constexpr",
                                                      "-lineinfo",
                                                      "--generate-line-info",
                                                      "-allow-unsupported-compiler",
                                                      "--allow-unsupported-compiler",
                                                      "-restrict",
                                                      "--restrict",
                                                      "-w",
                                                      "-v",
                                                      "-g",
                                                      "--verbose",
                                                      "-res-usage",
                                                      "--resource-usage",
                                                      "--fmad=true",
                                                      "--fmad=false",
                                                      "-fmad=true",
                                                      "-fmad=false",
                                                      "--ftz=true",
                                                      "-ftz=true",
                                                      "--extra-device-vectorization",
                                                      "-extra-device-vectorization",
                                                      "-Wno-deprecated-gpu-targets"};
constexpr std::array<std::string_view, 12> nvcc_starts{
    "--maxrregcount=", "-maxrregcount=",   "-prec-div=",     "--prec-div=",
    "-prec-sqrt=",     "--prec-sqrt=",     "--ftz=",         "-ftz=",
    "-diag-suppress=", "--diag-suppress=", "-diag-suppress", "--diag_suppress="};
/// Words for the assembler of device code.
constexpr std::array<std::string_view, 11> ptxas_words{"-O0",
                                                       "-O1",
                                                       "-O2",
                                                       "-O3",
                                                       "-v",
                                                       "--verbose",
                                                       "-warn-spills",
                                                       "--warn-on-spills",
                                                       "-warn-lmem-usage",
                                                       "--warn-on-local-memory-usage",
                                                       "--allow-expensive-optimizations=true"};
constexpr std::array<std::string_view, 4> ptxas_starts{
    "-dlcm=", "-dscm=", "--maxrregcount=", "-maxrregcount="};
/// Set by the build: one architecture, its own threads.
constexpr std::array<std::string_view, 9> set_by_build{
    "-arch=",      "--gpu-architecture=", "-gencode=", "--generate-code=", "-code=",
    "--gpu-code=", "--threads=",          "-t=",       "-split-compile="};
constexpr std::array<std::string_view, 7> set_by_build_with_value{
    "-arch", "--gpu-architecture", "-gencode", "--generate-code", "-code", "--threads", "-t"};
constexpr std::array<std::string_view, 17> allowed_libraries{
    "cublas",   "cublasLt",  "cudnn",      "cudart",       "curand", "cusparse",
    "cusolver", "cufft",     "cuda",       "nvrtc",        "c10",    "c10_cuda",
    "torch",    "torch_cpu", "torch_cuda", "torch_python", "gomp"};
constexpr std::array<std::string_view, 4> system_libraries{"m", "pthread", "dl", "rt"};

bool is_plain_value(std::string_view text, std::string_view also) {
  return std::all_of(text.begin(), text.end(), [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           also.find(c) != also.npos;
  });
}

bool is_define(std::string_view flag) {
  if (!flag.starts_with("-D") && !flag.starts_with("-U")) return false;
  return flag.size() > 2 && is_plain_value(flag.substr(2), "=.+-:<>()");
}

// -Wl, -Wp and -Wa hand flags on to other programs.
bool is_warning(std::string_view flag) {
  return flag.starts_with("-W") && is_plain_value(flag.substr(2), "-=+") &&
         flag.find(',') == flag.npos;
}

bool is_cxx_flag(std::string_view flag) {
  return is_flag_of(optimisation_flags, flag) || is_flag_of(language_standards, flag) ||
         is_flag_of(cxx_flags, flag) || is_define(flag) || is_warning(flag);
}

// A folder that the build has in its path anyway.
bool is_known_folder(std::string_view path) {
  if (path.find("..") != path.npos) return false;
  while (path.size() > 1 && path.ends_with('/'))
    path.remove_suffix(1);
  if (path == "." || path == "/usr/include") return true;
  const bool cuda = path.starts_with("/usr/local/cuda") &&
                    (path.ends_with("/include") || path.ends_with("/lib64") ||
                     path.ends_with("/lib") || path.ends_with("/lib64/stubs"));
  return cuda || path.ends_with("/torch/include") || path.ends_with("/torch/lib") ||
         path.ends_with("/torch/include/torch/csrc/api/include");
}

/// The words of a text as a shell would part them: torch hands flags to one. Quotes are taken off.
void part_words(std::vector<std::string>& to, std::string_view text) {
  std::optional<std::string> word;
  char quote = 0;
  for (const char c : text) {
    if (quote != 0 && c == quote) {
      quote = 0;
    } else if (quote == 0 && (c == '\'' || c == '"')) {
      quote = c;
      if (!word) word.emplace();
    } else if (quote == 0 && (c == ' ' || c == '\t' || c == '\n')) {
      if (word) to.push_back(*std::exchange(word, std::nullopt));
    } else {
      if (!word) word.emplace();
      *word += c;
    }
  }
  if (word) to.push_back(*word);
}

/// One pass over the flags of one tool. A value may stand in the word behind.
class flag_reader {
 public:
  explicit flag_reader(const std::vector<std::string>& flags) {
    for (const auto& flag : flags)
      part_words(flags_, flag);
  }
  /// None at the end.
  std::optional<std::string> next() {
    if (at_ == flags_.size()) return std::nullopt;
    return flags_[at_++];
  }
  /// "-Xptxas -O3" or "-Xptxas=-O3". None: the flag is another one.
  std::optional<std::string> value_of(const std::string& flag, std::string_view name) {
    if (flag == name) return next().value_or("");
    if (flag.size() > name.size() && flag.starts_with(name) && flag[name.size()] == '=')
      return flag.substr(name.size() + 1);
    return std::nullopt;
  }

 private:
  std::vector<std::string> flags_;
  std::size_t at_ = 0;
};

std::string flag_refusal(std::string_view list, std::string_view flag) {
  return fmt::format(
      "{}: the flag '{}' is not allowed here; optimisation, warnings, macros, -std=c++17 or "
      "c++20, "
      "and libraries of CUDA are: leave it out\n",
      list, flag.substr(0, 200));
}

// Every part of "-fPIC,-O3" must be a flag that g++ itself may be given.
bool are_cxx_parts(const std::string& parts) {
  const auto words = base::split(parts, ',');
  return std::all_of(words.begin(), words.end(),
                     [](std::string_view word) { return is_cxx_flag(base::trim(word)); });
}

bool are_ptxas_parts(const std::string& parts) {
  const auto words = base::split(parts, ',');
  return std::all_of(words.begin(), words.end(), [](std::string_view word) {
    return is_flag_of(ptxas_words, word) ||
           (begins_flag_of(ptxas_starts, word) && is_plain_value(word.substr(1), "-="));
  });
}

void judge_cxx(const std::vector<std::string>& flags, extension_flags& to) {
  flag_reader reader(flags);
  while (const auto flag = reader.next()) {
    if (is_cxx_flag(*flag)) {
      to.cxx.push_back(*flag);
    } else if (flag->starts_with("-I") && is_known_folder(base::trim(flag->substr(2)))) {
      continue;
    } else {
      to.refused += flag_refusal("extra_cflags", *flag);
    }
  }
}

// Flags whose value may stand behind them. False: it is none of these.
bool judge_nvcc_pair(const std::string& flag, flag_reader& reader, extension_flags& to) {
  for (const std::string_view name : {"-Xcompiler", "--compiler-options"})
    if (const auto value = reader.value_of(flag, name)) {
      const std::string& parts = *value;
      if (are_cxx_parts(parts))
        to.nvcc.insert(to.nvcc.end(), {"-Xcompiler", parts});
      else
        to.refused += flag_refusal("extra_cuda_cflags", std::string(name) + " " + parts);
      return true;
    }
  for (const std::string_view name : {"-Xptxas", "--ptxas-options"})
    if (const auto value = reader.value_of(flag, name)) {
      if (are_ptxas_parts(*value))
        to.nvcc.insert(to.nvcc.end(), {"-Xptxas", *value});
      else
        to.refused += flag_refusal("extra_cuda_cflags", std::string(name) + " " + *value);
      return true;
    }
  for (const std::string_view name : {"-maxrregcount", "--maxrregcount"})
    if (flag == name) {
      const std::string value = reader.next().value_or("");
      if (is_plain_value(value, ""))
        to.nvcc.push_back("-maxrregcount=" + value);
      else
        to.refused += flag_refusal("extra_cuda_cflags", flag + " " + value);
      return true;
    }
  if (is_flag_of(set_by_build_with_value, flag)) {
    reader.next();
    return true;
  }
  for (const std::string_view name : {"--default-stream", "-default-stream"})
    if (const auto value = reader.value_of(flag, name)) {
      if (*value != "legacy") to.refused += flag_refusal("extra_cuda_cflags", flag + " " + *value);
      return true;
    }
  return false;
}

void judge_nvcc(const std::vector<std::string>& flags, extension_flags& to) {
  flag_reader reader(flags);
  while (const auto flag = reader.next()) {
    if (judge_nvcc_pair(*flag, reader, to) || begins_flag_of(set_by_build, *flag)) continue;
    const bool plain =
        is_flag_of(optimisation_flags, *flag) || is_flag_of(language_standards, *flag) ||
        is_flag_of(nvcc_flags, *flag) || is_define(*flag) ||
        (begins_flag_of(nvcc_starts, *flag) && is_plain_value(flag->substr(1), "-=,"));
    if (flag->starts_with("-I") && is_known_folder(base::trim(flag->substr(2)))) continue;
    if (plain)
      to.nvcc.push_back(*flag == "-Ofast" ? "-O3" : *flag);
    else
      to.refused += flag_refusal("extra_cuda_cflags", *flag);
  }
}

void judge_link(const std::vector<std::string>& flags, extension_flags& to) {
  flag_reader reader(flags);
  while (const auto flag = reader.next()) {
    const std::string_view rest =
        std::string_view(*flag).substr(std::min<std::size_t>(2, flag->size()));
    const bool library = flag->starts_with("-l") && (is_flag_of(allowed_libraries, rest) ||
                                                     is_flag_of(system_libraries, rest));
    if (library || is_flag_of(optimisation_flags, *flag) || *flag == "-fopenmp" ||
        *flag == "-pthread" || *flag == "-Wl,--no-as-needed" || *flag == "-Wl,--as-needed")
      to.link.push_back(*flag);
    else if (!flag->starts_with("-L") || !is_known_folder(base::trim(rest)))
      to.refused += flag_refusal("extra_ldflags", *flag);
  }
}

}  // namespace

extension_flags judge_flags(const extension_request& request) {
  extension_flags flags;
  judge_cxx(request.cflags, flags);
  judge_nvcc(request.cuda_cflags, flags);
  judge_link(request.ldflags, flags);
  for (const auto& path : request.include_paths)
    if (!is_known_folder(base::trim(path)))
      flags.refused += fmt::format(
          "extra_include_paths: the folder '{}' is not there; only headers of the system, of CUDA "
          "and of PyTorch are: leave it out\n",
          path.substr(0, 200));
  return flags;
}

}  // namespace quern::env
