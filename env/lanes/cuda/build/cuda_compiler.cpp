// Compiling a candidate of lane `cuda` inside the sandbox.
#include "env/lanes/cuda/build/cuda_compiler.hpp"

#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/program.hpp"
#include "base/text.hpp"
#include "env/build/artefact_cache.hpp"
#include "env/build/tool.hpp"
#include "env/lanes/cuda/build/device_code.hpp"
#include "env/lanes/cuda/screen/cuda_prelude.hpp"
#include "env/runner/nvrtc_request.hpp"
#include "env/screen/canonical.hpp"

namespace quern::env {
namespace {

namespace fs = std::filesystem;

constexpr const char* shared_object_name = "kernel.so";
constexpr const char* source_name = "source.cu";

// Common to both compilers. Cooperative groups would bring <cuda/atomic> along for a few waits of
// their own: 1.4 s for every candidate that includes them.
constexpr const char* common_flags[] = {"-std=c++17", "-D_CG_LIMIT_INCLUDED_DEPENDENCIES"};

// Unused functions and variables are no news; what else it says may help.
constexpr const char* quiet_flag = "--diag-suppress=177,550";

// What a file contributes to the fingerprint: content where it is small, size where it is not.
void add_file(base::hasher& hash, const fs::path& path) {
  constexpr std::uintmax_t small = 16 << 20;
  std::error_code error;
  const auto bytes = fs::file_size(path, error);
  hash.add(path.filename().string()).add(error ? 0 : std::uint64_t{bytes});
  if (!error && bytes <= small)
    if (const auto content = base::read_file(path, small)) hash.add(*content);
}

// "13.0" of `#define CUDART_VERSION 13000`.
std::string headers_version(const fs::path& include) {
  const auto text = base::read_file(include / "cuda_runtime_api.h", 16 << 20);
  constexpr std::string_view label = "#define CUDART_VERSION";
  const std::size_t at = text ? text->find(label) : std::string::npos;
  if (at == std::string::npos) return "unknown";
  const int number = std::atoi(text->c_str() + at + label.size());
  return fmt::format("{}.{}", number / 1000, number % 1000 / 10);
}

class request_writer {
 public:
  void text(std::string_view value) {
    texts_ += value;
    texts_ += '\0';
  }
  [[nodiscard]] std::string file(const runner::nvrtc_request_head& head) const {
    std::string whole(sizeof head, '\0');
    std::memcpy(whole.data(), &head, sizeof head);
    return whole + texts_;
  }

 private:
  std::string texts_;
};

std::string nvcc_text(const cuda_compile_request& request) {
  return cuda_host_prelude(request.source, request.prototype) +
         std::string(base::without_byte_order_mark(request.source)) + "\n";
}

// What the compiler of this form, in order, makes an artefact of, by way of all its parts.
cuda_compile_request control_for(const cuda_compile_request& request) {
  cuda_compile_request ours(request.form);
  ours.source = "__global__ void control(float* y) { y[0] = 1; }\n";
  ours.kernels = {"control"};
  if (request.form == cuda_form::host_entry)
    ours.source += "extern \"C\" void kernel(float* y) { control<<<1, 1>>>(y); }\n";
  ours.architecture = request.architecture;
  ours.library_calls = request.library_calls;
  return ours;
}

base::expected<std::string> read_product(const base::unique_fd& fd, std::int64_t limit) {
  struct stat info {};
  if (!fd || fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode) || info.st_size > limit)
    return base::fail(base::errc::exhausted, "no result of at most {} bytes", limit);
  std::string content(static_cast<std::size_t>(info.st_size), '\0');
  std::size_t at = 0;
  while (at < content.size()) {
    const ssize_t got =
        pread(fd.get(), content.data() + at, content.size() - at, static_cast<off_t>(at));
    if (got <= 0) return base::fail_errno("reading what a compiler made");
    at += static_cast<std::size_t>(got);
  }
  return content;
}

}  // namespace

std::vector<std::string> cuda_lane_flags(cuda_form form, const std::string& architecture) {
  std::vector<std::string> flags(std::begin(common_flags), std::end(common_flags));
  flags.emplace_back(quiet_flag);
  if (form == cuda_form::device_only) {
    // Functions without a mark are device functions; there are no others.
    flags.insert(flags.end(), {"--gpu-architecture=" + architecture, "-default-device"});
    return flags;
  }
  // Machine code for this device alone, without PTX for others: half the time.
  const std::string number = architecture.substr(architecture.find('_') + 1);
  flags.insert(flags.end(), {"-O3", "-shared", "-Xcompiler", "-fPIC", "-cudart", "static",
                             "-gencode", fmt::format("arch=compute_{},code=sm_{}", number, number),
                             "--expt-relaxed-constexpr", "--extended-lambda", "-Xlinker", "-z,defs",
                             "-Xlinker", "-z,now", "-Xlinker", "--require-defined=kernel"});
  return flags;
}

struct cuda_compiler::state {
  state(spawner& from, cuda_compiler_options with)
      : children(from),
        options(std::move(with)),
        cache(options.cache_dir / "artefacts", options.cache_bytes) {}

  spawner& children;
  cuda_compiler_options options;
  artefact_cache cache;
  cuda_toolkit toolkit;
  fs::path runner;
  fs::path host_compiler;
  std::string version;
  base::hash128 fingerprint;

  base::status find_identity();
  [[nodiscard]] child_spec nvrtc_spec() const;
  [[nodiscard]] child_spec nvcc_spec(std::vector<std::string> arguments) const;
  base::status by_nvrtc(const cuda_compile_request& request, compile_result& result);
  base::status by_nvcc(const cuda_compile_request& request, compile_result& result);
  [[nodiscard]] std::vector<std::string> shown_command(const cuda_compile_request& request) const;
  [[nodiscard]] std::string nvrtc_request(const cuda_compile_request& request) const;
  [[nodiscard]] child_spec nvcc_spec_for(const cuda_compile_request& request,
                                         const base::unique_fd& source) const;
};

child_spec cuda_compiler::state::nvrtc_spec() const {
  child_spec spec = tool_spec(runner, {"nvrtc", toolkit.nvrtc.string()}, false);
  for (auto& file : toolkit.nvrtc_files())
    spec.read_only.push_back(std::move(file));
  spec.read_only.push_back(toolkit.include.string());
  // It loads a part of itself by a bare name.
  spec.env.push_back("LD_LIBRARY_PATH=" + toolkit.nvrtc.parent_path().string());
  return spec;
}

child_spec cuda_compiler::state::nvcc_spec(std::vector<std::string> arguments) const {
  child_spec spec = tool_spec(toolkit.nvcc, std::move(arguments), true);
  spec.read_only.push_back(toolkit.root.string());
  spec.read_only.push_back(toolkit.library_folder().string());
  spec.limits.processes = 32;
  return spec;
}

base::status cuda_compiler::state::find_identity() {
  base::hasher hash;
  for (const cuda_form form : {cuda_form::device_only, cuda_form::host_entry})
    for (const auto& flag : cuda_lane_flags(form, "sm_0"))
      hash.add(flag);
  hash.add(cuda_device_prelude("half bfloat16")).add(cuda_host_prelude("half bfloat16", ""));
  for (const auto& [name, text] : nvrtc_headers())
    hash.add(name).add(text);
  for (const char* header : {"cuda_runtime_api.h", "cuda_fp16.hpp", "cuda_bf16.hpp",
                             "cooperative_groups.h", "crt/mma.hpp"})
    add_file(hash, toolkit.include / header);
  add_file(hash, toolkit.include_folders().back() / "cuda/std/__cccl/version.h");
  if (!toolkit.nvrtc.empty()) {
    for (const auto& file : toolkit.nvrtc_files())
      add_file(hash, file);
    version = "NVRTC of CUDA " + headers_version(toolkit.include);
  }
  if (!toolkit.nvcc.empty()) {
    QUERN_TRY(host_compiler, find_compiler());
    QUERN_TRY(const auto nvcc, ask_tool(children, nvcc_spec({"--version"})));
    QUERN_TRY(const auto gcc, ask_tool(children, tool_spec(host_compiler, {"--version"}, true)));
    hash.add(nvcc).add(gcc);
    const std::size_t release = nvcc.find("release ");
    version += fmt::format("{}nvcc {}; {}", version.empty() ? "" : "; ",
                           release == std::string::npos
                               ? "of unknown version"
                               : nvcc.substr(release + 8, nvcc.find('\n', release) - release - 8),
                           gcc.substr(0, gcc.find('\n')));
  }
  fingerprint = hash.digest();
  return {};
}

std::string cuda_compiler::state::nvrtc_request(const cuda_compile_request& request) const {
  std::vector<std::string> flags = cuda_lane_flags(request.form, request.architecture);
  for (const auto& folder : toolkit.include_folders())
    flags.push_back("--include-path=" + folder.string());
  runner::nvrtc_request_head head;
  head.options = static_cast<std::uint32_t>(flags.size());
  head.headers = static_cast<std::uint32_t>(nvrtc_headers().size());
  head.names = static_cast<std::uint32_t>(request.kernels.size());
  request_writer writer;
  for (const auto& flag : flags)
    writer.text(flag);
  for (const auto& [name, text] : nvrtc_headers()) {
    writer.text(name);
    writer.text(text);
  }
  for (const auto& name : request.kernels)
    writer.text(name);
  // The compiler skips a byte order mark only where a file begins.
  writer.text(cuda_device_prelude(request.source) +
              std::string(base::without_byte_order_mark(request.source)) + "\n");
  return writer.file(head);
}

base::status cuda_compiler::state::by_nvrtc(const cuda_compile_request& request,
                                            compile_result& result) {
  const auto spec_for = [&](const cuda_compile_request& what, const base::unique_fd& asked) {
    child_spec spec = nvrtc_spec();
    spec.keep = {{asked.get(), runner::nvrtc_request_fd}};
    limit_tool(spec, what);
    return spec;
  };
  const auto control = [&]() -> base::expected<tool_outcome> {
    const cuda_compile_request ours = control_for(request);
    QUERN_TRY(const auto asked, as_memory_file(nvrtc_request(ours)));
    return run_tool(children, spec_for(ours, asked));
  };
  QUERN_TRY(const auto asked, as_memory_file(nvrtc_request(request)));
  QUERN_TRY(auto ran, run_compiler(children, spec_for(request, asked), control));
  if (ran.end.ending == child_end::kind::exited && ran.end.code == runner::nvrtc_unusable &&
      !ran.end.out_of_memory)
    return base::fail(base::errc::unavailable, "NVRTC does not run in the sandbox: {}", ran.err);
  if (!take_outcome(ran, request, result)) return {};
  QUERN_TRY(const auto code_file, open_product(ran, runner::nvrtc_code_file));
  QUERN_TRY(const auto names_file, open_product(ran, runner::nvrtc_names_file));
  const auto code = read_product(code_file, request.file_bytes);
  const auto names = read_product(names_file, request.file_bytes);
  device_code what;
  what.architecture = request.architecture;
  if (names) {
    const auto symbols = base::split(*names, '\0');
    for (std::size_t i = 0; i < request.kernels.size() && i < symbols.size(); ++i)
      what.kernels.push_back({request.kernels[i], std::string(symbols[i])});
  }
  // The compiler process has read the candidate's text: what it left may be anything.
  const auto file = code ? write_device_code(what, *code)
                         : base::expected<std::string>(tl::make_unexpected(code.error()));
  if (!file || what.kernels.size() != request.kernels.size()) {
    result.outcome = compile_result::kind::error;
    result.text += "the compiler wrote no device code that can be used\n";
    return {};
  }
  QUERN_TRY(const auto whole, as_memory_file(*file));
  QUERN_TRY(result.artefact,
            cache.store(result.key, whole.get(), static_cast<std::int64_t>(file->size())));
  result.outcome = compile_result::kind::built;
  return {};
}

// What is compiled with, as a person would type it.
std::vector<std::string> cuda_compiler::state::shown_command(
    const cuda_compile_request& request) const {
  const bool device_only = request.form == cuda_form::device_only;
  std::vector<std::string> command{device_only ? toolkit.nvrtc.string() : toolkit.nvcc.string()};
  const auto flags = cuda_lane_flags(request.form, request.architecture);
  command.insert(command.end(), flags.begin(), flags.end());
  if (device_only) return command;
  command.insert(command.end(),
                 {"-ccbin", host_compiler.string(), source_name, "-o", shared_object_name});
  // The wheels of PyPI keep the runtime where their nvcc does not look.
  const std::string folder = toolkit.library_folder().string();
  command.push_back("-L" + folder);
  if (!request.library_calls) return command;
  command.insert(command.end(), {"-Xlinker", "--as-needed", "-Xlinker", "-rpath," + folder});
  for (const char* library : {"cublas", "cublasLt", "cudnn"})
    if (std::error_code error;
        fs::exists(fs::path(folder) / fmt::format("lib{}.so", library), error))
      command.push_back(fmt::format("-l{}", library));
  return command;
}

// nvcc reads its source several times, by name: a file of the work folder, which only the child can
// make before it begins.
child_spec cuda_compiler::state::nvcc_spec_for(const cuda_compile_request& request,
                                               const base::unique_fd& source) const {
  std::vector<std::string> arguments{"-c",
                                     fmt::format("cat >{} && exec \"$0\" \"$@\"", source_name)};
  const auto command = shown_command(request);
  arguments.insert(arguments.end(), command.begin(), command.end());
  child_spec spec = nvcc_spec(std::move(arguments));
  std::error_code error;
  spec.argv[0] = fs::canonical("/bin/sh", error).string();
  spec.in = child_stream::from(source.get());
  limit_tool(spec, request);
  return spec;
}

base::status cuda_compiler::state::by_nvcc(const cuda_compile_request& request,
                                           compile_result& result) {
  const auto control = [&]() -> base::expected<tool_outcome> {
    const cuda_compile_request ours = control_for(request);
    QUERN_TRY(const auto source, as_memory_file(nvcc_text(ours)));
    return run_tool(children, nvcc_spec_for(ours, source));
  };
  QUERN_TRY(const auto source, as_memory_file(nvcc_text(request)));
  QUERN_TRY(auto ran, run_compiler(children, nvcc_spec_for(request, source), control));
  if (!take_outcome(ran, request, result)) return {};
  QUERN_TRY(const base::unique_fd made, open_product(ran, shared_object_name));
  if (!made) {
    result.text += "the compiler wrote no artefact\n";
    return {};
  }
  QUERN_TRY(result.artefact, cache.store(result.key, made.get(), request.file_bytes));
  result.outcome = compile_result::kind::built;
  return {};
}

cuda_compiler::cuda_compiler(std::unique_ptr<state> s) : state_(std::move(s)) {}
cuda_compiler::~cuda_compiler() = default;
const cuda_toolkit& cuda_compiler::toolkit() const {
  return state_->toolkit;
}
const std::string& cuda_compiler::version() const {
  return state_->version;
}
const base::hash128& cuda_compiler::fingerprint() const {
  return state_->fingerprint;
}
bool cuda_compiler::can(cuda_form form) const {
  return form == cuda_form::device_only ? !state_->toolkit.nvrtc.empty()
                                        : !state_->toolkit.nvcc.empty();
}

base::expected<std::unique_ptr<cuda_compiler>> cuda_compiler::create(
    spawner& children, cuda_compiler_options options) {
  if (options.cache_dir.empty())
    return base::fail(base::errc::invalid_argument, "the CUDA compiler needs a cache folder");
  auto made = std::make_unique<state>(children, std::move(options));
  QUERN_CHECK(base::make_folders(made->options.cache_dir));
  QUERN_TRY(made->toolkit, find_cuda_toolkit(made->options.toolkit));
  made->runner = made->options.runner_program;
  if (made->runner.empty()) {
    QUERN_TRY(made->runner, base::sibling_program("quern-runner"));
  }
  QUERN_CHECK(made->find_identity());
  return std::unique_ptr<cuda_compiler>(new cuda_compiler(std::move(made)));
}

base::hash128 cuda_compiler::key_of(const cuda_compile_request& request) const {
  base::hasher hash;
  hash.add(canonical_source(request.source));
  hash.add(request.form == cuda_form::device_only ? "device code" : "shared object");
  hash.add(request.architecture).add(request.prototype);
  hash.add(std::uint64_t{request.library_calls});
  for (const auto& name : request.kernels)
    hash.add(name);
  return hash.add(base::to_hex(state_->fingerprint)).digest();
}

base::expected<compile_result> cuda_compiler::compile(const cuda_compile_request& request) {
  if (!is_cuda_architecture(request.architecture))
    return base::fail(base::errc::invalid_argument, "'{}' is no architecture that is compiled for",
                      request.architecture);
  for (const auto& name : request.kernels)
    if (name.empty() || name.find_first_of(std::string_view("\t\n\0", 3)) != name.npos)
      return base::fail(base::errc::invalid_argument, "'{}' is no name of a kernel", name);
  if (!can(request.form))
    return base::fail(base::errc::unavailable, "{} has no {}: run tools/setup.sh --cuda",
                      state_->toolkit.root.string(),
                      request.form == cuda_form::device_only ? "NVRTC (libnvrtc.so.13)" : "nvcc");
  compile_result result;
  result.key = key_of(request);
  if (auto found = state_->cache.find(result.key)) {
    result.outcome = compile_result::kind::built;
    result.artefact = *found;
    result.cached = true;
    result.layers = state_->children.layers();
    result.argv = state_->shown_command(request);
    return result;
  }
  if (request.source.find('\0') != std::string::npos) {
    result.text = "kernel.cu: a zero byte in the source\n";
    return result;
  }
  QUERN_CHECK(request.form == cuda_form::device_only ? state_->by_nvrtc(request, result)
                                                     : state_->by_nvcc(request, result));
  result.argv = state_->shown_command(request);
  return result;
}

}  // namespace quern::env
