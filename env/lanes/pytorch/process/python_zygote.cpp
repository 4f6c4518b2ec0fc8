// The evaluator's side of zygote.py.
#include "env/lanes/pytorch/process/python_zygote.hpp"

#include <algorithm>
#include <array>

#include "base/file.hpp"
#include "base/hash.hpp"
#include "base/program.hpp"
#include "env/build/python.hpp"
#include "env/build/tool.hpp"

namespace quern::env {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 2> module_environments{".venv-python", ".venv"};
/// Prints where this Python is, if it has torch and what that imports first. Without a venv's
/// site-packages of its own, a LibTorch alone is not enough.
constexpr const char* has_torch =
    "import importlib.util as u, sys\n"
    "print(sys.executable if all(map(u.find_spec, ('torch', 'typing_extensions', 'sympy'))) else "
    "'')";
/// The driver takes contexts of children down one behind the other. Below what an evaluator has to
/// end (actors/defaults.hpp).
constexpr std::chrono::milliseconds end_limit_with_gpu{2000};
constexpr std::size_t longest_script = std::size_t{1} << 20;

base::expected<fs::path> script_named(const char* name) {
  QUERN_TRY(const auto folder, base::share_folder("env/lanes/pytorch/process"));
  return folder / name;
}

base::expected<fs::path> python_library() {
  const fs::path path = base::program_folder() / "libquern_python.so";
  if (!fs::exists(path))
    return base::fail(base::errc::not_found, "{} is not there: build all of Quern (tools/setup.sh)",
                      path.string());
  return path;
}

/// What torch.compile needs beyond Python: compilers, links to them (Debian's cc), and what tells
/// where the driver's libraries are.
std::vector<std::string> shown_to_compile() {
  std::vector<std::string> shown = compiler_folders();
  for (const char* path : {"/etc/alternatives", "/sbin", "/usr/sbin", "/usr/local/cuda"})
    shown.emplace_back(path);
  return shown;
}

}  // namespace

base::expected<fs::path> find_module_python() {
  std::string tried;
  for (const auto& python : python_programs(module_environments)) {
    // What PATH names may be a script that finds Python in the user's files.
    const auto program = last_line_of({python.string(), "-c", has_torch});
    if (program && !program->empty()) return fs::path(*program);
    tried += (tried.empty() ? "" : ", ") + python.string();
  }
  return base::fail(base::errc::unavailable,
                    "no Python with torch: tried {}. Run tools/setup.sh --pytorch, or name one in "
                    "QUERN_PYTHON",
                    tried.empty() ? "nothing" : tried);
}

base::expected<python_zygote> python_zygote::start(sandbox_mode mode, warm_up how) {
  return start(mode, how, nullptr);
}

base::expected<python_zygote> python_zygote::start(sandbox_mode mode, const python_gpu& gpu) {
  return start(mode, warm_up::without_memory, &gpu);
}

base::expected<python_zygote> python_zygote::start(sandbox_mode mode, warm_up how,
                                                   const python_gpu* gpu) {
  QUERN_TRY(const auto python, find_module_python());
  QUERN_TRY(const auto script, script_named("zygote.py"));
  QUERN_TRY(const auto library, python_library());
  // One thread, whatever the environment says: a process with a thread pool cannot be forked.
  std::vector<std::string> environment{
      // Freed memory stays with the process: whether a call pays for new pages would differ from
      // process to process.
      "MALLOC_MMAP_THRESHOLD_=1073741824", "MALLOC_TRIM_THRESHOLD_=8589934592",
      "MALLOC_TOP_PAD_=67108864",
      // It counts what is refused (refused_calls.cpp).
      "LD_PRELOAD=" + library.string(), "OMP_NUM_THREADS=1", "OMP_THREAD_LIMIT=1",
      "MKL_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1", "PYTORCH_NVML_BASED_CUDA_CHECK=1",
      "PYTHONDONTWRITEBYTECODE=1", "PYTHONNOUSERSITE=1", "PYTHONHASHSEED=0", "HOME=/nonexistent",
      "USER=quern", "LOGNAME=quern", "PATH=/usr/bin:/bin", "LC_ALL=C",
      // What asks for a device is told that there is none. The parent of processes with a GPU must
      // not touch it, neither: torch asks when it looks for CUDA's compiler (module_device.py).
      "CUDA_VISIBLE_DEVICES="};
  std::vector<std::string> command{python.string(), script.string(), library.string()};
  base::json more{{"without_memory", how == warm_up::without_memory}, {"gpu", nullptr}};
  std::optional<base::temp_folder> folders;
  if (gpu != nullptr) {
    environment.insert(environment.end(), gpu->access.env.begin(), gpu->access.env.end());
    QUERN_TRY(folders, base::temp_folder::make_held("quern-modules"));
    std::error_code failed;
    std::filesystem::permissions(folders->path(), fs::perms::owner_all | fs::perms::others_exec,
                                 failed);
    if (failed)
      return base::fail(base::errc::io, "opening {} to children: {}", folders->path().string(),
                        failed.message());
    std::vector<std::string> shown = gpu->access.read_only;
    // Libraries of the system that CUDA's load later, and where they are.
    for (std::string& path : system_library_folders())
      shown.push_back(std::move(path));
    shown.emplace_back("/dev/urandom");
    more["gpu"] = {{"library", gpu->library.string()},
                   {"devices", gpu->access.devices},
                   {"read_only", shown},
                   {"compilers", shown_to_compile()},
                   {"folders", folders->path().string()}};
  }
  command.push_back(base::dump(more));
  QUERN_TRY(auto parent,
            warm_process::start(std::move(command), std::move(environment),
                                gpu ? end_limit_with_gpu : warm_process::usual_end_limit));
  python_zygote started(std::move(parent), mode == sandbox_mode::required);
  started.folders_ = std::move(folders);
  return started;
}

base::json python_zygote::limits_of(const python_start& how) const {
  return {{"memory_bytes", std::min(how.memory_bytes, most_memory_)},
          {"work_bytes", how.work_bytes},
          {"required", required_},
          {"compilers", how.compilers},
          {"profiled", how.profiled}};
}

base::expected<base::json> python_zygote::ask(const base::json& question, base::unique_fd socket) {
  const std::string text = base::dump(question);
  const std::lock_guard lock(*asking_);
  QUERN_TRY(const auto answer, parent_.ask(std::as_bytes(std::span(text)), std::move(socket)));
  return base::parse_json(answer);
}

base::expected<python_child> python_zygote::fork(const python_start& how) {
  QUERN_TRY(auto ends, runner_link::make_pair());
  QUERN_TRY(auto sheet, new_sheet());
  base::json request = limits_of(how);
  request["core"] = how.core;
  request["classes"] = how.classes;
  request["extensions"] = how.extensions;
  request["kernels"] = how.kernels;
  request["read_only"] = how.read_only;
  QUERN_TRY(const auto told, ask(request, std::move(ends.second)));
  QUERN_TRY(const auto pid, base::get<std::int64_t>(told, "pid"));
  if (pid <= 0)
    return base::fail(base::errc::unavailable, "the Python process cannot fork: {}",
                      told.value("error", std::string("no reason given")));
  const int number = static_cast<int>(pid);
  return python_child(base::killed_at_end(parent_.pid(), number),
                      runner_link(std::move(ends.first), number), std::move(sheet),
                      told.value("stood_ready", false), told.value("folder", std::string()));
}

void python_zygote::prefork(const python_start& how, int children, int below) {
  base::json order = limits_of(how);
  order["prefork"] = children;
  order["below"] = below;
  const std::string text = base::dump(order);
  {
    const std::lock_guard lock(*asking_);
    if (!parent_.tell(std::as_bytes(std::span(text)))) return;
  }
  while (sheets_.size() < static_cast<std::size_t>(std::max(children, 0))) {
    auto sheet = memory_file::create(memory_use::outputs, max_sheet_bytes);
    if (!sheet) return;
    sheets_.push_back(std::move(*sheet));
  }
}

base::expected<memory_file> python_zygote::new_sheet() {
  if (sheets_.empty()) return memory_file::create(memory_use::outputs, max_sheet_bytes);
  memory_file sheet = std::move(sheets_.back());
  sheets_.pop_back();
  return sheet;
}

base::expected<std::vector<int>> python_zygote::ready_children() {
  QUERN_TRY(const auto told, ask({{"ready", true}}, {}));
  return told.at("ready").get<std::vector<int>>();
}

base::expected<int> python_zygote::in_making() {
  QUERN_TRY(const auto told, ask({{"making", true}}, {}));
  QUERN_TRY(const auto count, base::get<std::int64_t>(told, "making"));
  return static_cast<int>(count);
}

void python_zygote::set_paused(bool still) {
  // A parent that is gone has nothing in making.
  (void)ask({{"still", still}}, {});
}

child_end python_zygote::end(const python_child& child) {
  child_end ended;
  ended.ending = child_end::kind::killed;
  const auto told = ask({{"end", child.pid()}}, {});
  if (!told || !told->is_object() || told->empty()) return ended;
  ended.out_of_memory = told->value("out_of_memory", false);
  if (told->value("killed", false)) return ended;
  const int signal = told->value("signal", 0);
  ended.ending = signal != 0 ? child_end::kind::signalled : child_end::kind::exited;
  ended.code = signal != 0 ? signal : told->value("code", 0);
  return ended;
}

base::expected<std::string> python_fingerprint() {
  base::hasher all;
  for (const char* folder : {"env/lanes/pytorch/process", "env/lanes/pytorch/build"}) {
    QUERN_TRY(const auto path, base::share_folder(folder));
    std::vector<fs::path> scripts;
    std::error_code failed;
    for (const auto& entry : fs::directory_iterator(path, failed))
      if (entry.path().extension() == ".py") scripts.push_back(entry.path());
    std::ranges::sort(scripts);
    for (const fs::path& script : scripts) {
      QUERN_TRY(const auto text, base::read_file(script, longest_script));
      all.add(text);
    }
  }
  return base::to_hex(all.digest());
}

}  // namespace quern::env
