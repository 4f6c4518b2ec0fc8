// Recorded completions: what a file may hold, which of them a sample gets, and that a run which is
// resumed plays the same.
#include <algorithm>
#include <map>
#include <set>

#include "actors/orchestrator/recorded_book.hpp"
#include "base/file.hpp"
#include "tests/actors/orchestrator/orchestrator_world.hpp"

using namespace quern;
using namespace quern::actors;
using test::contains;
using test::fixture;
using test::world;

namespace {

std::string problem(std::string_view text, const recorded_limits& limits = {}) {
  const auto read = parse_recorded(text, limits);
  if (read) return "";
  CHECK(read.error().code == base::errc::invalid_argument);
  return read.error().message;
}

std::string line_of(const char* key, const std::string& whose, const std::string& text) {
  return base::dump(base::json{{key, whose}, {"completion", text}}) + "\n";
}

/// `count` completions of each task, by name and by id in turn.
std::string file_for(const std::vector<book_task>& tasks, int count) {
  std::string text;
  for (const book_task& task : tasks)
    for (int k = 0; k < count; ++k)
      text += line_of("task", k % 2 == 0 ? task.task->name : task.id,
                      task.task->name + " " + std::to_string(k));
  return text;
}

recorded_book book_of(const std::string& text, const std::vector<book_task>& tasks,
                      std::uint64_t seed = 1) {
  auto lines = parse_recorded(text);
  REQUIRE_MESSAGE(lines, (lines ? "" : lines.error().message));
  auto book = recorded_book::make(std::move(*lines), tasks, seed);
  REQUIRE_MESSAGE(book, (book ? "" : book.error().message));
  return std::move(*book);
}

std::vector<std::string> all_of(const recorded_book& book, const std::string& task, group_id group,
                                std::size_t members, std::string_view prompt = "p") {
  std::vector<std::size_t> places(members);
  for (std::size_t k = 0; k < members; ++k)
    places[k] = k;
  auto chosen = book.choose({task, prompt, group}, places);
  REQUIRE_MESSAGE(chosen, (chosen ? "" : chosen.error().message));
  return *chosen;
}

}  // namespace

TEST_CASE("lines of a recorded file") {
  const std::string hash = base::to_hex(base::xxh128("the prompt"));
  const auto read =
      parse_recorded(line_of("task", "softmax", "a\nb") + "\n  \r\n" +
                     line_of("prompt", hash, "c") + R"({"completion": "d", "task": "softmax@00"})");
  REQUIRE(read);
  REQUIRE(read->size() == 3);
  CHECK((*read)[0].task == "softmax");
  CHECK((*read)[0].text == "a\nb");
  CHECK_FALSE((*read)[0].prompt);
  CHECK((*read)[1].prompt == base::xxh128("the prompt"));
  CHECK((*read)[1].task.empty());
  CHECK((*read)[1].line == 4);
  CHECK((*read)[2].task == "softmax@00");
  CHECK((*read)[2].line == 5);
}

TEST_CASE("a bad line is refused with its number, what is wrong and what to write") {
  const std::string good = line_of("task", "t", "x");
  const std::pair<std::string, const char*> bad[] = {
      {"{\"task\": \"t\"", "not JSON"},
      {"[]", "not an object"},
      {"3", "not an object"},
      {R"({"task": "t", "completion": "x", "reward": 1})", "unknown key 'reward'"},
      {R"({"task": 3, "completion": "x"})", "'task' is a number, but must be a text"},
      {R"({"task": "t", "completion": {"a": {}}})", "JSON nests deeper than 2 levels"},
      {R"({"task": "t", "prompt": "00", "completion": "x"})", "both 'task' and 'prompt'"},
      {R"({"completion": "x"})", "neither 'task' nor 'prompt'"},
      {R"({"task": "", "completion": "x"})", "'task' is empty"},
      {R"({"task": "t", "completion": ""})", "'completion' is empty: leave the line out"},
      {R"({"task": "t"})", "completion"},
      {R"({"prompt": "xyz", "completion": "x"})", "'prompt' is the xxh128 of a prompt"},
      {"{\"task\": \"t\", \"completion\": \"\xff\"}", "not JSON"},
  };
  for (const auto& [line, part] : bad) {
    CAPTURE(line);
    const std::string said = problem(good + "\n" + line + "\n" + good);
    CAPTURE(said);
    CHECK(contains(said, "line 3: "));
    CHECK(contains(said, part));
  }
  for (const char* empty : {"", "\n \n"})
    CHECK(contains(problem(empty), "no completion in it: write a line {\"task\": NAME"));
}

TEST_CASE("the bounds of a recorded file are inclusive, and named") {
  const std::string good = line_of("task", "t", "x");
  recorded_limits limits;
  limits.line_bytes = good.size() - 1;  // without its end
  limits.completions = 2;
  limits.bytes = 2 * good.size();
  CHECK(problem(good + good, limits).empty());
  limits.bytes -= 1;
  CHECK(contains(problem(good + good, limits), "at most " + std::to_string(limits.bytes)));
  limits = {};
  limits.line_bytes = good.size() - 2;
  CHECK(contains(problem(good, limits),
                 "line 1 has " + std::to_string(good.size() - 1) + " bytes, the limit is"));
  limits = {};
  limits.completions = 2;
  CHECK(contains(problem(good + good + good, limits), "line 3 is one completion more than"));
}

TEST_CASE("members of a group take distinct completions as long as there are enough") {
  fixture f;
  const auto& tasks = f.tasks->tasks();
  const recorded_book book = book_of(file_for(tasks, 5), tasks);
  std::set<std::vector<std::string>> orders;
  std::map<std::string, int> taken;
  for (group_id group = 1; group <= 60; ++group) {
    const auto some = all_of(book, tasks[0].id, group, 4);
    CHECK(std::set<std::string>(some.begin(), some.end()).size() == 4);
    for (const std::string& text : some) {
      CHECK(text.starts_with(tasks[0].task->name + " "));
      ++taken[text];
    }
    orders.insert(some);
    // Beyond: each round is one of all.
    const auto many = all_of(book, tasks[0].id, group, 13);
    CHECK(std::equal(some.begin(), some.end(), many.begin()));
    for (std::size_t round = 0; round < 2; ++round) {
      const auto begin = many.begin() + static_cast<std::ptrdiff_t>(5 * round);
      CHECK(std::set<std::string>(begin, begin + 5).size() == 5);
    }
  }
  // Of 120 orders of 4 out of 5.
  CHECK(orders.size() > 30);
  REQUIRE(taken.size() == 5);
  // Each of 240 draws is one of five: 48 of each expected, with a deviation of 3 or so.
  for (const auto& [text, count] : taken)
    CHECK(std::abs(count - 48) < 16);
}

TEST_CASE("the choice is addressed by seed, group and place, and by nothing else") {
  fixture f;
  const auto& tasks = f.tasks->tasks();
  const std::string file = file_for(tasks, 6);
  const recorded_book one = book_of(file, tasks, 7), same = book_of(file, tasks, 7),
                      other = book_of(file, tasks, 8);
  int differ = 0;
  for (group_id group = 1; group <= 20; ++group) {
    const auto whole = all_of(one, tasks[1].id, group, 4);
    CHECK(all_of(same, tasks[1].id, group, 4) == whole);
    differ += all_of(other, tasks[1].id, group, 4) != whole ? 1 : 0;
    // A part of the group, as after the death of a generator.
    const std::size_t places[] = {3, 1};
    const auto part = same.choose({tasks[1].id, "p", group}, places);
    REQUIRE(part);
    CHECK(*part == std::vector<std::string>{whole[3], whole[1]});
  }
  CHECK(differ > 15);
}

TEST_CASE("completions of the prompt come first, then those of the task") {
  fixture f;
  const auto& tasks = f.tasks->tasks();
  const std::string& id = tasks[0].id;
  const std::string hash = base::to_hex(base::xxh128("asked so"));
  const recorded_book book =
      book_of(line_of("task", id, "by task") + line_of("task", id, "twice") +
                  line_of("task", tasks[0].task->name, "twice") +
                  line_of("prompt", hash, "by prompt") + line_of("task", "of_another_run", "never"),
              tasks);
  CHECK(all_of(book, id, 1, 1, "asked so") == std::vector<std::string>{"by prompt"});
  CHECK(all_of(book, id, 1, 3, "asked so") ==
        std::vector<std::string>{"by prompt", "by prompt", "by prompt"});
  const auto by_task = all_of(book, id, 1, 2, "asked otherwise");
  CHECK(std::set<std::string>(by_task.begin(), by_task.end()) ==
        std::set<std::string>{"by task", "twice"});
  CHECK(all_of(book, "unknown", 1, 1, "asked so").front() == "by prompt");
  CHECK(book.of_other_tasks() == 1);
  CHECK(book.playable().size() == 3);
  const std::size_t first[] = {0};
  const auto none = book.choose({tasks[1].id, "asked otherwise", 9}, first);
  REQUIRE_FALSE(none);
  CHECK(none.error().code == base::errc::not_found);
  for (const std::string& part :
       {std::string("group 9"), tasks[1].id, base::to_hex(base::xxh128("asked otherwise"))})
    CHECK(contains(none.error().message, part));
}

TEST_CASE("a name of several tasks is refused with their ids; held-out tasks play nothing") {
  fixture f;
  std::vector<book_task> tasks = f.tasks->tasks();
  tasks[2].held_out = true;
  CHECK(book_of(file_for(tasks, 1), tasks).of_other_tasks() == 1);
  tasks[1].task = tasks[0].task;
  auto lines = parse_recorded(file_for({tasks[0]}, 1));
  REQUIRE(lines);
  const auto refused = recorded_book::make(std::move(*lines), tasks, 1);
  REQUIRE_FALSE(refused);
  for (const std::string& part :
       {std::string("line 1: '"), tasks[0].id, tasks[1].id, std::string("write the full id")})
    CHECK(contains(refused.error().message, part));
}

namespace {

/// A run that plays a file.
struct playing : fixture {
  std::filesystem::path file = folder.path() / "recorded.jsonl";
  playing() {
    config.policy.engine = "recorded";
    config.policy.recorded = file.string();
    write(file_for(tasks->tasks(), 6));
  }
  void write(const std::string& text) const { REQUIRE(base::write_file_atomic(file, text)); }

  /// What each sample was told to play, over all of its orders: which are never at odds.
  using played = std::map<sample_id, std::string>;
  static void keep(world& w, played& all) {
    w.on_order = [&all](const generate_group& order) {
      REQUIRE(order.recorded.size() == order.samples.size());
      for (std::size_t i = 0; i < order.samples.size(); ++i) {
        const auto [known, fresh] = all.emplace(order.samples[i], order.recorded[i]);
        CHECK((fresh || known->second == order.recorded[i]));
      }
    };
  }
};

}  // namespace

TEST_CASE("a run orders what is recorded; one that dies and is resumed orders the same") {
  playing f;
  f.config.learner.steps = 6;
  playing::played straight, killed;
  world whole(f.config, *f.tasks, f.folder.path() / "whole", true, 3);
  playing::keep(whole, straight);
  REQUIRE(whole.go());
  const auto root = f.folder.path() / "killed";
  for (int life = 0;; ++life) {
    REQUIRE(life < 50);
    world w(f.config, *f.tasks, root, life == 0, 100 + static_cast<std::uint64_t>(life));
    playing::keep(w, killed);
    // The file that it began with is what counts.
    f.write(line_of("task", "another", "x"));
    if (w.go(life < 4 ? 3 + life : 5000)) break;
  }
  int compared = 0;
  for (const auto& [sample, text] : straight) {
    const auto again = killed.find(sample);
    if (again == killed.end()) continue;
    CHECK(again->second == text);
    ++compared;
  }
  CHECK(compared >= 6 * 2 * 4);
}

TEST_CASE("samples of a lost generator are made again from the same texts") {
  playing f;
  world w(f.config, *f.tasks, f.folder.path() / "run", true, 3);
  w.head().generators(4, 0);
  const auto first = w.head().advance();
  REQUIRE(first);
  REQUIRE_FALSE(first->generate.empty());
  const generate_group whole = first->generate.front();
  REQUIRE(whole.samples.size() == 4);
  // It dies with the two in the middle.
  w.head().generator_lost({whole.samples[1], whole.samples[2]});
  w.head().generators(4, 0);
  const auto orders = w.head().advance();
  REQUIRE(orders);
  REQUIRE_FALSE(orders->generate.empty());
  const generate_group& again = orders->generate.front();
  CHECK(again.group == whole.group);
  REQUIRE(again.recorded.size() == again.samples.size());
  for (std::size_t i = 0; i < again.samples.size(); ++i) {
    const auto place = std::find(whole.samples.begin(), whole.samples.end(), again.samples[i]);
    REQUIRE(place != whole.samples.end());
    CHECK(again.recorded[i] ==
          whole.recorded[static_cast<std::size_t>(place - whole.samples.begin())]);
  }
}

TEST_CASE("an own engine orders no text") {
  fixture f;
  world w(f.config, *f.tasks, f.folder.path() / "run", true, 3);
  int orders = 0;
  w.on_order = [&](const generate_group& order) {
    CHECK(order.recorded.empty());
    ++orders;
  };
  CHECK_FALSE(w.go(2));
  CHECK(orders > 0);
}
