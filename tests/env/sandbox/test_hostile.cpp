// The hostile candidates of tests/hostile/cpp against screen, compiler and a bare sandboxed child.
// The whole pipeline's verdicts on them are tested with the evaluator.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "attempt_trace.hpp"
#include "base/json.hpp"
#include "env/lanes/cpp/build/cpp_compiler.hpp"
#include "env/lanes/cpp/screen/cpp_screen.hpp"
#include "sandbox_fixture.hpp"

using namespace quern;
using namespace quern::test;
using end_kind = env::child_end::kind;

namespace {

const std::filesystem::path& folder() {
  static const auto path = source_dir() / "tests/hostile/cpp";
  return path;
}

const base::json& manifest() {
  static const base::json value = [] {
    const auto text = base::read_file(folder() / "manifest.json");
    REQUIRE(text.has_value());
    auto parsed = base::parse_json(*text);
    REQUIRE_MESSAGE(parsed.has_value(), (parsed ? "" : parsed.error().message));
    return *parsed;
  }();
  return value;
}

#if defined(__x86_64__)
const std::string architecture = "x86_64";
#else
const std::string architecture = "other";
#endif

struct candidate {
  std::string file, child, source;     // child: empty for one with a task of its own
  std::string attempt;                 // the system call of an attack on the host
  std::vector<std::string> hidden_by;  // layers that keep a file of the host from it
  bool rejected = false;
};

std::vector<candidate> candidates_here() {
  std::vector<candidate> all;
  for (const auto& item : manifest()["candidates"]) {
    candidate one;
    one.file = item["file"];
    if (item.value("only", architecture) != architecture) {
      skip(one.file + " is for another architecture");
      continue;
    }
    one.child = item.value("child", "");
    one.attempt = item.value("attempt", "");
    one.hidden_by = item.value("hidden_by", std::vector<std::string>{});
    one.rejected = item["screen_on"] == "rejected_static";
    const auto text = base::read_file(folder() / one.file);
    REQUIRE_MESSAGE(text.has_value(), one.file);
    one.source = *text;
    all.push_back(std::move(one));
  }
  return all;
}

// How the child that called a candidate ended, in the manifest's words.
std::string word_for(const env::child_end& end) {
  if (end.out_of_memory) return "out_of_memory";
  if (end.ending == end_kind::timed_out) return "timed_out";
  if (end.ending == end_kind::signalled) {
    const char* name = sigabbrev_np(end.code);
    return "SIG" + std::string(name != nullptr ? name : "?");
  }
  return end.code == 0 ? "right" : end.code == 1 ? "wrong" : "exit " + std::to_string(end.code);
}

const std::string hostile_prototype =
    "extern \"C\" void kernel(const float* x, float* y, int64_t n, void* workspace, void* "
    "stream);\nextern \"C\" int64_t workspace_bytes(int64_t n);\n";

env::cpp_compile_request request_for(const candidate& item) {
  env::cpp_compile_request request;
  request.source = item.source;
  request.prototype = hostile_prototype;
  // A busy machine takes its time for those that end.
  request.wall_s = item.child == "compile_limit" ? 4 : 30;
  return request;
}

std::vector<env::cpp_compile_request> requests_for(const std::vector<candidate>& candidates) {
  std::vector<env::cpp_compile_request> requests;
  for (const auto& item : candidates)
    if (!item.child.empty()) requests.push_back(request_for(item));
  return requests;
}

/// The artefacts of all cases: none compiles what another one has compiled.
const std::filesystem::path& artefacts() {
  static const auto made = base::temp_folder::make("quern-cache").value();
  return made.path();
}

/// Compiles a candidate and calls it in a child that nothing guards but these layers: how it ended.
std::string call_in(env::spawner& children, env::cpp_compiler& compiler, const candidate& item) {
  auto built = compiler.compile(request_for(item));
  REQUIRE_MESSAGE(built.has_value(), (built ? "" : built.error().message));
  if (built->outcome == env::compile_result::kind::timeout) return "compile_timeout";
  if (built->outcome == env::compile_result::kind::error) {
    CHECK(built->text.find("root:") == std::string::npos);
    return "compile_error";
  }
  auto spec = deed("call", built->artefact.string());
  spec.read_only.push_back(built->artefact.string());
  spec.limits.cpu_s = 1;
  spec.limits.work_bytes = 0;
  return word_for(run(children, spec).end);
}

bool contains_name(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// All layers but those of these names.
env::layer_set all_but(const std::vector<std::string>& names) {
  auto layers = env::layer_set::all();
  for (int i = 0; i < env::layer_count; ++i)
    if (const auto one = static_cast<env::layer>(i); contains_name(names, env::name_of(one)))
      layers.remove(one);
  return layers;
}

/// Whether compiling it without these layers shows what a file of the host holds.
bool is_compiled_in(const candidate& item, const std::vector<std::string>& without) {
  auto children = make_spawner(all_but(without));
  // Its own: what was built here must not be taken for what the whole sandbox builds.
  const auto cache = base::temp_folder::make("quern-cache").value();
  auto compiler = env::cpp_compiler::create(*children, {.cache_dir = cache.path()});
  REQUIRE_MESSAGE(compiler.has_value(), (compiler ? "" : compiler.error().message));
  const auto built = (*compiler)->compile(request_for(item));
  REQUIRE_MESSAGE(built.has_value(), (built ? "" : built.error().message));
  return built->outcome == env::compile_result::kind::built || contains(built->text, "root:");
}

/// How it ends in a child without these layers, who is another user and finds it by its path.
std::string called_without(const candidate& item, env::cpp_compiler& compiler,
                           const std::vector<std::string>& without) {
  auto children = make_spawner(all_but(without));
  const auto built = compiler.compile(request_for(item));
  REQUIRE_MESSAGE(built.has_value(), (built ? "" : built.error().message));
  const auto folder_of_all = base::temp_folder::make("quern-artefact").value();
  const auto copy = folder_of_all.path() / "candidate.so";
  std::filesystem::copy_file(built->artefact, copy);
  using std::filesystem::perms;
  constexpr auto everybody = perms::owner_all | perms::group_read | perms::group_exec |
                             perms::others_read | perms::others_exec;
  for (const auto& path : {folder_of_all.path(), copy})
    std::filesystem::permissions(path, everybody);
  auto spec = deed("call", copy.string());
  spec.read_only.push_back(copy.string());
  spec.limits.work_bytes = 0;
  return word_for(run(*children, spec).end);
}

}  // namespace

TEST_CASE("every file of the folder is in the manifest, and every line of it is a file") {
  std::set<std::string> named;
  for (const auto& item : manifest()["candidates"])
    named.insert(item["file"]);
  std::set<std::string> there;
  for (const auto& item : std::filesystem::directory_iterator(folder()))
    if (item.path().extension() == ".cpp") there.insert(item.path().filename().string());
  CHECK(named == there);
}

TEST_CASE("the screen rejects what the manifest says and nothing else") {
  for (const auto& item : candidates_here()) {
    CAPTURE(item.file);
    const auto found = env::screen_cpp(item.source);
    CAPTURE((found ? found->text : "passed"));
    CHECK(found.has_value() == item.rejected);
  }
}

TEST_CASE("without the screen the sandbox alone holds them, and the next one never notices") {
  using env::layer;
  if (!host_has({layer::seccomp, layer::rlimits, layer::mountns}, "hostile candidates")) return;
  auto children = make_spawner();
  const bool groups =
      children->layers().has(layer::cgroup1) || children->layers().has(layer::cgroup2);
  auto compiler = env::cpp_compiler::create(*children, {.cache_dir = artefacts()});
  REQUIRE_MESSAGE(compiler.has_value(), (compiler ? "" : compiler.error().message));

  const auto call = [&](const candidate& item) { return call_in(*children, **compiler, item); };

  const auto all = candidates_here();
  compile_all(**compiler, requests_for(all));
  const candidate& honest = all.front();
  REQUIRE(honest.file == "honest.cpp");
  for (const auto& item : all) {
    if (item.child.empty()) continue;
    CAPTURE(item.file);
    const std::string got = call(item);
    if (item.child == "any" || (item.child == "out_of_memory" && !groups)) {
      CHECK_FALSE(got.empty());
    } else if (item.child == "compile_limit") {
      CHECK((got == "compile_timeout" || got == "compile_error"));
    } else if (item.child == "exit 0") {
      CHECK(got == "right");  // a bare parent cannot tell; the evaluator misses the answer
    } else {
      CHECK(got == item.child);
    }
    CHECK(call(honest) == "right");
  }
  CHECK(deeds_still_running().empty());
  CHECK(control_groups_left().empty());
  for (const auto& path : manifest()["must_not_exist"])
    CHECK_FALSE(std::filesystem::exists(std::string(path)));
}

TEST_CASE(
    "attacks on the host are made where namespaces alone hold them, and not behind the sandbox") {
  using env::layer;
  if (!host_has({layer::pidns, layer::netns, layer::ipcns, layer::mountns, layer::foreign_uid,
                 layer::seccomp},
                "attempts of hostile candidates"))
    return;
  if (geteuid() != 0) {
    skip("tracing a child that is another user needs root");
    return;
  }
  auto guarded = make_spawner();
  auto children = make_spawner(all_but({"seccomp"}));
  auto compiler = env::cpp_compiler::create(*guarded, {.cache_dir = artefacts()});
  REQUIRE_MESSAGE(compiler.has_value(), (compiler ? "" : compiler.error().message));
  auto all = candidates_here();
  std::erase_if(all, [](const candidate& item) { return item.attempt.empty(); });
  CHECK(all.size() >= 11);
  compile_all(**compiler, requests_for(all));
  // One more than itself: enough to see that processes are started.
  constexpr int processes = 2;
  for (const auto& item : all) {
    CAPTURE(item.file);
    const auto built = (*compiler)->compile(request_for(item));
    REQUIRE_MESSAGE(built.has_value(), (built ? "" : built.error().message));
    REQUIRE_MESSAGE(built->outcome == env::compile_result::kind::built, built->text);
    const auto trace = [&](env::spawner& in) {
      auto seen = trace_deed(in, "call", built->artefact.string(), env::syscall_profile::candidate,
                             processes);
      REQUIRE_MESSAGE(seen.problem.empty(), seen.problem);
      return seen;
    };
    const auto open = trace(*children);
    CHECK_MESSAGE(was_tried(open, item.attempt), item.attempt,
                  " was not seen; at the end: ", open.last_call);
    const auto held = trace(*guarded);
    CHECK_MESSAGE(!was_made(held, item.attempt), item.attempt, " was made in spite of the sandbox");
  }
  CHECK(deeds_still_running().empty());
  for (const auto& path : manifest()["must_not_exist"])
    CHECK_FALSE(std::filesystem::exists(std::string(path)));
}

TEST_CASE("files of the host are read without the layers that hide them") {
  using env::layer;
  if (!host_has({layer::mountns, layer::landlock, layer::foreign_uid}, "files of the host")) return;
  if (geteuid() != 0) {
    skip("reading what belongs to root needs root");
    return;
  }
  auto guarded = make_spawner();
  auto compiler = env::cpp_compiler::create(*guarded, {.cache_dir = artefacts()});
  REQUIRE_MESSAGE(compiler.has_value(), (compiler ? "" : compiler.error().message));
  int seen = 0;
  for (const auto& item : candidates_here()) {
    if (item.hidden_by.empty()) continue;
    CAPTURE(item.file);
    ++seen;
    if (item.child == "compile_error") {
      CHECK(is_compiled_in(item, item.hidden_by));
      continue;
    }
    CHECK(called_without(item, **compiler, item.hidden_by) == "right");
    // Each layer alone hides it.
    for (const auto& kept : item.hidden_by) {
      CAPTURE(kept);
      auto others = item.hidden_by;
      std::erase(others, kept);
      CHECK(called_without(item, **compiler, others) == item.child);
    }
  }
  CHECK(seen >= 3);
}
