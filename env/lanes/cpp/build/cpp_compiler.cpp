// Compiling a candidate of lane `cpp` inside the sandbox.
#include "env/lanes/cpp/build/cpp_compiler.hpp"

#include <algorithm>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/text.hpp"
#include "env/build/artefact_cache.hpp"
#include "env/build/instruction_level.hpp"
#include "env/build/tool.hpp"
#include "env/screen/canonical.hpp"

namespace quern::env {
namespace {

namespace fs = std::filesystem;

constexpr const char* artefact_name = "kernel.so";
constexpr int prelude_fd = 10;

// What any compiler in order makes an artefact of, by way of all its parts.
constexpr const char* control_source = "extern \"C\" void kernel(float* y) { y[0] = 1; }\n";

// The linker refuses what would only fail when it is loaded: a missing entry, an unknown function.
const std::vector<std::string>& link_flags() {
  static const std::vector<std::string> flags{"-Wl,-z,defs", "-Wl,-z,now",
                                              "-Wl,--require-defined=kernel"};
  return flags;
}

}  // namespace

const std::vector<std::string>& cpp_lane_flags() {
  static const std::vector<std::string> flags{"-std=c++20",      "-O3",     march_flag(),
                                              "-fno-math-errno", "-shared", "-fPIC"};
  return flags;
}

struct cpp_compiler::state {
  state(spawner& from, cpp_compiler_options with)
      : children(from),
        options(std::move(with)),
        cache(options.cache_dir / "artefacts", options.cache_bytes) {}

  spawner& children;
  cpp_compiler_options options;
  artefact_cache cache;
  fs::path program;
  std::string version;
  base::hash128 fingerprint;
  fs::path prelude;  // folder with prelude.hpp and prelude.hpp.gch
  base::unique_fd prelude_folder;

  [[nodiscard]] child_spec base_spec(std::vector<std::string> arguments) const;
  base::status find_identity();
  base::status prepare_prelude();
  base::status make_prelude(const fs::path& folder) const;
  std::string show(child_spec& spec, const fs::path& folder, int descriptor) const;
};

child_spec cpp_compiler::state::base_spec(std::vector<std::string> arguments) const {
  child_spec spec = tool_spec(program, std::move(arguments), true);
  // A compiler of its own prefix brings its parts along.
  const fs::path prefix = program.parent_path().parent_path();
  if (prefix != "/usr" && prefix != "/" && prefix.has_relative_path())
    spec.read_only.push_back(prefix.string());
  return spec;
}

base::status cpp_compiler::state::find_identity() {
  QUERN_TRY(const auto answer, ask_tool(children, base_spec({"--version"})));
  version = answer.substr(0, answer.find('\n'));
  // -march=native differs between machines that may share the cache.
  QUERN_TRY(const auto native,
            ask_tool(children, base_spec({march_flag(), "-Q", "--help=target"})));
  base::hasher hash;
  hash.add(version).add(native).add(prelude_text());
  for (const auto& flag : cpp_lane_flags())
    hash.add(flag);
  for (const auto& flag : link_flags())
    hash.add(flag);
  fingerprint = hash.digest();
  return {};
}

// Makes the prelude's folder visible and returns the header's path in the child. Without a mount
// namespace the path may lead through folders that a foreign user may not enter; the descriptor
// does not.
std::string cpp_compiler::state::show(child_spec& spec, const fs::path& folder,
                                      int descriptor) const {
  spec.read_only.push_back(folder.string());
  if (children.layers().has(layer::mountns)) return (folder / "prelude.hpp").string();
  spec.keep = {{descriptor, prelude_fd}};
  return fmt::format("/proc/self/fd/{}/prelude.hpp", prelude_fd);
}

base::status cpp_compiler::state::make_prelude(const fs::path& folder) const {
  QUERN_CHECK(base::make_folders(folder));
  const fs::path header = folder / "prelude.hpp";
  QUERN_CHECK(base::write_file_atomic(header, prelude_text()));
  // Read by a foreign user, whatever the mask of this process is.
  chmod(header.c_str(), 0644);
  chmod(folder.c_str(), 0755);
  const base::unique_fd opened(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened) return base::fail_errno(fmt::format("opening {}", folder.string()));
  child_spec spec = base_spec(cpp_lane_flags());
  const std::string inside = show(spec, folder, opened.get());
  spec.argv.insert(spec.argv.end(), {"-x", "c++-header", inside, "-o", "prelude.hpp.gch"});
  spec.err = child_stream::captured();
  spec.limits.wall_s = spec.limits.cpu_s = 120;
  spec.limits.memory_bytes = std::int64_t{2} << 30;
  spec.limits.file_bytes = spec.limits.work_bytes = 512 << 20;
  QUERN_TRY(auto made, run_tool(children, spec));
  if (!made.end.succeeded())
    return base::fail(base::errc::unavailable, "precompiling the prelude: {}; {}", made.end.text(),
                      made.err);
  const base::unique_fd in(
      openat(made.process->work_folder(), "prelude.hpp.gch", O_RDONLY | O_CLOEXEC));
  const fs::path target = folder / "prelude.hpp.gch";
  const base::unique_fd out(open(target.c_str(), O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0644));
  if (!in || !out) return base::fail_errno("storing the precompiled prelude");
  std::string block(1 << 20, '\0');
  ssize_t got = 0;
  while ((got = read(in.get(), block.data(), block.size())) > 0)
    QUERN_CHECK(base::write_all(out.get(), {block.data(), static_cast<std::size_t>(got)}));
  if (got < 0) return base::fail_errno("reading the precompiled prelude");
  chmod(target.c_str(), 0644);
  return {};
}

base::status cpp_compiler::state::prepare_prelude() {
  const fs::path& root = options.prelude_dir.empty() ? options.cache_dir : options.prelude_dir;
  prelude = fs::absolute(root) / "prelude" / base::to_hex(fingerprint);
  std::error_code error;
  if (!fs::exists(prelude / "prelude.hpp.gch", error)) {
    const fs::path temporary = prelude.string() + fmt::format(".{}", getpid());
    fs::remove_all(temporary, error);
    QUERN_CHECK(make_prelude(temporary));
    // Another process may have been faster: its folder is as good.
    if (rename(temporary.c_str(), prelude.c_str()) != 0) fs::remove_all(temporary, error);
    if (!fs::exists(prelude / "prelude.hpp.gch", error))
      return base::fail(base::errc::io, "cannot store the precompiled prelude in {}",
                        prelude.string());
  }
  prelude_folder.reset(open(prelude.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!prelude_folder) return base::fail_errno(fmt::format("opening {}", prelude.string()));
  return {};
}

cpp_compiler::cpp_compiler(std::unique_ptr<state> s) : state_(std::move(s)) {}
cpp_compiler::~cpp_compiler() = default;
const std::string& cpp_compiler::version() const {
  return state_->version;
}
const base::hash128& cpp_compiler::fingerprint() const {
  return state_->fingerprint;
}

base::expected<std::unique_ptr<cpp_compiler>> cpp_compiler::create(spawner& children,
                                                                   cpp_compiler_options options) {
  if (options.cache_dir.empty())
    return base::fail(base::errc::invalid_argument, "the compiler needs a cache folder");
  auto made = std::make_unique<state>(children, std::move(options));
  QUERN_CHECK(base::make_folders(made->options.cache_dir));
  if (made->options.program.empty()) {
    QUERN_TRY(made->program, find_compiler());
  } else {
    std::error_code error;
    made->program = fs::canonical(made->options.program, error);
    if (error)
      return base::fail(base::errc::not_found, "no compiler at {}: {}",
                        made->options.program.string(), error.message());
  }
  QUERN_CHECK(made->find_identity());
  QUERN_CHECK(made->prepare_prelude());
  return std::unique_ptr<cpp_compiler>(new cpp_compiler(std::move(made)));
}

base::hash128 cpp_compiler::key_of(const cpp_compile_request& request) const {
  return base::hasher()
      .add(canonical_source(request.source))
      .add(request.prototype)
      .add(base::to_hex(state_->fingerprint))
      .digest();
}

base::expected<compile_result> cpp_compiler::compile(const cpp_compile_request& request) {
  compile_result result;
  result.key = key_of(request);
  child_spec spec = state_->base_spec(cpp_lane_flags());
  const std::string prelude = state_->show(spec, state_->prelude, state_->prelude_folder.get());
  spec.argv.insert(spec.argv.end(), {"-fmax-errors=10", "-fdiagnostics-color=never", "-include",
                                     prelude, "-x", "c++", "-", "-o", artefact_name});
  spec.argv.insert(spec.argv.end(), link_flags().begin(), link_flags().end());
  result.argv = spec.argv;
  if (auto found = state_->cache.find(result.key)) {
    result.outcome = compile_result::kind::built;
    result.artefact = *found;
    result.cached = true;
    result.layers = state_->children.layers();
    return result;
  }
  // The compiler skips a byte order mark only where a file begins.
  const auto source = base::without_byte_order_mark(request.source);
  QUERN_TRY(const auto text, as_memory_file(fmt::format("{}\n#line 1 \"kernel.cpp\"\n{}\n",
                                                        request.prototype, source)));
  spec.in = child_stream::from(text.get());
  limit_tool(spec, request);
  const auto control = [&]() -> base::expected<tool_outcome> {
    QUERN_TRY(const auto ours, as_memory_file(control_source));
    child_spec again = spec;
    again.in = child_stream::from(ours.get());
    limit_tool(again, compile_limits{});
    return run_tool(state_->children, again);
  };
  QUERN_TRY(auto ran, run_compiler(state_->children, spec, control));
  if (!take_outcome(ran, request, result)) return result;
  QUERN_TRY(const base::unique_fd made, open_product(ran, artefact_name));
  if (!made) {
    result.text += "the compiler wrote no artefact\n";
    return result;
  }
  QUERN_TRY(result.artefact, state_->cache.store(result.key, made.get(), request.file_bytes));
  result.outcome = compile_result::kind::built;
  return result;
}

}  // namespace quern::env
