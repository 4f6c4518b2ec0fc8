// Names of imported tasks.
#include "env/lanes/pytorch/tasks/module_import.hpp"
#include "env/lanes/pytorch/tasks/module_tree.hpp"
#include "support/test.hpp"

using namespace quern;

TEST_CASE("a title becomes a word of small letters, digits and single _") {
  CHECK(env::word_of("Square_matrix_multiplication_", 100) == "square_matrix_multiplication");
  CHECK(env::word_of("__a--B  c9__", 100) == "a_b_c9");
  CHECK(env::word_of("EleutherAI-gpt-neo-2p7B_bs32", 100) == "eleutherai_gpt_neo_2p7b_bs32");
  CHECK(env::word_of("ab_cd", 3) == "ab");
  CHECK(env::word_of("\xE2\x89\xA5", 100).empty());
  CHECK(env::word_of("", 100).empty());
}

TEST_CASE("a module is named by its place and title, and always as a task may be") {
  const auto named = [](std::string title, std::optional<env::benchmark_place> place) {
    return env::module_name({"", "", std::move(title), "", std::move(place)});
  };
  CHECK(named("Batched_matrix_multiplication", env::benchmark_place{1, 3, "x"}) ==
        "level1_3_batched_matrix_multiplication");
  CHECK(named("", env::benchmark_place{2, 14, "x"}) == "level2_14");
  CHECK(named("3_Rows", std::nullopt) == "task_3_rows");
  CHECK(named("", std::nullopt) == "task");
  for (const std::string& title : {std::string(300, 'x'), std::string(93, 'x') + "_y"}) {
    const std::string name = named(title, env::benchmark_place{1, 3, "x"});
    CHECK(name.size() <= 100);
    CHECK(env::is_identifier(name, 100));
    CHECK(env::is_identifier(named(title, std::nullopt), 100));
  }
}

TEST_CASE("a file of a benchmark begins with its number") {
  const auto named = env::numbered_title_of("12_ReLU.py");
  REQUIRE(named.has_value());
  CHECK(named->number == 12);
  CHECK(named->title == "ReLU");
  CHECK(env::numbered_title_of("7_")->title.empty());
  for (const char* name : {"ReLU.py", "12.py", "12ReLU.py", "_12.py", "-1_x.py", "", ".py",
                           "99999999999_x.py", "+1_x.py", " 1_x.py"})
    CHECK_FALSE(env::numbered_title_of(name).has_value());
}
