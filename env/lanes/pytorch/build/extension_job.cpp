// One build of an extension as a program of the sandbox.
#include "env/lanes/pytorch/build/extension_job.hpp"

#include <algorithm>

#include <fmt/core.h>

#include "base/text.hpp"

namespace quern::env {
namespace {

using command_line = std::vector<std::string>;

std::string as_shell_word(std::string_view word) {
  std::string quoted = "'";
  for (const char c : word)
    quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string as_shell_line(const command_line& words) {
  std::string line;
  for (const auto& word : words)
    line += (line.empty() ? "" : " ") + as_shell_word(word);
  return line;
}

void append_words(command_line& to, const command_line& words) {
  to.insert(to.end(), words.begin(), words.end());
}

// torch's, in its order.
command_line common_arguments(const extension_tools& tools, const extension_request& request,
                              bool slim) {
  command_line words{"-DTORCH_EXTENSION_NAME=" + request.name, "-DTORCH_API_INCLUDE_EXTENSION_H"};
  if (slim) append_words(words, {"-isystem", tools.headers.string()});
  for (const auto& folder : tools.torch.include_folders())
    append_words(words, {"-isystem", folder});
  if (!tools.cuda_include.empty()) append_words(words, {"-isystem", tools.cuda_include.string()});
  return words;
}

command_line cxx_command(const extension_tools& tools, const extension_request& request,
                         const extension_flags& flags, bool slim) {
  command_line words{tools.cxx.string()};
  append_words(words, common_arguments(tools, request, slim));
  append_words(words, {"-fPIC", "-std=c++17", "-fdiagnostics-color=never"});
  append_words(words, flags.cxx);
  return words;
}

command_line nvcc_command(const extension_tools& tools, const extension_request& request,
                          const extension_flags& flags, const std::string& architecture,
                          bool slim) {
  const std::string number = architecture.substr(architecture.find('_') + 1);
  command_line words{tools.nvcc.string()};
  append_words(words, common_arguments(tools, request, slim));
  append_words(words, {"-D__CUDA_NO_HALF_OPERATORS__", "-D__CUDA_NO_HALF_CONVERSIONS__",
                       "-D__CUDA_NO_BFLOAT16_CONVERSIONS__", "-D__CUDA_NO_HALF2_OPERATORS__",
                       "--expt-relaxed-constexpr", "-gencode",
                       fmt::format("arch=compute_{},code=sm_{}", number, number),
                       "--compiler-options", "-fPIC", "-ccbin", tools.cxx.string()});
  append_words(words, flags.nvcc);
  if (std::none_of(flags.nvcc.begin(), flags.nvcc.end(),
                   [](const std::string& flag) { return flag.find("-std=") != std::string::npos; }))
    words.emplace_back("-std=c++17");
  return words;
}

command_line link_command(const extension_tools& tools, const extension_request& request,
                          const extension_flags& flags, const command_line& objects, bool slim) {
  command_line words{tools.cxx.string()};
  append_words(words, objects);
  if (slim) words.push_back(tools.support.string());
  words.emplace_back("-shared");
  // In front of the candidate's libraries: nothing else says where they lie.
  const bool cuda = request.with_cuda && tools.torch.cuda;
  words.push_back("-L" + tools.torch.library_folder().string());
  if (cuda && !tools.cuda_lib.empty()) words.push_back("-L" + tools.cuda_lib.string());
  append_words(words, flags.link);
  words.emplace_back("-lc10");
  if (cuda) words.emplace_back("-lc10_cuda");
  words.emplace_back("-ltorch_cpu");
  if (cuda) words.emplace_back("-ltorch_cuda");
  append_words(words, {"-ltorch", "-ltorch_python"});
  if (cuda) words.emplace_back("-lcudart");
  append_words(words, {"-o", extension_product});
  return words;
}

// Adds a file to the input, and what takes it from there.
void add_input(extension_job& job, const std::string& name, const std::string& text) {
  job.input += text;
  // dd fails on a block of no bytes.
  job.script += text.empty() ? fmt::format(": >{}\n", as_shell_word(name))
                             : fmt::format("dd bs={} count=1 of={} 2>quern_dd.txt || exit 2\n",
                                           text.size(), as_shell_word(name));
}

// Torch's classes whose layout is not the slim ones' have other names there: one that is missing
// was asked for by a file that sees the others.
constexpr const char* no_slim_name_is_missing =
    "nm -D --undefined-only extension.so | grep -q quern_ && exit 3\n";

// Each compiler keeps what it says to itself until all have ended. The end of the pipe is seen
// then; `wait` of some shells spins where the sandbox refuses to suspend.
std::string side_by_side(const std::vector<std::string> (&compile)[2]) {
  std::string script = "{\n";
  for (const auto& commands : compile)
    for (const auto& command : commands)
      script += command + " &\n";
  return script + "} | cat\n";
}

// With torch's own headers a CUDA file takes most of a minute, and a C++ file a quarter of one:
// what stands behind an error is not begun.
std::string one_by_one(const std::vector<std::string> (&compile)[2], compiled_first first) {
  std::string script;
  const std::size_t begin = first == compiled_first::cuda ? 1 : 0;
  for (const std::size_t kind : {begin, 1 - begin})
    for (const auto& command : compile[kind])
      script += fmt::format("grep -qsv '^0$' quern_*.end || {}\n", command);
  return script;
}

}  // namespace

extension_job make_extension_job(const extension_tools& tools, const extension_request& request,
                                 const extension_flags& flags,
                                 const std::vector<build_source>& sources,
                                 const std::string& architecture, build_way way) {
  const bool slim = way.slim;
  extension_job job;
  command_line objects;
  std::vector<std::string> compile[2];  // of C++, of CUDA
  std::string results;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const build_source& source = sources[i];
    add_input(job, source.name, source.text);
    objects.push_back(fmt::format("quern_{}.o", i));
    command_line words = source.cuda ? nvcc_command(tools, request, flags, architecture, slim)
                                     : cxx_command(tools, request, flags, slim);
    append_words(words, {"-c", source.name, "-o", objects.back()});
    compile[source.cuda ? 1 : 0].push_back(
        fmt::format("({} >quern_{}.txt 2>&1; echo $? >quern_{}.end)", as_shell_line(words), i, i));
    results += fmt::format(
        "[ ! -e quern_{0}.txt ] || cat quern_{0}.txt >&2\n"
        "[ ! -e quern_{0}.end ] || [ \"$(cat quern_{0}.end)\" = 0 ] || bad{1}=1\n",
        i, source.cuda ? "_cuda" : "");
  }
  for (const auto& header : request.headers)
    add_input(job, header.name, header.text);
  job.script += slim ? side_by_side(compile) : one_by_one(compile, way.first);
  job.script += "bad=0 bad_cuda=0\n" + results + "[ $bad = 0 ] || exit 1\n" +
                fmt::format("[ $bad_cuda = 0 ] || exit {}\n", slim ? exit_of_cuda : 1) +
                as_shell_line(link_command(tools, request, flags, objects, slim)) + " || exit 1\n" +
                (slim ? no_slim_name_is_missing : "") + "exit 0\n";
  return job;
}

std::string support_script(const extension_tools& tools) {
  extension_request none;
  none.name = "quern_support";
  command_line words{tools.cxx.string()};
  append_words(words, common_arguments(tools, none, true));
  append_words(words, {"-O2", "-fPIC", "-fvisibility=hidden", "-std=c++17", "-c",
                       (tools.headers / "quern_support.cpp").string(), "-o", extension_product});
  return "exec " + as_shell_line(words) + "\n";
}

std::string useful_text(std::string_view text, std::size_t limit) {
  std::size_t begin = 0;
  for (const std::string_view mark : {"error", "undefined reference", "fatal", "ran out of"}) {
    const std::size_t at = text.find(mark);
    if (at != text.npos && (begin == 0 || at < begin)) begin = at;
  }
  begin = begin == 0 ? 0 : text.rfind('\n', begin) + 1;
  const std::string_view rest = text.substr(begin);
  if (rest.size() <= limit) return std::string(rest);
  return fmt::format("{}\n({} more characters are left out)\n", rest.substr(0, limit),
                     rest.size() - limit);
}

}  // namespace quern::env
