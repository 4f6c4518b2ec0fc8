// The page of a run: what is read of runs in any state, what stands in it, and that texts of others
// stay texts.
#include "tools/page/page.hpp"

#include <algorithm>

#include "tests/tools/page_fixture.hpp"
#include "tools/page/compare_runs.hpp"
#include "tools/page/run_view.hpp"

using namespace quern;
using namespace quern::test;
using namespace quern::tools;
namespace fs = std::filesystem;

namespace {

struct page_folder {
  base::temp_folder folder = must(base::temp_folder::make());
  [[nodiscard]] fs::path run(const char* name = "run") const { return folder.path() / name; }
};

run_view read_view(const fs::path& root) {
  auto view = must(run_view::open(root));
  view.refresh();
  return view;
}

std::int64_t count_in(std::string_view text, std::string_view part) {
  std::int64_t count = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos;
       at = text.find(part, at + part.size()))
    ++count;
  return count;
}

/// What a browser reads out of the page's data element.
base::json data_in(const std::string& page) {
  const std::string begins = "id=\"data\">";
  const std::size_t begin = page.find(begins) + begins.size();
  return must(base::parse_json(
      std::string_view(page).substr(begin, page.find("</script>", begin) - begin)));
}

}  // namespace

TEST_CASE("the page of a finished run has its curves, tables, kernels, drops and settings") {
  const page_folder f;
  make_finished_run(f.run());
  const run_view view = read_view(f.run());
  const auto data = view.data(false);
  CAPTURE(data.dump(2));
  CHECK(view.problems().empty());
  CHECK(data["run"]["state"] == "complete");
  CHECK(data["run"]["name"] == "run");
  CHECK(data["progress"]["done"] == 6);
  CHECK(data["progress"]["wanted"] == 6);
  CHECK(data["progress"]["checkpoint"] == 6);
  CHECK(data["samples"]["issued"] == 14);
  CHECK(data["samples"]["states"]["trained"] == 12);
  CHECK(data["drops"] == base::ordered_json{{"stopped", 2}});
  CHECK(data["verdicts"] == base::ordered_json{{"ok", 6}, {"wrong_value", 6}});
  CHECK(data["ages"] == base::ordered_json{{"0", 12}});
  CHECK(data["held_back"] == "held back by the generator");
  CHECK(data["report"] == "closing <words>\n");

  CHECK(data["curves"]["x"] == base::ordered_json{1, 2, 3, 4, 5, 6});
  CHECK(data["curves"]["series"]["reward"][1] == 4.5);
  CHECK(data["curves"]["series"]["age_largest"][0] == 1);
  CHECK(data["curves"]["series"]["roles.generator.busy"][5] == 0.5);
  CHECK(data["curves"]["series"]["learner.new_of_a_later_build"][0] == 7);
  CHECK(data["curves"]["verdicts"]["malformed"][0] == 1);
  CHECK(data["speedups"]["median"][1] == 9);

  // Best first, by the chain of operators.
  REQUIRE(data["tasks"].size() == 3);
  const auto& second = page_tasks().tasks()[2];
  CHECK(data["tasks"][0]["chain"] == env::to_text(second.composition));
  CHECK(data["tasks"][0]["family"] == second.task->family);
  CHECK(data["tasks"][0]["best_e2"] == 900);
  CHECK(data["tasks"][0]["judged"] == 4);
  CHECK(data["tasks"][0]["ok"] == 2);
  CHECK(data["tasks"][1]["best_e2"] == 160);
  CHECK(data["tasks"][2]["best_e2"] == 140);
  CHECK(data["families"][0]["best_e2"] == 900);
  REQUIRE(data["kernels"].size() == 3);
  CHECK(data["kernels"][0]["source"] == hostile_kernel);
  CHECK(data["kernels"][0]["verdict"]["verdict"] == "ok");
  CHECK(data["kernels"][0]["problem"] == "");

  const auto& settings = data["settings"];
  const auto steps = std::find_if(settings.begin(), settings.end(),
                                  [](const auto& row) { return row["key"] == "learner.steps"; });
  REQUIRE(steps != settings.end());
  CHECK((*steps)["value"] == "6");
  CHECK((*steps)["default"] == "18");
  CHECK(std::none_of(settings.begin(), settings.end(),
                     [](const auto& row) { return row["key"] == "env.lane"; }));
}

TEST_CASE("texts of others stay texts in the page") {
  const page_folder f;
  make_finished_run(f.run());
  must(write_run_page(f.run(), f.run() / "report.html"));
  const std::string page = must(base::read_file(f.run() / "report.html"));
  // The control: as they are they would end the element.
  CHECK(contains(base::dump(read_view(f.run()).data(false)), "</script><script>window.hacked"));
  CHECK_FALSE(contains(page, "window.hacked = 1</script>"));
  CHECK(count_in(page, "<script") == 2);
  CHECK(count_in(page, "</script") == 2);
  CHECK(count_in(page, "<img") == 0);
  CHECK(count_in(page, "<!--") == 0);
  CHECK(count_in(page, "<b>") == 0);
  // They are all there.
  CHECK(data_in(page)["kernels"][0]["source"] == hostile_kernel);
  CHECK(data_in(page) == base::json(read_view(f.run()).data(false)));
}

TEST_CASE("nothing but the page's own script runs, and nothing is fetched") {
  const page_folder f;
  make_finished_run(f.run());
  auto view = read_view(f.run());
  const std::string nonce = must(fresh_nonce()), json = base::dump(view.data(false)),
                    page = render_page({"t </title>"}, json, nonce);
  CHECK(nonce.size() == 32);
  CHECK(nonce != must(fresh_nonce()));
  CHECK(contains(page, "default-src 'none'; script-src 'nonce-" + nonce + "'"));
  CHECK(contains(page, "connect-src 'none'"));
  CHECK(contains(page, "<script nonce=\"" + nonce + "\">"));
  CHECK(contains(render_page({"t", true}, json, nonce), "connect-src 'self'"));
  CHECK(contains(page, "<title>t &lt;/title></title>"));
  // The only address is the name space of SVG.
  CHECK(count_in(page, "://") == count_in(page, "http://www.w3.org/2000/svg"));
  for (const char* loads : {" src=", "@import", "url(", "innerHTML", "document.write", "eval("})
    CHECK_MESSAGE(count_in(page, loads) - count_in(script_json(json), loads) == 0, loads);
}

TEST_CASE("a run that goes on is read without its lock, and again as it grows") {
  const page_folder f;
  made_run run(f.run());
  run.begin();
  run.step(1, 0, 120);
  auto view = read_view(f.run());
  CHECK(view.state() == run_state::running);
  CHECK(view.data(true)["samples"]["states"]["consumed"] == 2);
  const auto before = view.revision();
  view.refresh();
  CHECK(view.revision() == before);
  run.step(2, 1, 240);
  run.append("{\"step\": 3, \"batch\"");  // torn: the rest comes later
  view.refresh();
  CHECK(view.revision() > before);
  CHECK(view.data(true)["progress"]["done"] == 2);
  CHECK(view.data(true)["kernels"].size() == 2);
  CHECK(view.problems().empty());
  run.append(": {\"samples\": 1, \"rewarded\": 1, \"reward\": 2.0, \"verdicts\": {\"ok\": 1}}}\n");
  view.refresh();
  CHECK(view.data(true)["curves"]["series"]["reward"][2] == 2);
  // Samples go back when the run goes on from an earlier checkpoint.
  run.checkpoint(1);
  must(run.book().open_incarnation({"resume", 1, {}}));
  must(run.book().commit());
  view.refresh();
  CHECK(view.data(true)["samples"]["states"] ==
        base::ordered_json{{"admitted", 2}, {"trained", 2}});
  CHECK(must(run_view::open(f.run(), lock_holder::this_process)).state() == run_state::paused);
}

TEST_CASE("a run that was paused says so") {
  const page_folder f;
  {
    made_run run(f.run());
    run.begin();
    run.step(1, 0, 120);
    run.issue(1);
    run.checkpoint(1);
    run.close();
  }
  const auto data = read_view(f.run()).data(false);
  CHECK(data["run"]["state"] == "paused");
  CHECK(data["samples"]["states"] == base::ordered_json{{"issued", 2}, {"trained", 2}});
  CHECK(data["problems"].empty());
}

TEST_CASE("a run that was ended before its first sample is a page, too") {
  const page_folder f;
  made_run(f.run()).close();
  const auto data = read_view(f.run()).data(false);
  CHECK(data["run"]["state"] == "paused");
  CHECK(data["samples"]["issued"] == 0);
  CHECK(data["curves"]["x"].empty());
  CHECK(data["problems"].empty());
  must(write_run_page(f.run(), f.run() / "page.html"));
  CHECK(data_in(must(base::read_file(f.run() / "page.html")))["kind"] == "run");
}

TEST_CASE("of a broken run the page has what can be read, and says what cannot") {
  const page_folder f;
  make_finished_run(f.run());
  const auto broken = [&](const char* file, const std::string& text) {
    must(base::write_file_atomic(f.run() / file, text));
    const auto data = read_view(f.run()).data(false);
    must(write_run_page(f.run(), f.run() / "report.html"));
    return data;
  };
  const std::string metrics = must(base::read_file(f.run() / "metrics.jsonl"));
  auto data = broken("metrics.jsonl", "{\"step\": 1, \"ba\n[]\n7\n{\"step\":\"x\"}\n" + metrics);
  CHECK(data["problems"].size() == 1);
  CHECK(contains(data["problems"][0].get<std::string>(), "1 damaged lines are left out"));
  CHECK(data["curves"]["x"].size() == 6);

  const std::string rows = must(base::read_file(f.run() / "run.db"));
  data = broken("run.db", "not a database, however long it may be" + std::string(4096, 'x'));
  CHECK(data["problems"].size() == 2);
  CHECK(data["curves"]["x"].size() == 6);
  CHECK(data["tasks"].empty());
  fs::remove(f.run() / "run.db");
  CHECK(contains(read_view(f.run()).problems()[0], "is missing or empty"));
  must(base::write_file_atomic(f.run() / "run.db", rows));

  fs::remove_all(f.run() / "blobs");
  data = broken("metrics.jsonl", metrics);
  CHECK(data["problems"].empty());
  CHECK(data["kernels"][0]["source"] == "");
  CHECK(data["kernels"][0]["problem"] != "");

  data = broken("config.yaml", "quern_config: 2\nno_such_key: 1\n");
  CHECK(contains(data["problems"][0].get<std::string>(), "no_such_key"));
  CHECK(data["settings"].empty());
  // Without the tasks of the configuration the name in the id is left.
  CHECK(data["tasks"][0]["chain"] == page_tasks().tasks()[2].task->name);

  must(base::write_file_atomic(f.run() / "meta.json", R"({"quern_run": 1, "stage": 5})"));
  CHECK(read_view(f.run()).data(false)["run"]["stage"] == "");
  must(base::write_file_atomic(f.run() / "meta.json", R"({"quern_run": 9})"));
  CHECK_FALSE(run_view::open(f.run()));
  CHECK_FALSE(run_view::open(f.folder.path()));
}

TEST_CASE("steps that metrics.jsonl lacks are told, and damage nothing of the rest") {
  const page_folder f;
  make_finished_run(f.run());
  const fs::path metrics = f.run() / "metrics.jsonl";
  const std::string whole = must(base::read_file(metrics));
  CHECK(read_view(f.run()).problems().empty());
  std::string lacks;
  SUBCASE("missing") {
    fs::remove(metrics);
    lacks = " lacks steps 1-6: 6 of the 6 steps";
  }
  SUBCASE("cut") {
    must(base::write_file_atomic(metrics, whole.substr(0, whole.find("{\"step\":4,") + 30)));
    lacks = " lacks steps 4-6: 3 of the 6 steps";
  }
  const auto view = read_view(f.run());
  CHECK(view.damage().empty());
  REQUIRE(view.problems().size() == 1);
  CHECK(contains(view.problems()[0], metrics.string() + lacks));
}

TEST_CASE("fine-tuning and search have pages of what they write") {
  const page_folder f;
  {
    actors::run_config config = page_config();
    config.stage = "sft";
    made_run run(f.run("sft"), config);
    run.append(R"({"step":3,"seconds":1.0,"learner":{"loss":2.5}})"
               "\n");
    run.append(R"({"step":6,"seconds":2.0,"learner":{"loss":1.5}})"
               "\n");
    run.close();
  }
  auto data = read_view(f.run("sft")).data(false);
  CAPTURE(data.dump(2));
  CHECK(data["problems"].empty());
  CHECK(data["run"]["state"] == "complete");
  CHECK(data["curves"]["series"]["learner.loss"][0] == 2.5);
  {
    actors::run_config config = page_config();
    config.stage = "search";
    config.run.budget_evaluations = 32;
    made_run run(f.run("search"), config);
    run.append(R"({"spent":16,"budget":32,"verdicts":{"ok":4,"oom":12},"ok":0.25,"reward":0.3})"
               "\n");
    run.close();
  }
  data = read_view(f.run("search")).data(false);
  CHECK(data["run"]["state"] == "paused");
  CHECK(data["progress"]["done"] == 16);
  CHECK(data["progress"]["wanted"] == 32);
  CHECK(data["progress"]["unit"] == "evaluation");
  CHECK(data["curves"]["verdicts"]["oom"] == base::ordered_json{12});
}

TEST_CASE("runs are compared by their figures, their curves and the keys that differ") {
  const page_folder f;
  make_finished_run(f.run("a"));
  actors::run_config other = page_config();
  other.learner.learning_rate = 0.5;
  made_run running(f.run("b"), other);
  running.begin();
  running.step(1, 0, 300);
  made_run(f.run("c")).close();
  const run_view a = read_view(f.run("a")), b = read_view(f.run("b")), c = read_view(f.run("c"));
  const std::vector<compared_run> runs = {{"a", &a}, {"b", &b}, {"c\x1b[1m", &c}};
  const auto figures = compared_figures(runs);
  const auto row = [&](const std::string& name) {
    for (const compared_row& one : figures)
      if (one.name == name) return one.values;
    return std::vector<std::string>{"no such row"};
  };
  CHECK(row("state") == std::vector<std::string>{"complete", "running", "paused"});
  CHECK(row("steps") == std::vector<std::string>{"6 of 6", "1 of 6", "0 of 6"});
  CHECK(row("best speed-up") == std::vector<std::string>{"9 x", "3 x", ""});
  CHECK(row("mean reward, first tenth of the steps") ==
        std::vector<std::string>{"0.55", "1.5", ""});
  CHECK(row("median speed-up of right kernels, last tenth") ==
        std::vector<std::string>{"1.6 x", "3 x", ""});
  const auto settings = compared_settings(runs);
  REQUIRE(settings.size() == 1);
  CHECK(settings[0].name == "learner.learning_rate");
  CHECK(settings[0].values == std::vector<std::string>{"7e-05", "0.5", "7e-05"});
  const auto curve = compared_curve(runs, "reward");
  REQUIRE(curve.size() == 6);
  CHECK(curve[1].name == "2 .. 2");
  CHECK(curve[1].values == std::vector<std::string>{"4.5", "", ""});
  const std::string text = compare_text(runs);
  CAPTURE(text);
  CHECK(contains(text, "learner.learning_rate"));
  CHECK_FALSE(contains(text, "\x1b"));
  const auto json = compare_json(runs);
  CHECK(json["runs"].size() == 3);
  CHECK(json["settings"][0]["values"][1] == "0.5");
  const std::vector<compared_run> same = {{"a", &a}, {"c", &c}};
  CHECK(compared_settings(same).empty());
  CHECK(contains(compare_text(same), "all have the same configuration"));
}
