// Where the PyTorch of a Python lies, for compilers.
#include "env/lanes/pytorch/build/python_torch.hpp"

#include <array>
#include <chrono>

#include <unistd.h>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"
#include "env/build/python.hpp"

namespace quern::env {
namespace {

namespace fs = std::filesystem;

constexpr const char* where_torch_is = R"(
import importlib.util, json, os, re, sys, sysconfig
spec = importlib.util.find_spec("torch")
links = [sys.executable]  # each link on the way to the program is seen, too
while os.path.islink(links[-1]):
    links.append(os.path.join(os.path.dirname(links[-1]), os.readlink(links[-1])))
folder = spec.submodule_search_locations[0] if spec else ""
text = open(folder + "/version.py").read() if folder else ""
version = re.search(r"__version__ = '([^']*)'", text)
cuda = re.search(r"cuda: Optional\[str\] = '", text)
print(json.dumps({"torch": folder, "headers": sysconfig.get_path("include", "posix_prefix"),
                  "version": version.group(1) if version else "", "cuda": bool(cuda),
                  "seen": links + [os.path.realpath(path) for path in
                           {sys.prefix, *(sysconfig.get_path(name) for name in
                            ("stdlib", "platstdlib", "purelib", "platlib"))} | set(sys.path)
                           if path and os.path.realpath(path) not in ("/", "/usr", "/usr/local")]}))
)";
constexpr std::array<std::string_view, 2> torch_environments{".venv-python", ".venv"};
constexpr std::chrono::seconds longest_answer{60};

base::expected<python_torch> ask_torch_python(const fs::path& program) {
  QUERN_TRY(const auto folder, base::temp_folder::make("quern-python"));
  base::subprocess_spec spec;
  spec.argv = {program.string(), "-I", "-c", where_torch_is};
  spec.log = folder.path() / "answer";
  spec.input = "";
  QUERN_TRY(auto asked, base::subprocess::start(spec));
  const auto ended = asked.wait(std::chrono::nanoseconds(longest_answer).count());
  if (!ended || ended->code != 0 || ended->signal != 0)
    return base::fail(base::errc::not_found, "it does not run ({})",
                      ended ? base::describe(*ended) : "no answer within a minute");
  QUERN_TRY(const auto text, base::read_file(spec.log, 64 << 10));
  QUERN_TRY(const auto answer, base::parse_json(base::trim(text), 3));
  python_torch found;
  // The program of a virtual environment is a link out of it: its folder counts, not its file.
  std::error_code error;
  found.program = fs::canonical(program.parent_path(), error) / program.filename();
  QUERN_TRY(found.torch, base::get<std::string>(answer, "torch"));
  QUERN_TRY(found.headers, base::get<std::string>(answer, "headers"));
  QUERN_TRY(found.version, base::get<std::string>(answer, "version"));
  QUERN_TRY(found.cuda, base::get<bool>(answer, "cuda"));
  for (const auto& item : answer.value("seen", base::json::array()))
    if (item.is_string()) found.read_only.push_back(item.get<std::string>());
  if (found.torch.empty()) return base::fail(base::errc::not_found, "it has no torch");
  // A sandbox shows what is asked for, not where it leads.
  found.torch = fs::canonical(found.torch, error);
  if (error || !fs::exists(found.torch / "include/torch/extension.h"))
    return base::fail(base::errc::not_found, "its torch has no headers");
  found.headers = fs::canonical(found.headers, error);
  if (error || !fs::exists(found.headers / "Python.h"))
    return base::fail(base::errc::not_found,
                      "it has no Python.h: install its headers (apt-get install python3-dev)");
  return found;
}

}  // namespace

std::vector<std::string> python_torch::include_folders() const {
  return {(torch / "include").string(), (torch / "include/torch/csrc/api/include").string(),
          headers.string()};
}

base::expected<python_torch> find_python_torch(const fs::path& program) {
  std::string looked;
  for (const auto& python :
       program.empty() ? python_programs(torch_environments) : std::vector<fs::path>{program}) {
    if (access(python.c_str(), X_OK) != 0) continue;
    auto found = ask_torch_python(python);
    if (found) return found;
    looked +=
        fmt::format("{}{}: {}", looked.empty() ? "" : "; ", python.string(), found.error().message);
  }
  return base::fail(base::errc::not_found,
                    "no Python with torch and Python.h ({}): run tools/setup.sh --pytorch, or set "
                    "QUERN_PYTHON",
                    looked.empty() ? "there is none in PATH" : looked);
}

}  // namespace quern::env
