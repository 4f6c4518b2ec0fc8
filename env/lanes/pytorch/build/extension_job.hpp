// One build of an extension as a program of the sandbox: which commands, from which files.
#pragma once

#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include "env/lanes/pytorch/build/extension_flags.hpp"
#include "env/lanes/pytorch/build/extension_request.hpp"
#include "env/lanes/pytorch/build/python_torch.hpp"
#include "env/lanes/pytorch/build/slim_sources.hpp"

namespace quern::env {

/// What all builds of one host have in common.
struct extension_tools {
  python_torch torch;
  std::filesystem::path cxx;   ///< g++
  std::filesystem::path nvcc;  ///< empty: none
  std::filesystem::path cuda_include, cuda_lib;
  std::filesystem::path headers;  ///< the slim ones
  std::filesystem::path support;  ///< quern_support.cpp, compiled
  /// A folder with a folder for each of precompiled_levels, where its `precompiled_header` is or
  /// comes (headers_ahead.hpp); empty: none comes.
  std::filesystem::path precompiled;
};

inline constexpr const char* extension_product = "extension.so";
inline constexpr const char* precompiled_header = "quern_host.h.gch";

/// The files and the shell's script of one build. The script compiles the sources. Those of a slim
/// job are compiled side by side, and none is waited for where a CUDA file fails; others one after
/// the other, up to the first that fails. It writes to its standard error what the compilers of
/// CUDA files said, then those of C++ files, and links.
struct extension_job {
  std::string input;  ///< the child's standard input: sources and headers, one behind the other
  std::string script;
};

/// Whose error is likely, so that the other is not waited for.
enum class compiled_first { cxx, cuda };

struct build_way {
  bool slim = false;  ///< with the headers of `tools.headers` and the support object
  compiled_first first = compiled_first::cxx;  ///< of what is not slim
};

/// How the script of a slim job ends where a CUDA file was not compiled.
inline constexpr int exit_of_cuda = 4;

/// `architecture`: "sm_90a".
extension_job make_extension_job(const extension_tools& tools, const extension_request& request,
                                 const extension_flags& flags,
                                 const std::vector<build_source>& sources,
                                 const std::string& architecture, build_way way);

/// The script that compiles quern_support.cpp to `extension_product`.
std::string support_script(const extension_tools& tools);

/// The levels of optimisation for which quern_host.h is precompiled: without a flag, and the usual
/// ones.
inline constexpr std::array<const char*, 3> precompiled_levels = {"O0", "O2", "O3"};
/// The script that makes a file of each, which g++ has accepted in the place of the header.
std::string precompile_script(const extension_tools& tools);
/// The level of a C++ file with these flags. A precompiled header has the flags of its own making
/// in it, so one is for files with just these: null where others are among them.
const char* precompiled_level(const std::vector<std::string>& cxx_flags);

/// What of the compilers' text helps: from the first error on, at most `limit` characters, with a
/// line that says how many are left out.
std::string useful_text(std::string_view text, std::size_t limit);

}  // namespace quern::env
