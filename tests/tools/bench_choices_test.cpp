// What `quern bench` works on: suites by their names, GPUs that compute.
#include "base/file.hpp"
#include "tools/bench/choices.hpp"
#include "tools/bench_support.hpp"

using namespace quern;

namespace {

env::gpu_host host_with(std::initializer_list<const char*> problems) {
  env::gpu_host host;
  for (const char* problem : problems) {
    host.gpus.emplace_back();
    host.gpus.back().problem = problem;
  }
  return host;
}

}  // namespace

TEST_CASE("without --gpus all that compute are chosen, and the others told with the reason") {
  const auto chosen = tools::choose_gpus(host_with({"", "out of memory", "", "XID 79"}), {});
  REQUIRE(chosen.has_value());
  CHECK(chosen->gpus == std::vector<int>{0, 2});
  CHECK(chosen->left_out ==
        std::vector<std::string>{"GPU 1 is left out, since it does not compute: out of memory",
                                 "GPU 3 is left out, since it does not compute: XID 79"});
  const auto all = tools::choose_gpus(host_with({"", ""}), {});
  REQUIRE(all.has_value());
  CHECK(all->gpus == std::vector<int>{0, 1});
  CHECK(all->left_out.empty());
}

TEST_CASE("GPUs that were named are those, or the reason why not") {
  const auto host = host_with({"", "out of memory", ""});
  const auto chosen = tools::choose_gpus(host, {2, 0, 2});
  REQUIRE(chosen.has_value());
  CHECK(chosen->gpus == std::vector<int>{0, 2});
  // Nobody asked for the broken one.
  CHECK(chosen->left_out.empty());
  CHECK(tools::choose_gpus(host, {0, 1}).error().message ==
        "GPU 1 does not compute: out of memory");
  CHECK(tools::choose_gpus(host, {0, 1}).error().code == base::errc::unavailable);
  CHECK(tools::choose_gpus(host, {0, 3}).error().message ==
        "--gpus names 3, this machine has 3 GPUs");
  CHECK(tools::choose_gpus(host, {3}).error().code == base::errc::invalid_argument);
}

TEST_CASE("where no GPU computes, every reason is told") {
  const auto none = tools::choose_gpus(host_with({"out of memory", "XID 79"}), {});
  REQUIRE_FALSE(none.has_value());
  CHECK(none.error().code == base::errc::unavailable);
  CHECK(test::contains(none.error().message, "no GPU computes: GPU 0"));
  CHECK(test::contains(none.error().message, "out of memory"));
  CHECK(test::contains(none.error().message, "XID 79; quern doctor tells more"));
}

TEST_CASE("a suite is a folder or one that is shipped; else the shipped ones are named") {
  const std::filesystem::path shipped = test::source_dir() / "env/suites";
  const auto by_name = tools::find_suite("cpu_quick", shipped);
  REQUIRE_MESSAGE(by_name.has_value(), by_name.error().message);
  CHECK(by_name->name == "cpu_quick");
  const auto by_path = tools::find_suite((shipped / "cpu_quick").string(), shipped);
  REQUIRE_MESSAGE(by_path.has_value(), by_path.error().message);
  CHECK(tools::suite_hash(*by_path) == tools::suite_hash(*by_name));
  for (const char* name : {"nosuch", "/nosuch/cpu", "..", "cpu_quic"}) {
    CAPTURE(name);
    const auto none = tools::find_suite(name, shipped);
    REQUIRE_FALSE(none.has_value());
    // A folder without a suite has its own words.
    if (std::string(name) == "..") continue;
    CHECK(none.error().code == base::errc::not_found);
    CHECK(test::contains(none.error().message, name));
    CHECK(test::contains(none.error().message, "shipped are cpu, cpu_quick, cuda, cuda_quick"));
  }
  CHECK(test::contains(tools::find_suite("cpu_quic", shipped).error().message,
                       "did you mean 'cpu_quick'?"));
  const base::expected<std::filesystem::path> lost =
      base::fail(base::errc::not_found, "nothing in share");
  CHECK(test::contains(tools::find_suite("nosuch", lost).error().message, "nothing in share"));
}

TEST_CASE("tasks that are named are degenerate for a report, and no other task") {
  const env::suite& suite = test::quick_suite();
  const auto marked = tools::with_degenerate(suite, {"tanh_transpose", "abs_smooth_shift"});
  REQUIRE(marked.has_value());
  for (std::size_t i = 0; i < suite.members.size(); ++i) {
    const std::string& name = suite.members[i].task.name;
    CHECK(marked->members[i].task.degenerate ==
          (name == "tanh_transpose" || name == "abs_smooth_shift"));
    CHECK(marked->members[i].id == suite.members[i].id);
  }
  const auto unknown = tools::with_degenerate(suite, {"tanh_transpos"});
  REQUIRE_FALSE(unknown.has_value());
  CHECK(
      test::contains(unknown.error().message, "'tanh_transpos' (did you mean 'tanh_transpose'?)"));
}
