// Builds the extensions that candidates ask for, in the sandbox, ahead of their run.
#include "env/lanes/pytorch/build/extension_builder.hpp"

#include <algorithm>
#include <set>
#include <string_view>
#include <vector>

#include <sys/stat.h>

#include "base/file.hpp"
#include "base/log.hpp"
#include "base/program.hpp"
#include "base/text.hpp"
#include "env/build/artefact_cache.hpp"
#include "env/build/cuda_toolkit.hpp"
#include "env/build/shared_compilation.hpp"
#include "env/build/tool.hpp"
#include "env/lanes/pytorch/build/extension_job.hpp"
#include "env/lanes/pytorch/build/headers_ahead.hpp"

namespace quern::env {
namespace {

namespace fs = std::filesystem;

constexpr const char* slim_headers_folder = "env/lanes/pytorch/build/headers";
constexpr const char* slim_header_names[] = {
    "quern_device.h", "quern_tensor.h",  "quern_functions.h", "quern_dispatch.h",
    "quern_host.h",   "quern_binding.h", "quern_support.cpp"};
// Two compilers with their parts, and the shell.
constexpr int most_processes = 64;
constexpr int most_files = 256;
constexpr double support_wall_s = 120;

/// What any compiler in order makes an extension of.
extension_request control_request(const extension_request& request) {
  extension_request ours;
  ours.name = "quern_control";
  ours.with_cuda = request.with_cuda;
  return ours;
}
std::vector<build_source> control_sources(const std::vector<build_source>& sources) {
  std::vector<build_source> ours{{"main.cpp", "int quern_control_value = 1;\n", false}};
  if (std::any_of(sources.begin(), sources.end(), [](const auto& one) { return one.cuda; }))
    ours.push_back({"cuda.cu", "__global__ void quern_control(float* y) { y[0] = 1; }\n", true});
  return ours;
}

/// What became of an extension by the slim route.
struct slim_try {
  enum class how { built, refused, refused_cuda };  ///< the last: what nvcc was given
  how by = how::refused;
  child_end end;  ///< where compilers failed
  /// What they told then, from the first error on; empty: none ran, or they told nothing.
  std::string told;
};

bool has_cuda_source(const std::vector<build_source>& sources) {
  return std::any_of(sources.begin(), sources.end(), [](const auto& one) { return one.cuda; });
}

}  // namespace

struct extension_builder::state {
  state(spawner& from, extension_options with)
      : children(from),
        options(std::move(with)),
        cache(options.cache_dir / "artefacts", options.cache_bytes) {}

  spawner& children;
  extension_options options;
  artefact_cache cache;
  shared_compilation shared;
  extension_tools tools;
  std::string toolkit_root;
  std::set<std::string, std::less<>> operators;  ///< headers of ATen/ops
  base::hash128 fingerprint;

  base::status find_tools();
  base::status find_identity();
  base::status make_support();
  base::status precompile_headers();
  [[nodiscard]] child_spec spec_of(const std::string& script) const;
  [[nodiscard]] extension_job job_of(const extension_request& request, const extension_flags& flags,
                                     const std::vector<build_source>& sources,
                                     build_way way) const {
    return make_extension_job(tools, request, flags, sources, options.architecture, way);
  }
  base::expected<tool_outcome> run_once(const extension_job& job) const;
  base::expected<slim_try> slim(const extension_request& request, const extension_flags& flags,
                                extension_result& result);
  base::expected<base::unique_fd> full(const extension_request& request,
                                       const extension_flags& flags, const slim_try& before,
                                       extension_result& result);
  base::expected<extension_result> build(const extension_request& request);
  base::status keep(const base::unique_fd& made, extension_result& result);

  /// Whether `ahead` could begin.
  base::status headers;
  // The last: it uses `children`.
  std::optional<headers_ahead> ahead;
};

child_spec extension_builder::state::spec_of(const std::string& script) const {
  std::error_code error;
  child_spec spec = tool_spec(fs::canonical("/bin/sh", error), {"-c", script}, true);
  for (const auto& folder : tools.torch.include_folders())
    spec.read_only.push_back(folder);
  spec.read_only.push_back(tools.torch.library_folder().string());
  if (!toolkit_root.empty()) spec.read_only.push_back(toolkit_root);
  for (const auto* path : {&tools.cuda_include, &tools.cuda_lib, &tools.headers, &tools.support})
    if (!path->empty()) spec.read_only.push_back(path->string());
  // Another process may remove it before this one has locked it (headers_ahead.hpp).
  if (!tools.precompiled.empty() && fs::exists(tools.precompiled, error))
    spec.read_only.push_back(tools.precompiled.string());
  // A compiler of its own prefix brings its parts along.
  const fs::path prefix = tools.cxx.parent_path().parent_path();
  if (prefix != "/usr" && prefix.has_relative_path()) spec.read_only.push_back(prefix.string());
  limit_tool(spec, options.limits);
  spec.limits.processes = most_processes;
  spec.limits.open_files = most_files;
  return spec;
}

base::status extension_builder::state::find_tools() {
  QUERN_TRY(tools.torch, find_python_torch(options.python));
  QUERN_TRY(tools.cxx, find_compiler());
  if (const auto toolkit = find_cuda_toolkit(options.toolkit); toolkit) {
    tools.nvcc = toolkit->nvcc;
    tools.cuda_include = toolkit->include;
    tools.cuda_lib = toolkit->library_folder();
    toolkit_root = toolkit->root.string();
  }
  tools.headers = options.headers;
  if (tools.headers.empty()) {
    QUERN_TRY(tools.headers, base::share_folder(slim_headers_folder));
  }
  std::error_code error;
  tools.headers = fs::canonical(tools.headers, error);
  if (error)
    return base::fail(base::errc::not_found, "no slim headers at {}: {}", options.headers.string(),
                      error.message());
  for (const auto& item : fs::directory_iterator(tools.torch.torch / "include/ATen/ops", error))
    if (item.path().extension() == ".h") operators.insert(item.path().stem().string());
  return {};
}

base::status extension_builder::state::find_identity() {
  base::hasher hash;
  const auto version_of = [&](const fs::path& program) {
    child_spec spec = spec_of("exec \"$0\" --version");
    spec.argv.push_back(program.string());
    return ask_tool(children, spec);
  };
  QUERN_TRY(const auto cxx, version_of(tools.cxx));
  hash.add(cxx).add(tools.torch.version).add(tools.torch.torch.string());
  if (!tools.nvcc.empty()) {
    QUERN_TRY(const auto nvcc, version_of(tools.nvcc));
    hash.add(nvcc).add(toolkit_root);
  }
  for (const char* name : slim_header_names) {
    QUERN_TRY(const auto text, base::read_file(tools.headers / name));
    hash.add(text);
  }
  // Flags and binding of ours, by way of what they make of one request.
  extension_request probe;
  probe.name = "probe";
  probe.functions.emplace();
  probe.cuda_sources.emplace_back("");
  probe.with_cuda = true;
  for (const bool slim : {false, true})
    hash.add(
        make_extension_job(tools, probe, {}, full_sources(probe), "sm_0", {.slim = slim}).script);
  hash.add(support_script(tools));
  fingerprint = hash.digest();
  return {};
}

base::status extension_builder::state::make_support() {
  const base::hash128 key = base::hasher().add("support").add(base::to_hex(fingerprint)).digest();
  // Named by its hash and kept out of the cache, which may drop what has not been used for long.
  const fs::path kept = fs::absolute(options.cache_dir) / "support" / (base::to_hex(key) + ".o");
  std::error_code error;
  if (!fs::exists(kept, error)) {
    child_spec spec = spec_of(support_script(tools));
    spec.limits.wall_s = spec.limits.cpu_s = support_wall_s;
    QUERN_TRY(auto ran, run_tool(children, spec));
    if (!ran.end.succeeded())
      return base::fail(base::errc::unavailable, "compiling quern_support.cpp: {}; {}",
                        ran.end.text(), useful_text(ran.err, options.shown_characters));
    QUERN_TRY(const auto made, open_product(ran, extension_product));
    if (!made) return base::fail(base::errc::unavailable, "quern_support.cpp became nothing");
    artefact_cache support(fs::absolute(options.cache_dir) / "support", options.cache_bytes);
    QUERN_TRY(const auto stored, support.store(key, made.get(), options.limits.file_bytes));
    fs::rename(stored, kept, error);
    if (error)
      return base::fail(base::errc::io, "renaming {}: {}", stored.string(), error.message());
  }
  tools.support = kept;
  return {};
}

// The headers themselves are too many to be read for the name of the folder. A reinstalled torch,
// g++ or libc is seen by the time of one file of each, CUDA and libstdc++ by the compilers'
// versions.
base::status extension_builder::state::precompile_headers() {
  // Other processes of this user could change what is kept, and some compilers could not read it.
  if (!children.layers().has(layer::mountns))
    return base::fail(base::errc::unavailable,
                      "headers are precompiled only for a sandbox with mount namespaces");
  base::hasher of;
  of.add(base::to_hex(fingerprint)).add(precompile_script(tools));
  for (const fs::path& file :
       {tools.torch.torch / "version.py", tools.cxx, fs::path("/usr/include/features.h")}) {
    std::error_code error;
    of.add(std::to_string(fs::last_write_time(file, error).time_since_epoch().count()));
  }
  const fs::path root = options.headers_dir.empty() ? options.cache_dir : options.headers_dir;
  const fs::path folder = fs::absolute(root) / "headers" / base::to_hex(of.digest());
  // Compilers read them as a foreign user, whatever the mask of this process is.
  for (const char* level : precompiled_levels) {
    QUERN_CHECK(base::make_folders(folder / level));
    chmod((folder / level).c_str(), 0755);
  }
  chmod(folder.c_str(), 0755);
  ahead.emplace(children, spec_of(precompile_script(tools)), folder);
  tools.precompiled = folder;
  return {};
}

base::expected<tool_outcome> extension_builder::state::run_once(const extension_job& job) const {
  child_spec spec = spec_of(job.script);
  QUERN_TRY(const auto input, as_memory_file(job.input));
  spec.in = child_stream::from(input.get());
  return run_tool(children, spec);
}

base::status extension_builder::state::keep(const base::unique_fd& made, extension_result& result) {
  QUERN_TRY(result.artefact, cache.store(result.key, made.get(), options.limits.file_bytes));
  result.outcome = compile_result::kind::built;
  return {};
}

// A failure says nothing about the text, only which compiler to ask first.
base::expected<slim_try> extension_builder::state::slim(const extension_request& request,
                                                        const extension_flags& flags,
                                                        extension_result& result) {
  const auto sources =
      slim_sources(request, [&](std::string_view name) { return operators.count(name) != 0; });
  if (!sources) {
    result.slim_text = "it includes what has no slim form";
    return slim_try{};
  }
  QUERN_TRY(auto ran, run_once(job_of(request, flags, *sources, {.slim = true})));
  result.ms += ran.ms;
  result.core_s += static_cast<double>(ran.end.user_us + ran.end.system_us) * 1e-6;
  result.layers = ran.layers;
  if (!ran.end.succeeded()) {
    result.slim_text = ran.end.text() + "; " + useful_text(ran.err, options.shown_characters);
    const bool by_cuda = ran.end.ending == child_end::kind::exited && ran.end.code == exit_of_cuda;
    return slim_try{by_cuda ? slim_try::how::refused_cuda : slim_try::how::refused, ran.end,
                    useful_text(ran.err, ran.err.size())};
  }
  QUERN_TRY(const auto made, open_product(ran, extension_product));
  if (!made) return slim_try{};
  QUERN_CHECK(keep(made, result));
  result.by = extension_result::route::slim;
  return slim_try{slim_try::how::built, ran.end, {}};
}

// None: not built, and `result` says why.
base::expected<base::unique_fd> extension_builder::state::full(const extension_request& request,
                                                               const extension_flags& flags,
                                                               const slim_try& before,
                                                               extension_result& result) {
  const auto sources = full_sources(request);
  const auto first =
      before.by == slim_try::how::refused_cuda ? compiled_first::cuda : compiled_first::cxx;
  const extension_job job = job_of(request, flags, sources, {.slim = false, .first = first});
  child_spec spec = spec_of(job.script);
  QUERN_TRY(const auto input, as_memory_file(job.input));
  spec.in = child_stream::from(input.get());
  const auto control = [&]() {
    return run_once(job_of(control_request(request), {}, control_sources(sources), {}));
  };
  // Torch's own headers take ten seconds and more. What fails with them just as with slim ones has
  // failed twice.
  std::optional<earlier_failure> earlier;
  if (!before.told.empty())
    earlier = {before.end, [&](const tool_outcome& ran) {
                 return useful_text(ran.err, ran.err.size()) == before.told;
               }};
  QUERN_TRY(auto ran, run_compiler(children, spec, control, earlier));
  const std::int64_t before_ms = result.ms;
  const bool succeeded = take_outcome(ran, options.limits, result);
  result.ms += before_ms;
  result.full_runs = ran.runs;
  result.core_s += static_cast<double>(ran.end.user_us + ran.end.system_us) * 1e-6;
  result.by = extension_result::route::full;
  result.text = useful_text(result.text, options.shown_characters);
  if (!succeeded) return base::unique_fd();
  QUERN_TRY(auto made, open_product(ran, extension_product));
  if (!made) result.text += "the compiler wrote no artefact\n";
  return made;
}

base::expected<extension_result> extension_builder::state::build(const extension_request& request) {
  extension_result result;
  result.key = extension_key(request, options.architecture, fingerprint);
  if (auto found = cache.find(result.key)) {
    result.outcome = compile_result::kind::built;
    result.artefact = *found;
    result.cached = true;
    result.layers = children.layers();
    return result;
  }
  const extension_flags flags = judge_flags(request);
  if (!flags.refused.empty()) {
    result.text = flags.refused;
    return result;
  }
  if (tools.nvcc.empty() && has_cuda_source(full_sources(request)))
    return base::fail(base::errc::unavailable,
                      "'{}' has a CUDA source, and there is no nvcc: run tools/setup.sh --cuda",
                      request.name);
  if (const auto name = undeclared_function(request)) {
    result.text = fmt::format(
        "error: `functions` names '{0}', which no C++ source declares: write its declaration into "
        "cpp_sources, as `torch::Tensor {0}(...);`\n",
        *name);
    return result;
  }
  QUERN_TRY(const auto by_slim, slim(request, flags, result));
  if (by_slim.by == slim_try::how::built || !options.full_route) return result;
  QUERN_TRY(const auto made, full(request, flags, by_slim, result));
  if (made) {
    QUERN_CHECK(keep(made, result));
  }
  return result;
}

extension_builder::extension_builder(std::unique_ptr<state> s) : state_(std::move(s)) {}
extension_builder::~extension_builder() = default;
const base::hash128& extension_builder::fingerprint() const {
  return state_->fingerprint;
}
base::status extension_builder::headers_read() {
  return state_->ahead ? state_->ahead->wait() : state_->headers;
}
bool extension_builder::has_cuda() const {
  return !state_->tools.nvcc.empty();
}
const fs::path& extension_builder::python() const {
  return state_->tools.torch.program;
}

base::expected<std::unique_ptr<extension_builder>> extension_builder::create(
    spawner& children, extension_options options) {
  if (options.cache_dir.empty())
    return base::fail(base::errc::invalid_argument, "the builder needs a cache folder");
  if (!is_cuda_architecture(options.architecture))
    return base::fail(base::errc::invalid_argument, "'{}' is no architecture that is compiled for",
                      options.architecture);
  auto made = std::make_unique<state>(children, std::move(options));
  QUERN_CHECK(base::make_folders(made->options.cache_dir));
  QUERN_CHECK(made->find_tools());
  QUERN_CHECK(made->find_identity());
  if (made->options.headers_ahead) made->headers = made->precompile_headers();
  if (!made->headers)
    base::log_warn("pytorch", "C++ files of extensions take longer to build: {}",
                   made->headers.error().message);
  QUERN_CHECK(made->make_support());
  return std::unique_ptr<extension_builder>(new extension_builder(std::move(made)));
}

base::hash128 extension_builder::key_of(const extension_request& request) const {
  return extension_key(request, state_->options.architecture, state_->fingerprint);
}

base::expected<extension_result> extension_builder::build(const extension_request& request) {
  // Those who wait for the same build get its outcome; the route is told to the one who made it.
  extension_result mine;
  QUERN_TRY(const auto shared, state_->shared.once(key_of(request), [&]() {
    auto made = state_->build(request);
    if (made) mine = *made;
    return made ? base::expected<compile_result>(*made)
                : base::expected<compile_result>(tl::make_unexpected(made.error()));
  }));
  static_cast<compile_result&>(mine) = shared;
  return mine;
}

base::expected<extension_result> extension_builder::build_fully(const extension_request& request) {
  extension_result result;
  result.key = key_of(request);
  const extension_flags flags = judge_flags(request);
  result.text = flags.refused;
  if (!flags.refused.empty()) return result;
  QUERN_TRY(const auto made, state_->full(request, flags, {}, result));
  if (made) result.outcome = compile_result::kind::built;
  return result;
}

}  // namespace quern::env
