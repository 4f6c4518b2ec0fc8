// Generators and ranks of the learner as control sees them: who gets work, who is told of weights,
// and who goes when one of them is lost.
#include "actors/decide/worker_book.hpp"

#include "support/test.hpp"

namespace {

using namespace quern;
using namespace quern::actors;
using base::operator""_s;
using ids = std::vector<worker_id>;

constexpr step_limits worker_limits{100_s, 60_s, 20_s, 3, 50_s, 5, 10_s};

/// A run of incarnation 1 that began with version 4; generators 1 and 2, ranks 11 and 12.
struct workers {
  base::manual_clock clock;
  role_board roles{clock};
  worker_book book;

  explicit workers(const worker_book::settings& chosen = {true, 1})
      : book(chosen, step_watch(worker_limits, clock), roles, 4) {}

  void learner_comes() {
    book.rank_came(11, 0, 4);
    book.rank_came(12, 1, 4);
    book.learner_is_ready(4);
  }
  void generator_comes(worker_id who, std::int64_t granted, weights_version version) {
    book.generator_came(who, 1, "unix:/x");
    CHECK(book.on_installed(who, weights(version)).known);
    CHECK(book.on_credit(who, credit(granted)));
  }
  static weights_installed weights(weights_version version) { return {1, version, {}}; }
  static weights_ready ready(weights_version version) { return {1, version, {}, "file"}; }
  static generation_credit credit(std::int64_t granted) {
    generation_credit told;
    told.granted = granted;
    return told;
  }
  static step_done step(weights_version version, bool offered) {
    step_done done;
    done.incarnation = 1;
    done.weights = ready(version);
    done.offered = offered;
    return done;
  }
  /// Whether the learner hangs within so many seconds.
  bool hangs(int seconds) {
    for (int s = 0; s < seconds; ++s) {
      clock.advance(1_s);
      if (book.look()) return true;
    }
    return false;
  }
};

TEST_CASE("a group goes to the generator that could take most, of those that have weights") {
  workers w;
  CHECK_FALSE(w.book.take_group({1}));
  CHECK(w.book.offer(9).free_groups == 0);
  CHECK(w.book.offer(9).oldest == 9);
  w.generator_comes(1, 2, 5);
  w.generator_comes(2, 3, 4);
  w.book.generator_came(3, 1, "unix:/x");
  CHECK(w.book.on_credit(3, workers::credit(100)));
  CHECK(w.book.offer(9).free_groups == 5);
  CHECK(w.book.offer(9).oldest == 4);
  CHECK(w.book.take_group({1, 2}) == 2);
  CHECK(w.book.take_group({3, 4}) == 1);
  CHECK(w.book.take_group({5, 6}) == 2);
  CHECK(w.book.take_group({7, 8}) == 1);
  CHECK(w.book.take_group({9}) == 2);
  CHECK_FALSE(w.book.take_group({10}));
  // An older message does not take back what was granted.
  CHECK(w.book.on_credit(2, workers::credit(1)));
  CHECK(w.book.offer(9).free_groups == 0);
  CHECK(w.book.on_credit(2, workers::credit(4)));
  CHECK(w.book.take_group({10}) == 2);
  CHECK_FALSE(w.book.on_credit(77, workers::credit(4)));
}

TEST_CASE("what a lost generator was asked for and did not send is made again") {
  workers w;
  w.generator_comes(1, 2, 4);
  CHECK(w.book.take_group({1, 2, 3}) == 1);
  CHECK(w.book.take_group({4}) == 1);
  w.book.on_generated(1, 2);
  w.book.on_generated(2, 3);  // not of this one
  const lost_worker lost = w.book.gone(1);
  CHECK(lost.was == lost_worker::kind::generator);
  CHECK(lost.samples == std::vector<sample_id>{1, 3, 4});
  CHECK(w.book.gone(1).was == lost_worker::kind::not_admitted);
  CHECK_FALSE(w.book.on_installed(1, workers::weights(5)).known);
}

TEST_CASE(
    "a generator hears of the newest weights once it has those of the incarnation's beginning") {
  workers w;
  w.learner_comes();
  w.generator_comes(1, 1, 4);
  w.book.generator_came(2, 1, "unix:/x");
  CHECK(w.book.on_step(workers::step(5, true)));
  CHECK(w.book.announce(workers::ready(5)) == ids{1});
  const auto first = w.book.on_installed(2, workers::weights(4));
  REQUIRE(first.newer);
  CHECK(first.newer->version == 5);
  CHECK_FALSE(w.book.on_installed(2, workers::weights(5)).newer);
  CHECK(w.book.announce(workers::ready(6)) == ids{1, 2});
  // News that were overtaken: nobody's weights become older.
  w.book.on_installed(1, workers::weights(6));
  w.book.on_installed(2, workers::weights(6));
  CHECK(w.book.on_installed(2, workers::weights(5)).known);
  CHECK(w.book.offer(6).oldest == 6);
}

TEST_CASE("rank 0 is asked for weights that a step did not offer, but not while it steps") {
  workers w;
  CHECK_FALSE(w.book.to_be_asked_for_offer(false));
  w.learner_comes();
  CHECK_FALSE(w.book.to_be_asked_for_offer(false));
  CHECK_FALSE(w.book.on_step(workers::step(5, false)));
  CHECK(w.book.to_be_asked_for_offer(false) == 11);
  CHECK_FALSE(w.book.to_be_asked_for_offer(true));
  CHECK(w.book.on_offered(5));
  CHECK_FALSE(w.book.on_offered(5));
  CHECK_FALSE(w.book.to_be_asked_for_offer(false));
  step_done left_out = workers::step(5, true);
  left_out.left_out = true;
  CHECK_FALSE(w.book.on_step(left_out));
}

TEST_CASE("links are opened by a learner that is there, each once") {
  workers w;
  const std::string first = w.book.generator_came(1, 1, "unix:/x");
  CHECK_FALSE(first.empty());
  CHECK(w.book.take_due_links().empty());
  w.learner_comes();
  CHECK(w.book.take_due_links() == std::vector{first});
  CHECK(w.book.take_due_links().empty());
  const std::string second = w.book.generator_came(2, 1, "unix:/x");
  CHECK(second != first);
  (void)w.book.gone(2);
  CHECK(w.book.take_due_links().empty());
  workers by_files({false, 1});
  CHECK(by_files.book.generator_came(1, 1, "unix:/x").empty());
}

TEST_CASE("the learner is lost as a whole, and generators with its weights go, too") {
  workers w;
  w.learner_comes();
  w.generator_comes(1, 1, 4);
  w.generator_comes(2, 1, 4);
  CHECK(w.book.has_rank(1));
  const lost_worker rank = w.book.gone(12);
  CHECK(rank.was == lost_worker::kind::rank);
  CHECK(rank.rank == 1);
  const learner_loss loss = w.book.lose_learner();
  CHECK(loss.fatal.empty());
  CHECK(loss.ranks == ids{11});
  CHECK(loss.generators == ids{1, 2});
  CHECK_FALSE(w.book.has_rank(0));
  CHECK_FALSE(w.book.first_rank());
  CHECK(w.book.offer(4).free_groups == 0);
  // Those that were sent away are nobody when they end.
  CHECK(w.book.gone(11).was == lost_worker::kind::not_admitted);
  CHECK(w.book.gone(1).was == lost_worker::kind::not_admitted);
  w.book.incarnation_began(3);
  w.book.rank_came(21, 0, 3);
  w.book.learner_is_ready(3);
  CHECK(w.book.first_rank() == 21);
  // The weights of the last incarnation are told to nobody of this one.
  w.book.generator_came(3, 2, "unix:/x");
  CHECK_FALSE(w.book.on_installed(3, workers::weights(3)).newer);
}

TEST_CASE("a learner that is lost too often without a step ends the run") {
  workers w({true, 1});
  for (int lost = 0; lost < 2; ++lost) {
    w.learner_comes();
    CHECK(w.book.lose_learner().fatal.empty());
  }
  w.learner_comes();
  const learner_loss last = w.book.lose_learner();
  CHECK(test::contains(last.fatal, "lost 3 times without a step"));
  CHECK(test::contains(last.fatal, "actors.restarts is 1"));
  CHECK(last.ranks.empty());
  // A step in between begins the count anew.
  workers other({true, 1});
  for (int lost = 0; lost < 4; ++lost) {
    other.learner_comes();
    other.book.sent_step(4);
    (void)other.book.on_step(workers::step(5, true));
    CHECK(other.book.lose_learner().fatal.empty());
  }
}

TEST_CASE("a learner that does not answer hangs; one that does may go on for ever") {
  workers w;
  w.book.rank_came(11, 0, 4);
  CHECK_FALSE(w.hangs(99));
  w.book.learner_is_ready(4);
  CHECK_FALSE(w.hangs(500));
  w.book.sent_step(4);
  (void)w.book.on_step(workers::step(5, true));
  CHECK_FALSE(w.hangs(500));
  w.book.sent_checkpoint(5);
  w.book.on_checkpoint(4);  // an answer to anything else is none
  CHECK(w.hangs(51));
  workers steps;
  steps.learner_comes();
  steps.book.sent_step(4);
  CHECK(steps.hangs(61));
}

TEST_CASE("whether evaluators have something to do is told when it changes") {
  workers w;
  CHECK_FALSE(w.book.verdicts_wanted(true));
  CHECK(w.book.verdicts_wanted(false) == false);
  CHECK_FALSE(w.book.verdicts_wanted(false));
  CHECK(w.book.verdicts_wanted(true) == true);
}

}  // namespace
