// Compiles the Triton kernels that candidates launch, in the sandbox.
#include "env/lanes/pytorch/build/triton_builder.hpp"

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/program.hpp"
#include "base/text.hpp"
#include "env/build/artefact_cache.hpp"
#include "env/build/shared_compilation.hpp"
#include "env/build/tool.hpp"
#include "env/lanes/pytorch/build/extension_recording.hpp"

namespace quern::env {
namespace {

namespace fs = std::filesystem;

constexpr const char* triton_scripts_folder = "env/lanes/pytorch/build";
constexpr const char* launcher_product = "launcher.so";
constexpr std::int64_t device_shared_bytes = 232448;  // of a block on sm_90
constexpr std::size_t most_launcher_bytes = 1 << 20;
constexpr double longest_launcher_s = 60;

// libcuda is of the driver, which is not here: the launcher names it all the same.
constexpr const char* launcher_script =
    "cat >launcher.c && echo 'int quern_stub;' >stub.c &&"
    " \"$0\" -x c -shared -fPIC -Wl,-soname,libcuda.so.1 stub.c -o libcuda.so.1 &&"
    " exec \"$0\" -x c -O3 -shared -fPIC -Wno-psabi \"-I$1\" \"-I$2\" launcher.c -o launcher.so"
    " -Wl,--no-as-needed -L. -l:libcuda.so.1\n";

/// What any Triton in order compiles.
triton_kernel triton_control() {
  return {"quern_control", "",
          "module {\n  tt.func public @quern_control() {\n    tt.return\n  }\n}\n", "[]", "{}"};
}

base::expected<std::string> product_text(const tool_outcome& ran, const char* name,
                                         std::size_t limit) {
  QUERN_TRY(const auto file, open_product(ran, name));
  struct stat info {};
  if (!file || fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode))
    return base::fail(base::errc::corrupt, "Triton wrote no {}", name);
  if (static_cast<std::size_t>(info.st_size) > limit)
    return base::fail(base::errc::corrupt, "{} has {} bytes, the limit is {}", name, info.st_size,
                      limit);
  std::string text(static_cast<std::size_t>(info.st_size), '\0');
  const ssize_t got = pread(file.get(), text.data(), text.size(), 0);
  if (got != info.st_size) return base::fail_errno(fmt::format("reading {}", name));
  return text;
}

}  // namespace

struct triton_builder::state {
  state(spawner& from, triton_options with)
      : children(from),
        options(std::move(with)),
        cache(options.cache_dir / "triton", options.cache_bytes) {}

  spawner& children;
  triton_options options;
  artefact_cache cache;
  shared_compilation shared;
  python_torch torch;
  fs::path triton, cxx;
  std::string scripts;
  base::hash128 fingerprint;

  base::status find_tools();
  base::status find_identity();
  [[nodiscard]] child_spec launcher_spec(std::vector<std::string> arguments) const;
  base::expected<tool_outcome> run_triton(const triton_kernel& kernel) const;
  base::expected<fs::path> launcher_of(const std::string& text, base::hash128& key);
  base::expected<fs::path> find_launcher(const fs::path& artefact);
  base::status keep(const tool_outcome& ran, triton_result& result);
  base::expected<triton_result> build(const triton_kernel& kernel);
};

base::status triton_builder::state::find_tools() {
  QUERN_TRY(torch, find_python_torch(options.python));
  QUERN_TRY(cxx, find_compiler());
  QUERN_TRY(const auto folder, base::share_folder(triton_scripts_folder));
  scripts = folder.string();
  triton = torch.torch.parent_path() / "triton";
  std::error_code error;
  if (!fs::exists(triton / "backends/nvidia/include/cuda.h", error))
    return base::fail(base::errc::not_found,
                      "there is no Triton at {}: run tools/setup.sh --pytorch", triton.string());
  return {};
}

base::status triton_builder::state::find_identity() {
  QUERN_TRY(const auto version, ask_tool(children, tool_spec(cxx, {"--version"}, true)));
  QUERN_TRY(const auto init, base::read_file(triton / "__init__.py"));
  QUERN_TRY(const auto script, base::read_file(fs::path(scripts) / "triton_compiler.py"));
  std::error_code error;
  base::hasher hash;
  hash.add(version).add(init).add(script).add(launcher_script).add(triton.string());
  hash.add(torch.headers.string());
  for (const char* name : {"_C/libtriton.so", "backends/nvidia/bin/ptxas"})
    hash.add(std::uint64_t{fs::file_size(triton / name, error)});
  fingerprint = hash.digest();
  return {};
}

child_spec triton_builder::state::launcher_spec(std::vector<std::string> arguments) const {
  std::error_code error;
  child_spec spec = tool_spec(fs::canonical("/bin/sh", error), std::move(arguments), true);
  spec.read_only.push_back(torch.headers.string());
  spec.read_only.push_back((triton / "backends/nvidia/include").string());
  limit_tool(spec, options.limits);
  spec.limits.wall_s = spec.limits.cpu_s = longest_launcher_s;
  return spec;
}

base::expected<tool_outcome> triton_builder::state::run_triton(const triton_kernel& kernel) const {
  const auto spec_for = [&](const base::unique_fd& input) {
    child_spec spec = python_spec(torch, {"-s", "-E", scripts + "/triton_compiler.py"});
    spec.read_only.push_back(scripts);
    spec.env.emplace_back("TMPDIR=.");
    spec.in = child_stream::from(input.get());
    spec.out = spec.err = child_stream::captured(options.limits.text_bytes);
    const std::int64_t mapped = spec.limits.memory_bytes;
    limit_tool(spec, options.limits);
    spec.limits.memory_bytes = std::max(mapped, spec.limits.memory_bytes);
    spec.limits.processes = 64;
    return spec;
  };
  QUERN_TRY(const auto input, as_memory_file(triton_job(kernel)));
  return run_compiler(children, spec_for(input), [&]() -> base::expected<tool_outcome> {
    QUERN_TRY(const auto ours, as_memory_file(triton_job(triton_control())));
    return run_tool(children, spec_for(ours));
  });
}

// The launcher with this text, from the cache or compiled now.
base::expected<fs::path> triton_builder::state::launcher_of(const std::string& text,
                                                            base::hash128& key) {
  key = base::hasher().add("launcher").add(base::to_hex(fingerprint)).add(text).digest();
  if (auto found = cache.find(key)) return *found;
  child_spec spec = launcher_spec({"-c", launcher_script, cxx.string(), torch.headers.string(),
                                   (triton / "backends/nvidia/include").string()});
  QUERN_TRY(const auto input, as_memory_file(text));
  spec.in = child_stream::from(input.get());
  QUERN_TRY(const auto ran, run_tool(children, spec));
  if (!ran.end.succeeded())
    return base::fail(base::errc::unavailable, "compiling a launcher: {}; {}", ran.end.text(),
                      ran.err.substr(0, 2000));
  QUERN_TRY(const auto made, open_product(ran, launcher_product));
  if (!made) return base::fail(base::errc::unavailable, "a launcher became nothing");
  return cache.store(key, made.get(), options.limits.file_bytes);
}

// The launcher of a kept kernel. Error: one of the two files is missing, or has other bytes than
// when it was made.
base::expected<fs::path> triton_builder::state::find_launcher(const fs::path& artefact) {
  const auto limit = static_cast<std::size_t>(options.limits.file_bytes) * 2;
  QUERN_TRY(const auto file, base::read_file(artefact, limit));
  QUERN_TRY(const auto kernel, read_triton_artefact(file));
  const auto launcher = cache.find(kernel.launcher);
  if (!launcher) return base::fail(base::errc::not_found, "the launcher is not there any more");
  QUERN_TRY(const auto bytes, base::read_file(*launcher, limit));
  if (base::xxh128(bytes) != kernel.launcher_content) {
    std::error_code error;
    fs::remove(*launcher, error);
    return base::fail(base::errc::corrupt, "{} has other bytes than its kernel says",
                      launcher->string());
  }
  return *launcher;
}

// Takes the files of a run that succeeded into the cache.
base::status triton_builder::state::keep(const tool_outcome& ran, triton_result& result) {
  const auto most = static_cast<std::size_t>(options.limits.file_bytes);
  QUERN_TRY(const auto cubin, product_text(ran, "kernel.cubin", most));
  QUERN_CHECK(check_cubin(cubin));
  triton_artefact artefact;
  QUERN_TRY(artefact.metadata, product_text(ran, "kernel.json", most_launcher_bytes));
  QUERN_TRY(const auto text, product_text(ran, "launcher.c", most_launcher_bytes));
  QUERN_TRY(result.launcher, launcher_of(text, artefact.launcher));
  QUERN_TRY(const auto launcher, base::read_file(result.launcher, most));
  artefact.launcher_content = base::xxh128(launcher);
  artefact.cubin = cubin;
  QUERN_TRY(const auto file, as_memory_file(write_triton_artefact(artefact)));
  QUERN_TRY(result.artefact, cache.store(result.key, file.get(), 2 * options.limits.file_bytes));
  result.outcome = compile_result::kind::built;
  return {};
}

base::expected<triton_result> triton_builder::state::build(const triton_kernel& kernel) {
  triton_result result;
  result.key = triton_kernel_key(kernel, fingerprint);
  if (const auto found = cache.find(result.key)) {
    if (const auto launcher = find_launcher(*found)) {
      result.outcome = compile_result::kind::built;
      result.artefact = *found;
      result.launcher = *launcher;
      result.cached = true;
      result.layers = children.layers();
      return result;
    }
    result.repaired = true;
  }
  QUERN_TRY(const auto ran, run_triton(kernel));
  const bool ended = take_outcome(ran, options.limits, result);
  result.core_s = static_cast<double>(ran.end.user_us + ran.end.system_us) * 1e-6;
  if (!ended) return result;
  const auto answer = base::parse_json(base::trim(ran.out), 2);
  if (!answer || !answer->value("built", false)) {
    result.text = answer ? answer->value("text", std::string("Triton says nothing"))
                         : fmt::format("Triton's answer is none: {}", answer.error().message);
    return result;
  }
  const std::int64_t shared_bytes = answer->value("shared", std::int64_t{0});
  if (shared_bytes > device_shared_bytes) {
    result.text = fmt::format(
        "out of shared memory: {} bytes are needed, a block has {}: use smaller "
        "blocks or fewer stages",
        shared_bytes, device_shared_bytes);
    return result;
  }
  // What the run left behind may be anything: a file that is no kernel is the kernel's doing.
  if (const auto kept = keep(ran, result); !kept) {
    if (kept.error().code != base::errc::corrupt) return tl::make_unexpected(kept.error());
    result.text = kept.error().message;
  }
  return result;
}

triton_builder::triton_builder(std::unique_ptr<state> s) : state_(std::move(s)) {}
triton_builder::~triton_builder() = default;
const python_torch& triton_builder::python() const {
  return state_->torch;
}
const std::string& triton_builder::scripts() const {
  return state_->scripts;
}
base::hash128 triton_builder::key_of(const triton_kernel& kernel) const {
  return triton_kernel_key(kernel, state_->fingerprint);
}

base::expected<std::unique_ptr<triton_builder>> triton_builder::create(spawner& children,
                                                                       triton_options options) {
  if (options.cache_dir.empty())
    return base::fail(base::errc::invalid_argument, "the builder needs a cache folder");
  auto made = std::make_unique<state>(children, std::move(options));
  QUERN_CHECK(base::make_folders(made->options.cache_dir));
  QUERN_CHECK(made->find_tools());
  QUERN_CHECK(made->find_identity());
  return std::unique_ptr<triton_builder>(new triton_builder(std::move(made)));
}

base::expected<triton_result> triton_builder::build(const triton_kernel& kernel) {
  triton_result mine;
  QUERN_TRY(const auto shared, state_->shared.once(key_of(kernel), [&]() {
    auto made = state_->build(kernel);
    if (made) mine = *made;
    return made ? base::expected<compile_result>(*made)
                : base::expected<compile_result>(tl::make_unexpected(made.error()));
  }));
  static_cast<compile_result&>(mine) = shared;
  // Those who waited for another's build know the artefact alone.
  if (mine.outcome == compile_result::kind::built && mine.launcher.empty()) {
    QUERN_TRY(mine.launcher, state_->find_launcher(mine.artefact));
  }
  return mine;
}

}  // namespace quern::env
