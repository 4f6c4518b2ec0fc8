// One build of an extension as a program of the sandbox: which commands, from which files.
#pragma once

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
};

inline constexpr const char* extension_product = "extension.so";

/// The files and the shell's script of one build. The script compiles the sources (slim: all at
/// once; else one after the other, up to the first that fails), writes what the compilers said to
/// its standard error in the order of the sources, and links.
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

/// How the script of a slim job ends where C++ was compiled and CUDA was not.
inline constexpr int exit_of_cuda = 4;

/// `architecture`: "sm_90a".
extension_job make_extension_job(const extension_tools& tools, const extension_request& request,
                                 const extension_flags& flags,
                                 const std::vector<build_source>& sources,
                                 const std::string& architecture, build_way way);

/// The script that compiles quern_support.cpp to `extension_product`.
std::string support_script(const extension_tools& tools);

/// What of the compilers' text helps: from the first error on, at most `limit` characters, with a
/// line that says how many are left out.
std::string useful_text(std::string_view text, std::size_t limit);

}  // namespace quern::env
