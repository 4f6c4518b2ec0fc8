// References through torch.compile.
#include "env/gpu/compiled_process.hpp"

#include <array>
#include <cstddef>
#include <cstdlib>
#include <vector>

#include <unistd.h>

#include "base/file.hpp"
#include "base/hash.hpp"
#include "base/json.hpp"
#include "base/program.hpp"
#include "env/build/python.hpp"
#include "env/device/part_build.hpp"
#include "env/reference/operator_rules.hpp"
#include "env/runner/command_rules.hpp"
#include "env/runner/gpu_protocol.hpp"
#include "env/verdict/baseline.hpp"

namespace quern::env {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 1> environments{".venv"};

/// Of this build, or an error.
base::expected<fs::path> script_file() {
  QUERN_TRY(const auto folder, base::share_folder("env/reference"));
  const fs::path path = folder / "compiled_reference.py";
  QUERN_CHECK(check_compiled_reference(path));
  return path;
}

std::string build_of_text(std::string_view text) {
  return base::to_hex(base::xxh128(text)).substr(0, 16);
}

base::json field(std::size_t offset, const char* kind) {
  return base::json::array({offset, kind});
}

#define QUERN_FIELD(type, name, kind) \
  { #name, field(offsetof(runner::type, name), kind) }
#define QUERN_SIZE(type) \
  { "size", field(sizeof(type), "") }

}  // namespace

std::string compiled_reference_build() {
  return build_of_text(compiled_reference_text());
}

base::status check_compiled_reference(const fs::path& script) {
  constexpr std::size_t longest = 1U << 20U;
  QUERN_TRY(const auto text, base::read_file(script, longest));
  std::array<char, 1024> problem{};
  if (is_of_this_build(script.c_str(), build_of_text(text).c_str(),
                       compiled_reference_build().c_str(), problem.data(), problem.size()))
    return {};
  return base::fail(base::errc::unavailable, "{}", problem.data());
}

base::expected<compiling_python> find_compiling_python(const fs::path& script) {
  std::string tried, said = "there is none";
  for (const auto& python : python_programs(environments)) {
    auto versions = last_line_of({python.string(), script.string(), "--versions"});
    if (versions) {
      QUERN_TRY(const auto folders, last_line_of({python.string(), script.string(), "--folders"}));
      QUERN_TRY(const auto listed, base::parse_json(folders));
      // What PATH names may be a script that finds Python in the user's files.
      QUERN_TRY(const auto program,
                last_line_of({python.string(), "-c", "import sys; print(sys.executable)"}));
      return compiling_python{program, *versions, listed.get<std::vector<std::string>>()};
    }
    tried += (tried.empty() ? "" : ", ") + python.string();
    said = versions.error().message;
  }
  return base::fail(base::errc::unavailable,
                    "baseline compile needs a Python with torch, Triton and a GPU; tried {}: {}. "
                    "Install it (pip install torch==2.11.0) or name one in QUERN_PYTHON",
                    tried.empty() ? "nothing" : tried, said);
}

std::string message_layout() {
  using namespace runner;
  const auto rule = [](command what) {
    const command_rule& carried = rule_of(what);
    const char* const descriptors[] = {"none", "optional", "needed"};
    return base::json{{"number", static_cast<std::uint32_t>(what)},
                      {"least_bytes", carried.least_bytes},
                      {"most_bytes", carried.most_bytes},
                      {"descriptor", descriptors[static_cast<int>(carried.descriptor)]}};
  };
  base::json layout;
  layout["header"] = {QUERN_SIZE(header), QUERN_FIELD(header, command_id, "I"),
                      QUERN_FIELD(header, ticket, "Q")};
  layout["reply"] = {QUERN_SIZE(reply), QUERN_FIELD(reply, ticket, "Q"),
                     QUERN_FIELD(reply, reply_outcome, "I"), QUERN_FIELD(reply, text, "")};
  layout["open"] = {QUERN_FIELD(gpu_open_request, device, "i")};
  layout["import"] = {QUERN_FIELD(gpu_import_request, region, "i"),
                      QUERN_FIELD(gpu_import_request, bytes, "Q"),
                      QUERN_FIELD(gpu_import_request, hint, "Q"),
                      QUERN_FIELD(gpu_import_request, writable_hint, "Q")};
  layout["tensors"] = {QUERN_FIELD(gpu_tensors_request, slots, "i")};
  layout["tensors_bytes"] = sizeof(quern_tensors);
  layout["script"] = {QUERN_FIELD(script_request, bytes, "I"),
                      QUERN_FIELD(script_request, text, "")};
  layout["call"] = {
      QUERN_FIELD(gpu_call_request, inputs, "I"), QUERN_FIELD(gpu_call_request, outputs, "I"),
      QUERN_FIELD(gpu_call_request, in_f64, "I"), QUERN_FIELD(gpu_call_request, under_graph, "I"),
      QUERN_FIELD(gpu_call_request, tensors, "")};
  layout["place"] = {QUERN_SIZE(tensor_place),
                     QUERN_FIELD(tensor_place, file, "I"),
                     QUERN_FIELD(tensor_place, type, "I"),
                     QUERN_FIELD(tensor_place, offset, "Q"),
                     QUERN_FIELD(tensor_place, stride, "Q"),
                     QUERN_FIELD(tensor_place, rank, "I"),
                     QUERN_FIELD(tensor_place, shape, "")};
  layout["window"] = {QUERN_FIELD(gpu_window_request, count, "i"),
                      QUERN_FIELD(gpu_window_request, settings, ""),
                      QUERN_FIELD(gpu_window_request, orders, "")};
  layout["order"] = {{"size", field(sizeof(quern_order), "")},
                     {"slot", field(offsetof(quern_order, slot), "i")}};
  layout["cuda_build"] = cuda_part_build();
  layout["most_calls"] = max_window_calls;
  layout["window_clocks_at"] = window_clocks_at;
  layout["operators_with_text"] = operators_with_text;
  layout["regions"] = static_cast<int>(QUERN_REGIONS);
  layout["commands"] = {
      {"script", rule(command::script)},           {"gpu_open", rule(command::gpu_open)},
      {"gpu_import", rule(command::gpu_import)},   {"gpu_tensors", rule(command::gpu_tensors)},
      {"gpu_call", rule(command::gpu_call)},       {"gpu_window", rule(command::gpu_window)},
      {"gpu_deliver", rule(command::gpu_deliver)}, {"gpu_drop", rule(command::gpu_drop)}};
  layout["settings"] = {{"tf32", stated_settings.tf32},
                        {"cudnn_benchmark", stated_settings.cudnn_benchmark},
                        {"cudnn_attention", stated_settings.cudnn_attention},
                        {"deterministic", stated_settings.deterministic}};
  return base::dump(layout);
}

gpu_reference_start compiled_reference_start(const compiling_python& python, const fs::path& script,
                                             const fs::path& library) {
  gpu_reference_start how;
  how.program = python.program;
  how.library = library;
  how.command = {python.program.string(), script.string(), library.string(), message_layout()};
  how.read_only = python.read_only;
  // Links to compilers (Debian's cc), what tells where the driver's libraries are, and what torch
  // draws its seeds from.
  for (const char* path :
       {"/etc/alternatives", "/sbin", "/usr/sbin", "/usr/local/cuda", "/dev/urandom"})
    how.read_only.emplace_back(path);
  how.read_only.push_back(script.string());
  // One compiler at a time: a pool of them would be processes that wait with the device open.
  how.environment = {"PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
                     "LC_ALL=C",
                     "USER=quern",
                     "LOGNAME=quern",
                     "PYTHONDONTWRITEBYTECODE=1",
                     "PYTHONNOUSERSITE=1",
                     "TORCHINDUCTOR_COMPILE_THREADS=1"};
  for (const char* name : {"VIRTUAL_ENV", "PYTHONPATH"})
    if (const char* value = std::getenv(name); value != nullptr)
      how.environment.push_back(std::string(name) + "=" + value);
  return how;
}

base::expected<std::string> compiled_references::versions() {
  if (!python_) {
    const auto script = script_file();
    python_ = script ? find_compiling_python(*script)
                     : base::expected<compiling_python>(tl::make_unexpected(script.error()));
  }
  if (!*python_) return tl::make_unexpected(python_->error());
  return (*python_)->versions;
}

base::status compiled_references::start(place& at) {
  QUERN_CHECK(versions());
  QUERN_TRY(const auto script, script_file());
  auto how = compiled_reference_start(**python_, script, library_);
  how.access = access_;
  how.device = device_;
  QUERN_TRY(at.process, gpu_reference_process::start(children_, how));
  at.script_of.clear();
  return {};
}

base::expected<gpu_link*> compiled_references::get(std::size_t i, const task& what) {
  auto& at = places_[i];
  if (!at.process) QUERN_CHECK(start(at));
  auto& link = at.process->link();
  const std::string id = task_id(what);
  if (at.script_of == id) return &link;
  at.script_of.clear();
  if (auto taken = link.script(what.reference); !taken) {
    const bool of_the_task = taken.error().failure_kind == runner_failure::kind::refused;
    if (!of_the_task) at = {};
    return base::fail(of_the_task ? base::errc::invalid_argument : base::errc::unavailable,
                      "reference through torch.compile: {}", taken.error().text);
  }
  at.script_of = id;
  return &link;
}

base::expected<gpu_link*> compiled_references::compiled(std::size_t i, const task& what,
                                                        const runner::gpu_call_request& call) {
  for (bool last = false;; last = true) {
    QUERN_TRY(auto* link, get(i, what));
    const auto told = link->call(call, compile_reference_s);
    if (told) return link;
    retire(i);
    const bool refused = told.error().failure_kind == runner_failure::kind::refused;
    if (!refused || last)
      return base::fail(refused ? base::errc::invalid_argument : base::errc::unavailable,
                        "reference through torch.compile: {}", told.error().text);
  }
}

}  // namespace quern::env
