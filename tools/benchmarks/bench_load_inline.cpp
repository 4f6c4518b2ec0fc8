// torch's own load_inline beside our builder, for benchmarks.
#include "tools/benchmarks/bench_load_inline.hpp"

#include <algorithm>

#include "base/json.hpp"
#include "base/text.hpp"
#include "env/build/cuda_toolkit.hpp"
#include "env/build/tool.hpp"
#include "env/lanes/pytorch/build/extension_recording.hpp"

namespace quern::tools {
namespace {

// Long: the machine may be shared.
constexpr double torch_wall_s = 1500;
constexpr std::int64_t most_symbols_bytes = 8 << 20;

// What the sandboxed Python runs for a comparison: one call with the request's own arguments.
constexpr const char* torch_build = R"(
import json, os, resource, subprocess, sys, time
request = json.load(sys.stdin)
os.environ["TORCH_EXTENSIONS_DIR"] = os.path.abspath("extensions")
from torch.utils import cpp_extension
from torch.utils.cpp_extension import load, load_inline

def run(commands, folder):
    running = [subprocess.Popen(command, shell=True, cwd=folder, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True) for command in commands]
    said = [one.communicate()[0] for one in running]
    for one, text in zip(running, said):
        if one.returncode != 0:
            raise RuntimeError(text)

def build(build_directory, verbose, error_prefix):
    """What ninja would do; the sandbox forbids the process groups in which it starts commands."""
    listed = subprocess.check_output(["ninja", "-t", "commands"], cwd=build_directory, text=True)
    *compile_all, link = listed.splitlines()
    run(compile_all, build_directory)
    run([link], build_directory)

cpp_extension._run_ninja_build = build
flags = dict(extra_cflags=request["cflags"], extra_cuda_cflags=request["cuda_cflags"],
             extra_ldflags=request["ldflags"], extra_include_paths=request["include_paths"],
             with_cuda=request["with_cuda"])
begin = time.monotonic()
try:
    if request["files"]:
        for name, text in request["files"] + request["headers"]:
            open(name, "w").write(text)
        made = load(request["name"], [name for name, _ in request["files"]], **flags)
    else:
        functions = request["functions"]
        made = load_inline(request["name"], request["cpp_sources"], request["cuda_sources"] or None,
                           functions=functions if functions is None else dict(functions),
                           with_pytorch_error_handling=request["error_handling"],
                           no_implicit_headers=not request["implicit_headers"], **flags)
    built, text = True, ""
except Exception as error:
    built, text = False, str(error)[-1000:]
wall_s = time.monotonic() - begin
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps({"built": built, "wall_s": wall_s,
                  "core_s": used.ru_utime + used.ru_stime, "text": text, "exported": subprocess.check_output(
                      ["nm", "-D", "--defined-only", made.__file__], text=True) if built else ""}))
)";

// Lines of nm: address, type, name.
std::vector<std::string> functions_of(std::string_view listed) {
  std::vector<std::string> names;
  for (const std::string_view line : base::split(listed, '\n')) {
    const std::size_t type = line.find(" T ");
    if (type != line.npos) names.emplace_back(line.substr(type + 3));
  }
  std::sort(names.begin(), names.end());
  return names;
}

env::child_spec torch_spec(const env::python_torch& python) {
  env::child_spec spec = env::python_spec(python, {"-s", "-E", "-c", torch_build});
  for (const auto& folder : env::compiler_folders())
    spec.read_only.push_back(folder);
  for (const auto& folder : python.include_folders())
    spec.read_only.push_back(folder);
  if (const auto toolkit = env::find_cuda_toolkit()) {
    spec.read_only.push_back(toolkit->root.string());
    spec.read_only.push_back(toolkit->library_folder().string());
    spec.env.push_back("CUDA_HOME=" + toolkit->root.string());
  }
  spec.env.emplace_back("TORCH_CUDA_ARCH_LIST=9.0");
  spec.out = env::child_stream::captured(most_symbols_bytes);
  spec.err = env::child_stream::captured();
  spec.limits.wall_s = spec.limits.cpu_s = torch_wall_s;
  spec.limits.file_bytes = 256 << 20;
  spec.limits.work_bytes = std::int64_t{2} << 30;
  spec.limits.processes = 128;
  return spec;
}

}  // namespace

base::expected<torch_figures> build_by_torch(env::spawner& children,
                                             const env::python_torch& python,
                                             const env::extension_request& request) {
  QUERN_TRY(const auto input, env::as_memory_file(env::write_extension_request(request)));
  QUERN_TRY(const auto compiler, env::find_compiler());
  env::child_spec spec = torch_spec(python);
  spec.env.push_back("CXX=" + compiler.string());
  spec.in = env::child_stream::from(input.get());
  QUERN_TRY(const auto ran, env::run_tool(children, spec));
  const auto answer = base::parse_json(base::trim(ran.out), 2);
  if (!answer)
    return base::fail(base::errc::unavailable, "load_inline gave no answer: {}; {}", ran.end.text(),
                      ran.err.substr(0, 2000));
  torch_figures figures;
  QUERN_TRY(figures.built, base::get<bool>(*answer, "built"));
  QUERN_TRY(figures.wall_s, base::get<double>(*answer, "wall_s"));
  QUERN_TRY(figures.core_s, base::get<double>(*answer, "core_s"));
  QUERN_TRY(figures.text, base::get<std::string>(*answer, "text"));
  QUERN_TRY(const auto exported, base::get<std::string>(*answer, "exported"));
  figures.functions = functions_of(exported);
  return figures;
}

base::expected<std::vector<std::string>> exported_functions(env::spawner& children,
                                                            const std::filesystem::path& library) {
  env::child_spec spec =
      env::tool_spec("/usr/bin/nm", {"-D", "--defined-only", library.string()}, true);
  spec.read_only.push_back(library.string());
  spec.out = env::child_stream::captured(most_symbols_bytes);
  QUERN_TRY(const auto ran, env::run_tool(children, spec));
  if (!ran.end.succeeded())
    return base::fail(base::errc::unavailable, "nm does not read {}: {}", library.string(),
                      ran.end.text());
  return functions_of(ran.out);
}

}  // namespace quern::tools
