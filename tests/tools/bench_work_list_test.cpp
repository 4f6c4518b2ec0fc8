// Which judge does what: tasks of its own while there are enough, and no one idle at the end.
#include <set>
#include <vector>

#include "support/test.hpp"
#include "tools/bench/work_list.hpp"

using namespace quern;

TEST_CASE("workers keep to their own tasks while there are enough") {
  std::vector<std::size_t> task_of;
  for (std::size_t i = 0; i < 400; ++i)
    task_of.push_back(i % 4);
  tools::work_list list(task_of, 2);
  std::set<std::size_t> first, second;
  for (int i = 0; i < 20; ++i) {
    for (const std::size_t item : list.claim(0, 3))
      first.insert(task_of[item]);
    for (const std::size_t item : list.claim(1, 3))
      second.insert(task_of[item]);
  }
  CHECK(first.size() == 1);
  CHECK(second.size() == 1);
  CHECK(first != second);
}

TEST_CASE("near the end nobody takes much, and what is given back is handed out again") {
  const std::vector<std::size_t> task_of(10, 0);
  tools::work_list list(task_of, 4);
  std::vector<std::size_t> taken;
  while (true) {
    const auto some = list.claim(taken.size() % 4, 100);
    CHECK(some.size() <= 1);
    if (some.empty()) break;
    taken.push_back(some.front());
  }
  CHECK(std::set<std::size_t>(taken.begin(), taken.end()).size() == 10);
  // The fourth worker has the fourth and the eighth.
  list.give_back(3);
  CHECK(list.claim(0, 9) == std::vector<std::size_t>{taken[7]});
  CHECK(list.claim(1, 9) == std::vector<std::size_t>{taken[3]});
  CHECK(list.claim(0, 9).empty());
}

TEST_CASE("a worker holds no more than it may") {
  const std::vector<std::size_t> task_of(10, 0);
  tools::work_list list(task_of, 1);
  CHECK(list.claim(0, 4) == std::vector<std::size_t>{0, 1, 2, 3});
  CHECK(list.claim(0, 4).empty());
  CHECK(list.next(0) == std::size_t{0});
  CHECK(list.claim(0, 4) == std::vector<std::size_t>{4});
  CHECK(list.claim(0, 2).empty());
  CHECK(list.next(0) == std::size_t{1});
}

TEST_CASE("who has nothing else to do does what another one holds, of the one who holds most") {
  const std::vector<std::size_t> task_of(30, 0);
  tools::work_list list(task_of, 3);
  std::vector<std::size_t> first, second;
  while (first.size() < 20)
    for (const std::size_t item : list.claim(0, 20))
      first.push_back(item);
  CHECK_FALSE(list.next(2).has_value());  // there is something to claim
  while (true) {
    const auto some = list.claim(1, 30);
    if (some.empty()) break;
    second.insert(second.end(), some.begin(), some.end());
  }
  CHECK(first.size() + second.size() == 30);
  std::set<std::size_t> done;
  for (std::size_t k = 0; k < 10; ++k)
    CHECK(list.next(2) == first[k]);
  CHECK(list.next(1) == second[0]);
  // Of each item one worker hears.
  for (std::size_t k = 0; k < 19; ++k)
    CHECK(done.insert(list.next(k % 3).value()).second);
  CHECK_FALSE(list.next(0).has_value());
}

TEST_CASE("what was put off is no part of the other work, and comes in the order given") {
  const std::vector<std::size_t> task_of(3, 0);
  tools::work_list list(task_of, 1);
  const auto first = list.claim(0, 1);
  list.put_off(first.front());
  CHECK(list.claim(0, 9).size() == 2);
  CHECK(list.any_left());
  CHECK(list.claim(0, 9).empty());
  list.put_off(2);
  CHECK(list.claim_put_off() == first.front());
  CHECK(list.claim_put_off() == std::size_t{2});
  CHECK_FALSE(list.any_left());
  CHECK_FALSE(list.claim_put_off().has_value());
}

TEST_CASE("a worker does next what is ready, and the first where nothing is") {
  const std::vector<std::size_t> task_of(6, 0);
  tools::work_list list(task_of, 1);
  REQUIRE(list.claim(0, 4).size() == 4);
  CHECK(list.next(0, [](std::size_t item) { return item == 2; }) == std::size_t{2});
  CHECK(list.next(0, [](std::size_t) { return false; }) == std::size_t{0});
  CHECK(list.next(0, [](std::size_t item) { return item >= 1; }) == std::size_t{1});
  CHECK(list.next(0) == std::size_t{3});
}
