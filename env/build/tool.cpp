// What the compilers in the sandbox have in common.
#include "env/build/tool.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/text.hpp"
#include "base/thread_deadline.hpp"
#include "env/sandbox/outside_hand.hpp"

namespace quern::env {

namespace {

bool is_wrapper(const std::filesystem::path& program) {
  const std::string name = program.filename().string();
  for (const char* wrapper : {"ccache", "distcc", "icecc", "sccache"})
    if (name.find(wrapper) != std::string::npos) return true;
  return false;
}

}  // namespace

base::expected<std::filesystem::path> find_compiler() {
  namespace fs = std::filesystem;
  const char* path = std::getenv("PATH");
  for (const auto folder : base::split(path != nullptr ? path : "/usr/bin:/bin", ':')) {
    std::error_code error;
    const fs::path found = fs::canonical(fs::path(folder) / "g++", error);
    if (!error && access(found.c_str(), X_OK) == 0 && !is_wrapper(found)) return found;
  }
  return base::fail(base::errc::not_found,
                    "no g++ in PATH: install it (apt-get install g++) or name a compiler");
}

std::vector<std::string> compiler_folders() {
  return {"/bin", "/usr/bin", "/usr/include", "/usr/libexec", "/proc/cpuinfo"};
}

child_spec tool_spec(const std::filesystem::path& program, std::vector<std::string> arguments,
                     bool with_gcc) {
  child_spec spec;
  spec.argv.push_back(program.string());
  spec.argv.insert(spec.argv.end(), arguments.begin(), arguments.end());
  spec.env = {"PATH=/usr/bin:/bin", "LC_ALL=C", "TMPDIR=."};
  spec.read_only = system_library_folders();
  if (with_gcc)
    for (const auto& folder : compiler_folders())
      spec.read_only.push_back(folder);
  spec.profile = syscall_profile::compiler;
  spec.limits.processes = 16;
  spec.limits.open_files = 128;
  return spec;
}

void limit_tool(child_spec& spec, const compile_limits& limits) {
  spec.out = child_stream::captured(limits.text_bytes);
  spec.err = child_stream::captured(limits.text_bytes);
  spec.limits.wall_s = spec.limits.cpu_s = limits.wall_s;
  spec.limits.memory_bytes = limits.memory_bytes;
  spec.limits.file_bytes = limits.file_bytes;
  spec.limits.work_bytes = 4 * limits.file_bytes;
}

namespace {

/// What the file system of work folders must have free, besides the bytes that one may hold.
constexpr std::uint64_t least_free_files = 64;

/// With a mount namespace each work folder is a file system of its own size. Without one a text
/// that keeps to its limits must not fail because others have filled the host's.
base::status check_room(const spawner& children, const child_limits& limits) {
  if (children.layers().has(layer::mountns) || limits.work_bytes <= 0) return {};
  QUERN_TRY(const auto place, base::temp_folder::make("quern-work"));
  const auto folder = place.path().parent_path();
  struct statvfs there {};
  if (statvfs(place.path().c_str(), &there) != 0)
    return base::fail_errno(fmt::format("looking for room in {}", folder.string()));
  const auto needed = static_cast<std::uint64_t>(limits.work_bytes);
  const std::uint64_t free_bytes = std::uint64_t{there.f_bavail} * there.f_frsize;
  // Some file systems do not count files.
  const bool files_left = there.f_files == 0 || there.f_favail >= least_free_files;
  if (free_bytes >= needed && files_left) return {};
  return base::fail(base::errc::unavailable,
                    "{} has {} bytes and {} files free, a compiler may need {} bytes and {} files: "
                    "make room there, or set TMPDIR to a folder that has it",
                    folder.string(), free_bytes, std::uint64_t{there.f_favail}, needed,
                    least_free_files);
}

/// The same with no more time than the calling thread has left.
child_spec within_thread_deadline(child_spec spec) {
  // 0 would be no limit.
  constexpr double least_s = 1e-3;
  const auto left = base::thread_deadline::left_s();
  if (!left) return spec;
  const double asked = spec.limits.wall_s > 0 ? spec.limits.wall_s : *left;
  spec.limits.wall_s = std::max(std::min(asked, *left), least_s);
  return spec;
}

}  // namespace

base::expected<tool_outcome> run_tool(spawner& children, const child_spec& spec) {
  const auto begin = std::chrono::steady_clock::now();
  tool_outcome result;
  QUERN_TRY(result.process, children.spawn(within_thread_deadline(spec)));
  result.layers = result.process->layers();
  result.end = *result.process->wait(-1);
  result.out = result.process->captured_out();
  result.err = result.process->captured_err();
  result.ms = std::chrono::duration_cast<std::chrono::milliseconds>(
                  std::chrono::steady_clock::now() - begin)
                  .count();
  return result;
}

base::expected<tool_outcome> run_compiler(spawner& children, const child_spec& spec,
                                          const control_run& control,
                                          const std::optional<earlier_failure>& earlier) {
  using next = compiler_attempts::next;
  const auto passed = [&](compiler_attempts& attempts) -> base::status {
    QUERN_CHECK(check_room(children, spec.limits));
    QUERN_TRY(const auto ours, control());
    if (attempts.after_control(ours.end) == next::blame_host)
      return base::fail(base::errc::unavailable,
                        "{} fails on this host whatever it is given ({}): see what the host is "
                        "short of (room, processes, descriptors); {}",
                        spec.argv[0], ours.end.text(), ours.err);
    return {};
  };
  compiler_attempts attempts, behind_earlier;
  const bool counts = earlier && behind_earlier.after_text(earlier->end) == next::control;
  if (counts) {
    const auto in_order = passed(behind_earlier);
    // Ended by the caller's own limit, it says nothing of the host.
    if (!in_order && !base::thread_deadline::is_over())
      return tl::make_unexpected(in_order.error());
  }
  for (int runs = 1;; ++runs) {
    QUERN_CHECK(check_room(children, spec.limits));
    if (spec.in.stream_kind == child_stream::kind::given && lseek(spec.in.fd, 0, SEEK_SET) != 0)
      return base::fail_errno("rewinding a source");
    QUERN_TRY(auto ran, run_tool(children, spec));
    ran.runs = runs;
    // Ended by the caller's own limit: neither the text nor the host is looked into.
    if (base::thread_deadline::is_over()) return ran;
    if (counts && runs == 1 && seen_in_compiler(ran.end) == outside_hand::possible &&
        earlier->told_the_same(ran) && behind_earlier.after_text(ran.end) == next::believe)
      return ran;
    const next then = attempts.after_text(ran.end);
    if (then == next::believe) return ran;
    if (then == next::blame_host)
      return base::fail(
          base::errc::unavailable,
          "{} was ended by another process, twice ({}): see what kills processes on this "
          "host; Linux's log names those it kills when memory is short",
          spec.argv[0], ran.end.text());
    if (then == next::repeat) continue;
    ran.process.reset();
    QUERN_CHECK(passed(attempts));
  }
}

base::expected<std::string> ask_tool(spawner& children, child_spec spec) {
  spec.out = child_stream::captured(256 << 10);
  spec.err = child_stream::captured();
  QUERN_TRY(auto answer, run_tool(children, spec));
  if (!answer.end.succeeded())
    return base::fail(base::errc::unavailable, "{} does not run in the sandbox: {}; {}",
                      spec.argv[0], answer.end.text(), answer.err);
  return answer.out;
}

base::expected<base::unique_fd> as_memory_file(const std::string& text) {
  base::unique_fd file(memfd_create("source", MFD_CLOEXEC));
  if (!file) return base::fail_errno("making a memory file for a source");
  QUERN_CHECK(base::write_all(file.get(), text));
  if (lseek(file.get(), 0, SEEK_SET) != 0) return base::fail_errno("rewinding a source");
  return file;
}

bool take_outcome(const tool_outcome& ran, const compile_limits& limits, compile_result& result) {
  result.ms = ran.ms;
  result.layers = ran.layers;
  result.text = ran.out + ran.err;
  result.outcome = compile_result::kind::error;
  if (ran.end.ending == child_end::kind::timed_out) {
    result.outcome = compile_result::kind::timeout;
    return false;
  }
  if (ran.end.out_of_memory)
    result.text += fmt::format("\nthe compiler ran out of memory: the limit is {} bytes\n",
                               limits.memory_bytes);
  if (ran.end.succeeded()) return true;
  if (result.text.empty()) result.text = "the compiler ended with " + ran.end.text();
  return false;
}

base::expected<base::unique_fd> open_product(const tool_outcome& ran, const char* name) {
  base::unique_fd product(
      openat(ran.process->work_folder(), name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!product && errno != ENOENT && errno != ELOOP)
    return base::fail_errno(fmt::format("opening {} of a compiler", name));
  return product;
}

}  // namespace quern::env
