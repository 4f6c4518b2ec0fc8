// A host that is short of something while a candidate is compiled: the candidate is not to blame.
#include <cstdlib>
#include <filesystem>
#include <string>

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "env/build/tool.hpp"
#include "env/lanes/cpp/build/cpp_compiler.hpp"
#include "env/sandbox/outside_hand.hpp"
#include "sandbox_fixture.hpp"
#include "support/breakable_compiler.hpp"
#include "support/own_mounts.hpp"

namespace quern::test::full_host {

using env::child_end;
using build_kind = env::compile_result::kind;
using end_kind = env::child_end::kind;
using next = env::compiler_attempts::next;

namespace {

constexpr int mebibyte = 1 << 20;

child_end end_of(end_kind how, int code = 0) {
  child_end end;
  end.ending = how;
  end.code = code;
  return end;
}

const child_end success = end_of(end_kind::exited);
const child_end failure = end_of(end_kind::exited, 1);
const child_end kill = end_of(end_kind::signalled, SIGKILL);

env::cpp_compile_request request(const std::string& more) {
  env::cpp_compile_request r;
  r.prototype = "extern \"C\" void kernel(const float* x, float* y);\n";
  r.source = more + "\nextern \"C\" void kernel(const float* x, float* y) { y[0] = x[0]; }\n";
  r.wall_s = 60;
  return r;
}

/// "built", "error: TEXT", "timeout", "host: CODE: TEXT".
std::string told(const base::expected<env::compile_result>& made) {
  if (!made)
    return fmt::format("host: {}: {}", base::to_string(made.error().code), made.error().message);
  if (made->outcome == build_kind::built) return "built";
  return made->outcome == build_kind::error ? "error: " + made->text : "timeout";
}

/// Fills the file system of `folder` until `left` bytes are free.
void fill(const std::filesystem::path& folder, std::uint64_t left) {
  struct statvfs there {};
  if (statvfs(folder.c_str(), &there) != 0) std::abort();
  const std::uint64_t free_bytes = std::uint64_t{there.f_bavail} * there.f_frsize;
  const base::unique_fd file(
      open((folder / "filler").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  if (posix_fallocate(file.get(), 0, static_cast<off_t>(free_bytes - left)) != 0) std::abort();
}

/// What becomes of the source where work folders are of a host whose folder for temporary files has
/// these `options`, and is filled by `prepare` before. None: no such file system can be had here.
std::optional<std::string> compiled_in(
    const std::string& options, const env::cpp_compile_request& what,
    const std::function<void(const std::filesystem::path&)>& prepare = {},
    const std::filesystem::path& program = {}) {
  static const base::temp_folder prelude = base::temp_folder::make("quern-prelude").value();
  const auto folder = base::temp_folder::make("quern-full").value();
  const auto cache = base::temp_folder::make("quern-cache").value();
  return with_memory_file_system(folder.path(), options, [&] {
    auto layers = env::layer_set::all();
    layers.remove(env::layer::mountns);
    const auto children = env::spawner::create(env::sandbox_mode::best_effort, layers).value();
    const auto compiler = env::cpp_compiler::create(*children, {.cache_dir = cache.path(),
                                                                .prelude_dir = prelude.path(),
                                                                .program = program})
                              .value();
    setenv("TMPDIR", folder.path().c_str(), 1);
    if (prepare) prepare(folder.path());
    return told(compiler->compile(what));
  });
}

bool begins(const std::optional<std::string>& text, const char* with) {
  return text && text->starts_with(with);
}

}  // namespace

TEST_CASE("a text is at fault when it fails twice with a good control in between") {
  env::compiler_attempts wrong;
  CHECK(wrong.after_text(failure) == next::control);
  CHECK(wrong.after_control(success) == next::repeat);
  CHECK(wrong.after_text(failure) == next::believe);

  // The fault of the host was over before the control.
  env::compiler_attempts right;
  CHECK(right.after_text(failure) == next::control);
  CHECK(right.after_control(success) == next::repeat);
  CHECK(right.after_text(success) == next::believe);

  // Not within its limits: no host changes that.
  env::compiler_attempts large;
  child_end out_of_memory = failure;
  out_of_memory.out_of_memory = true;
  CHECK(large.after_text(out_of_memory) == next::believe);
}

TEST_CASE("a host is at fault when the control fails, however, and when it kills twice") {
  for (const child_end& end : {failure, kill, end_of(end_kind::timed_out)}) {
    env::compiler_attempts broken;
    CHECK(broken.after_text(failure) == next::control);
    CHECK(broken.after_control(end) == next::blame_host);
  }
  env::compiler_attempts killed;
  CHECK(killed.after_text(kill) == next::repeat);
  CHECK(killed.after_text(kill) == next::blame_host);
  // Between a kill and a failure nothing was learnt of the host.
  env::compiler_attempts both;
  CHECK(both.after_text(kill) == next::repeat);
  CHECK(both.after_text(failure) == next::control);
  CHECK(both.after_control(success) == next::repeat);
  CHECK(both.after_text(kill) == next::blame_host);
}

TEST_CASE("a failure that tells what an earlier one told is the second one") {
  const auto children = make_spawner();
  const auto shell = std::filesystem::canonical("/bin/sh");
  const auto fails = env::tool_spec(shell, {"-c", "exit 1"}, true);
  const auto passes = env::tool_spec(shell, {"-c", "exit 0"}, true);
  int controls = 0;
  // How often the text was compiled; -1: the host is to blame.
  const auto runs_of = [&](bool same, const env::child_spec& control,
                           const child_end& before = failure) {
    controls = 0;
    const auto ran = env::run_compiler(
        *children, fails,
        [&] {
          ++controls;
          return env::run_tool(*children, control);
        },
        env::earlier_failure{before, [&](const env::tool_outcome&) { return same; }});
    return ran ? ran->runs : -1;
  };
  CHECK(runs_of(true, passes) == 1);
  CHECK(controls == 1);
  CHECK(runs_of(false, passes) == 2);
  CHECK(controls == 2);
  // Nothing is known of a text whose compiler was killed.
  CHECK(runs_of(true, passes, kill) == 2);
  CHECK(controls == 1);
  CHECK(runs_of(true, fails) == -1);
}

TEST_CASE("a compiler that fails whatever it is given is an error of this host") {
  const breakable_compiler tool;
  const auto children = make_spawner();
  const auto cache = base::temp_folder::make("quern-cache").value();
  const auto made =
      env::cpp_compiler::create(*children, {.cache_dir = cache.path(), .program = tool.program()});
  REQUIRE_MESSAGE(made.has_value(), (made ? "" : made.error().message));
  const auto compile = [&](const std::string& more) {
    return told((*made)->compile(request(more)));
  };
  tool.break_it();
  for (const char* source : {"int right;", "not C++;"})
    CHECK(compile(source).starts_with("host: unavailable"));
  tool.mend();
  CHECK(compile("int right;") == "built");
  const auto wrong = compile("not C++;");
  CHECK(wrong.starts_with("error: "));
  CHECK(contains(wrong, "kernel.cpp"));
}

TEST_CASE("a full folder for temporary files is an error of this host, with room it is not") {
  const auto right = request("int right;"), wrong = request("not C++;");
  const auto full = [](const std::filesystem::path& folder) { fill(folder, 16 << 10); };
  const auto free_bytes = compiled_in("size=96m", right, full);
  if (!free_bytes) {
    skip("mounting a memory file system: this host does not allow it");
    return;
  }
  CHECK(begins(free_bytes, "host: unavailable"));
  CHECK(begins(compiled_in("size=96m", wrong, full), "host: unavailable"));
  // Room for the control, but not for what a text within its limits may write.
  CHECK(begins(
      compiled_in("size=96m", wrong, [](const auto& folder) { fill(folder, 63 * mebibyte); }),
      "host: unavailable"));
  // Its own folder and three files.
  const auto no_files = compiled_in("size=96m,nr_inodes=5", right);
  CHECK(begins(no_files, "host: unavailable"));
  CHECK(compiled_in("size=96m", right) == "built");
  const auto refused = compiled_in("size=96m", wrong);
  CHECK(begins(refused, "error: "));
  CHECK(contains(refused.value_or(""), "kernel.cpp"));
}

TEST_CASE("a text that fills its own work folder is at fault, however little room it leaves") {
  // Each compilation leaves 14 MiB, and while they are there 58 of the 64 MiB that one may need are
  // free.
  const breakable_compiler tool;
  tool.make_greedy();
  const auto wrong = compiled_in("size=72m", request("not C++;"), {}, tool.program());
  if (!wrong) {
    skip("mounting a memory file system: this host does not allow it");
    return;
  }
  CAPTURE(*wrong);
  CHECK(begins(wrong, "error: "));
  CHECK(contains(*wrong, "kernel.cpp"));
  CHECK(compiled_in("size=72m", request("int right;"), {}, tool.program()) == "built");
  // Above the limit on a file as a shared object, and as an object.
  for (const char* bytes : {"16770000", "60000000"})
    CHECK(begins(
        compiled_in("size=72m", request(fmt::format("asm(\".pushsection .data\\n.fill {}, 1, "
                                                    "7\\n.popsection\");",
                                                    bytes))),
        "error: "));
}

}  // namespace quern::test::full_host
