// The page of a run in headless Chromium; the cases are beside this file, in Python.
#include <cstdlib>

#include "base/subprocess.hpp"
#include "e2e/run_fixture.hpp"
#include "tests/tools/page_fixture.hpp"

using namespace quern;
using namespace quern::test;
using base::operator""_s;
namespace fs = std::filesystem;

namespace {

bool is_on_path(const char* name) {
  return std::system(("command -v " + std::string(name) + " >/dev/null").c_str()) == 0;
}

}  // namespace

TEST_CASE("a browser shows the page of a run, as a file and served, and the comparison of two") {
  if (!is_on_path("chromium") || !is_on_path("chromedriver"))
    return skip("chromium and chromedriver are not installed: tools/setup.sh --browser, on Debian");
  const auto folder = must(base::temp_folder::make());
  make_finished_run(folder.path() / "a");
  actors::run_config other = page_config();
  other.learner.learning_rate = 0.5;
  made_run running(folder.path() / "b", other);
  running.begin();
  running.step(1, 0, 300, hostile_kernel);
  const fs::path log = folder.path() / "log";
  auto child = must(
      base::subprocess::start({.argv = {"/usr/bin/env", "python3",
                                        (source_dir() / "tests/e2e/page_browser_cases.py").string(),
                                        program("quern"), folder.path().string()},
                               .log = log}));
  const auto end = child.wait(240_s);
  CAPTURE(base::read_file(log).value_or(""));
  REQUIRE(end);
  CHECK(end->signal == 0);
  CHECK(end->code == 0);
}
