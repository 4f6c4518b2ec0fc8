// One build of an extension as a program of the sandbox.
#include "env/lanes/pytorch/build/extension_job.hpp"

#include <algorithm>
#include <initializer_list>
#include <span>

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

command_line header_arguments(const extension_tools& tools, bool slim) {
  command_line words{"-DTORCH_API_INCLUDE_EXTENSION_H"};
  if (slim) append_words(words, {"-isystem", tools.headers.string()});
  for (const auto& folder : tools.torch.include_folders())
    append_words(words, {"-isystem", folder});
  if (!tools.cuda_include.empty()) append_words(words, {"-isystem", tools.cuda_include.string()});
  return words;
}

// torch's, in its order.
command_line common_arguments(const extension_tools& tools, const extension_request& request,
                              bool slim) {
  command_line words{"-DTORCH_EXTENSION_NAME=" + request.name};
  append_words(words, header_arguments(tools, slim));
  return words;
}

command_line cxx_command(const extension_tools& tools, const extension_request& request,
                         const extension_flags& flags, bool slim) {
  command_line words{tools.cxx.string()};
  // In front of the folder of the header itself.
  const char* level = precompiled_level(flags.cxx);
  if (slim && !tools.precompiled.empty() && level != nullptr)
    append_words(words, {"-isystem", (tools.precompiled / level).string()});
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

// Each compiler keeps what it says to itself until all have ended, or one has written a status
// other than 0, behind which nobody is waited for. The end of the pipe is seen then; `wait` of some
// shells spins where the sandbox refuses to suspend.
std::string side_by_side(std::initializer_list<std::span<const std::string>> all) {
  std::string script = "{\n";
  for (const auto& commands : all)
    for (const auto& command : commands)
      script += command + " &\n";
  return script + "} | while read status; do [ $status = 0 ] || break; done\n";
}

// Leaves what was said in NAME.txt and the status in NAME.end.
std::string noted_command(const std::string& command, std::string_view name, bool writes_status) {
  return fmt::format("({0} >{1}.txt 2>&1; s=$?; echo $s >{1}.end{2})", command, name,
                     writes_status ? "; echo $s" : "");
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
  std::string results[2];
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const build_source& source = sources[i];
    add_input(job, source.name, source.text);
    objects.push_back(fmt::format("quern_{}.o", i));
    command_line words = source.cuda ? nvcc_command(tools, request, flags, architecture, slim)
                                     : cxx_command(tools, request, flags, slim);
    append_words(words, {"-c", source.name, "-o", objects.back()});
    // A CUDA file that slim headers refuse is compiled with torch's, whatever becomes of the rest.
    compile[source.cuda ? 1 : 0].push_back(
        noted_command(as_shell_line(words), fmt::format("quern_{}", i), slim && source.cuda));
    results[source.cuda ? 1 : 0] += fmt::format(
        "[ ! -e quern_{0}.end ] || cat quern_{0}.txt >&2\n"
        "[ ! -e quern_{0}.end ] || [ \"$(cat quern_{0}.end)\" = 0 ] || bad=1\n",
        i);
  }
  for (const auto& header : request.headers)
    add_input(job, header.name, header.text);
  job.script += slim ? side_by_side({compile[0], compile[1]}) : one_by_one(compile, way.first);
  job.script += "bad=0\n" + results[1] +
                fmt::format("[ $bad = 0 ] || exit {}\n", slim ? exit_of_cuda : 1) + results[0] +
                "[ $bad = 0 ] || exit 1\n" +
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

std::string precompile_script(const extension_tools& tools) {
  // Macros that are defined here must be the same in each file: a file's name is none of them.
  command_line words{tools.cxx.string()};
  append_words(words, header_arguments(tools, true));
  append_words(words, {"-fPIC", "-std=c++17"});
  const std::string compiler = as_shell_line(words);
  const std::string header = as_shell_word((tools.headers / "quern_host.h").string());
  std::vector<std::string> commands;
  std::string failures, ends;
  for (const std::string level : precompiled_levels) {
    // g++ takes it in the place of the header, or this fails.
    const std::string make = fmt::format(
        "{{ mkdir {0} && {1} -w -{0} -x c++-header {2} -o {0}/{3} && "
        "echo '#include <quern_host.h>' >{0}.cpp && "
        "{4} -isystem {0} {5} -{0} -Winvalid-pch -Werror -fsyntax-only {0}.cpp; }}",
        level, compiler, header, precompiled_header, as_shell_word(words.front()),
        as_shell_line({words.begin() + 1, words.end()}));
    commands.push_back(noted_command(make, level, true));
    failures += fmt::format(
        "[ ! -e {0}.end ] || [ \"$(cat {0}.end)\" = 0 ] || {{ cat {0}.txt >&2; exit 1; }}\n",
        level);
    ends += fmt::format("[ -e {0}.end ] || exit 1\n", level);
  }
  return side_by_side({commands}) + failures + ends + "exit 0\n";
}

const char* precompiled_level(const std::vector<std::string>& cxx_flags) {
  std::string level = "O0";
  for (const std::string& flag : cxx_flags) {
    if (flag.starts_with("-O"))
      level = flag.substr(1);
    else if (!flag.starts_with("-D") && !flag.starts_with("-W") && flag != "-std=c++17")
      return nullptr;
  }
  const auto found = std::ranges::find(precompiled_levels, level);
  return found == precompiled_levels.end() ? nullptr : *found;
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
