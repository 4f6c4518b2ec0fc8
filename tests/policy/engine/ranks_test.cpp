// Several ranks as processes of their own, over Gloo: equal results whatever their number, shards
// on disk that another number of ranks loads, and what the others say of one that dies or hangs.
#include "policy/engine/rank_processes.hpp"

using namespace quern;
using namespace quern::test;
using base::operator""_s;

TEST_CASE("loss, gradients, weights and metrics after three steps are those of one rank") {
  const auto folder = base::temp_folder::make().value();
  const outcome one = train(folder.path() / "one", 1),
                few = train(folder.path() / "few", 1, {"few"});
  CHECK(metric(one, 2, "version") == 3);
  // Three sequences leave one of four ranks without any.
  for (const auto& [ranks, more] :
       {std::pair<int, words>{2, {}}, {4, {"recompute"}}, {2, {"threads"}}, {4, {"few"}}}) {
    CAPTURE(ranks);
    CAPTURE(fmt::format("{}", fmt::join(more, " ")));
    const outcome& expected = more == words{"few"} ? few : one;
    const outcome several =
        train(folder.path() / fmt::format("{}{}", ranks, fmt::join(more, "")), ranks, more);
    CHECK(difference(expected.gradients, several.gradients) < summation);
    CHECK(difference(expected.weights, several.weights) < summation);
    for (std::size_t step = 0; step < 3; ++step)
      for (const char* name : {"loss", "grad_norm", "tokens", "sequences", "idle_sequences",
                               "entropy", "mean_log_prob", "ratio", "ratio_max", "mismatch_mean",
                               "mismatch_max", "clip_fraction"}) {
        CAPTURE(name);
        CHECK(metric(several, step, name) ==
              doctest::Approx(metric(expected, step, name)).epsilon(1e-12));
      }
  }
}

TEST_CASE("the control: a rank that leaves one bucket out of the sum is seen in all of them") {
  const auto folder = base::temp_folder::make().value();
  const outcome one = train(folder.path() / "1", 1);
  const outcome wrong = train(folder.path() / "2", 2, {"drop"});
  CHECK(difference(one.gradients, wrong.gradients) > 1e-3);
  CHECK(difference(one.weights, wrong.weights) > 1e-6);
  CHECK(metric(wrong, 0, "grad_norm") != doctest::Approx(metric(one, 0, "grad_norm")));
}

TEST_CASE("equal numbers of ranks give equal bits, in float32 with tied embeddings") {
  const auto folder = base::temp_folder::make().value();
  const words how = {"float", "tied"};
  const outcome first = train(folder.path() / "a", 2, how),
                again = train(folder.path() / "b", 2, how),
                one = train(folder.path() / "c", 1, how);
  CHECK(first.gradients == again.gradients);
  CHECK(first.weights == again.weights);
  CHECK(first.metrics == again.metrics);
  CHECK(difference(one.gradients, first.gradients) < 1e-5);
}

TEST_CASE("in bfloat16 ranks differ by the order of float32 sums, and all hold the same weights") {
  const auto folder = base::temp_folder::make().value();
  const outcome one = train(folder.path() / "a", 1, {"half"}),
                two = train(folder.path() / "b", 2, {"half"}),
                again = train(folder.path() / "c", 2, {"half"});
  CHECK(two.gradients == again.gradients);
  CHECK(two.weights == again.weights);
  // A prompt that two ranks compute is rounded in each.
  CHECK(difference(one.gradients, two.gradients) < 2e-2);
  CHECK(difference(one.weights, two.weights) < 2e-2);
}

TEST_CASE("shards that two ranks wrote are loaded by four, then by one, then by two: equal bits") {
  const auto folder = base::temp_folder::make().value();
  const auto at = [&](const char* name) { return folder.path() / name; };
  const auto then = [&](const char* from, const char* to, int ranks) {
    fs::create_directories(at(to));
    fs::create_directory_symlink(at(from) / "to", at(to) / "from");
    rank_processes(  // the same model: float32, as checkpoints are
        "save", ranks, at(to), {"float", "load"})
        .finish();
  };
  rank_processes("save", 2, at("a"), {"float"}).finish();
  then("a", "b", 4);
  then("b", "c", 1);
  then("c", "d", 2);
  const auto weights = numbers(at("a") / "weights");
  for (const char* later : {"b", "c", "d"})
    CHECK(numbers(at(later) / "weights") == weights);
  // Master weights and moments went through 4 and 1 ranks and came back as the same files.
  int files = 0;
  for (const auto& entry : fs::directory_iterator(at("a") / "to")) {
    CAPTURE(entry.path().string());
    CHECK(base::read_file(entry.path()).value() ==
          base::read_file(at("d") / "to" / entry.path().filename()).value());
    ++files;
  }
  CHECK(files == 3);
}

TEST_CASE("kill -9: the others name rank, phase, peer and version, and end") {
  const auto folder = base::temp_folder::make().value();
  for (const int victim : {2, 0}) {
    CAPTURE(victim);
    check_failure(folder.path() / std::to_string(victim), 4, {}, victim, "is gone",
                  [&](rank_processes& group) { group.rank(victim).send_signal(SIGKILL); });
  }
}

TEST_CASE(
    "SIGSTOP: so they do of a rank that is frozen, the one that keeps the rendezvous included") {
  const auto folder = base::temp_folder::make().value();
  for (const int victim : {3, 0}) {
    CAPTURE(victim);
    check_failure(folder.path() / std::to_string(victim), 4, {}, victim, "gives no sign of life",
                  [&](rank_processes& group) { group.rank(victim).send_signal(SIGSTOP); });
  }
}

TEST_CASE("a rank that lives and does not come is named, too") {
  const auto folder = base::temp_folder::make().value();
  check_failure(folder.path(), 4, {"hang"}, 1, "has not moved", [](rank_processes&) {});
}

TEST_CASE("so is one that is busy with what never ends, by what that may take") {
  const auto folder = base::temp_folder::make().value();
  check_failure(folder.path(), 4, {"hang", "saving"}, 1, "last seen in saving",
                [](rank_processes&) {});
}

TEST_CASE("and one that has met the others and never begins to connect") {
  const auto folder = base::temp_folder::make().value();
  check_failure(folder.path(), 2, {"absent"}, 1, "not there within 1.5 s", [](rank_processes&) {});
}

TEST_CASE("kill -9 while checkpoints are written: each is whole and loads, or is not one") {
  const auto folder = base::temp_folder::make().value();
  int whole = 0, unfinished = 0;
  for (int round = 0; round < 2; ++round) {
    const fs::path run = folder.path() / std::to_string(round);
    {
      rank_processes group("checkpoint", 2, run, {"float"});
      REQUIRE(wait_until(
          60_s, [&] { return fs::exists(run / "3" / "manifest.json") || group.any_ended(); }));
      REQUIRE_FALSE(group.any_ended());
      std::this_thread::sleep_for(std::chrono::milliseconds(7 * round));
      group.rank(round % 2).send_signal(SIGKILL);
      group.rank(1 - round % 2).send_signal(SIGKILL);
    }
    // The newest that has a manifest, and the one after it.
    int newest = 3;
    while (fs::exists(run / std::to_string(newest + 1) / "manifest.json"))
      ++newest;
    ++whole;
    unfinished += fs::exists(run / std::to_string(newest + 1)) ? 1 : 0;
    for (const int number : {newest, newest + 1}) {
      CAPTURE(number);
      const fs::path to = run / fmt::format("load{}", number);
      fs::create_directories(to);
      fs::create_directory_symlink(run / std::to_string(number), to / "from");
      rank_processes reader("save", 1, to, {"float", "load"});
      const auto end = reader.rank(0).wait(60_s);
      REQUIRE(end);
      CAPTURE(reader.said_by(0));
      CHECK(end->code == (number == newest ? 0 : 2));
      if (number != newest) CHECK(quern::test::contains(reader.said_by(0), "never finished"));
    }
  }
  fmt::print("killed while writing: {} folders whole, {} left without a manifest\n", whole,
             unfinished);
}
