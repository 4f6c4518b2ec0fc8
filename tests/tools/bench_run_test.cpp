// Judging on several devices, with judges of our own: everything once, failures bounded.
#include "tools/bench/bench_run.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "base/clock.hpp"
#include "env/lanes/cpp/cpp_lane.hpp"
#include "tools/bench/results.hpp"
#include "tools/bench_support.hpp"

using namespace quern;
using env::verdict_kind;

namespace {

/// Says what its script says of a source; counts.
class scripted_judge final : public env::candidate_judge {
 public:
  std::function<verdict_kind(const env::evaluation_request&)> script =
      [](const env::evaluation_request&) { return verdict_kind::ok; };
  std::atomic<int> compiled = 0, inside = 0, overlaps = 0;
  std::function<void(const env::evaluation_request&)> compile = [](const env::evaluation_request&) {
  };
  std::vector<std::string> prepared;  ///< sources of requests
  std::atomic<std::size_t> prepared_count = 0;
  std::size_t most_prepared = 100;
  std::function<bool()> while_preparing = [] { return true; };
  std::vector<env::evaluation_request> asked;
  bool warm = false;
  /// Of an `ok`: whether it is a large claim, and borne out.
  std::function<std::optional<bool>(const env::evaluation_request&)> confirmed =
      [](const env::evaluation_request&) { return std::nullopt; };
  std::optional<env::device_trouble> out;
  /// What a self-test does; nothing: the device stays as it is.
  std::function<void()> test_itself = [] {};
  std::atomic<int> tested = 0;

  env::verdict evaluate(const env::evaluation_request& request) override {
    overlaps += inside++ == 0 ? 0 : 1;
    asked.push_back(request);
    env::verdict v;
    v.kind = script(request);
    v.detail = "scripted";
    if (v.kind == verdict_kind::ok) v.confirmed = confirmed(request);
    if (v.confirmed) v.speedup_e2 = *v.confirmed ? 900 : 300;
    --inside;
    return v;
  }
  void warm_up() override { warm = true; }
  void compile_ahead(const env::evaluation_request& request) override {
    compile(request);
    ++compiled;
  }
  bool prepare_ahead(const env::evaluation_request& request) override {
    overlaps += inside++ == 0 ? 0 : 1;
    prepared.push_back(request.source);
    const bool more = prepared.size() < most_prepared && while_preparing();
    ++prepared_count;
    --inside;
    return more;
  }
  [[nodiscard]] const env::lane& lane() const override { return env::cpp_lane; }
  [[nodiscard]] const std::string& device_class() const override { return name_; }
  [[nodiscard]] const std::string& environment() const override { return name_; }
  [[nodiscard]] env::stage_seconds stages() const override { return {}; }
  [[nodiscard]] std::optional<env::device_trouble> trouble() const override { return out; }
  void recover() override {
    ++tested;
    test_itself();
  }
  /// Fails, and the device with it.
  verdict_kind put_out(const std::string& why) {
    out = env::device_trouble{why, 0};
    return verdict_kind::infra_error;
  }

 private:
  std::string name_ = "scripted";
};

std::vector<env::evaluation_request> made_requests(std::size_t tasks, std::size_t each) {
  std::vector<env::evaluation_request> all;
  for (std::size_t t = 0; t < tasks; ++t) {
    const auto subject = std::make_shared<env::task>();
    for (std::size_t i = 0; i < each; ++i) {
      env::evaluation_request one;
      one.subject = subject;
      one.source = std::to_string(all.size());
      one.seed = 100 * all.size();
      all.push_back(std::move(one));
    }
  }
  return all;
}

std::vector<std::size_t> positions(std::size_t count) {
  std::vector<std::size_t> all(count);
  for (std::size_t i = 0; i < count; ++i)
    all[i] = i;
  return all;
}

struct run_outcome {
  std::map<std::size_t, std::vector<verdict_kind>> told;
  std::map<std::size_t, env::verdict> last;
  std::vector<std::string> given_up;

  [[nodiscard]] std::size_t left_out() const {
    return static_cast<std::size_t>(std::count_if(
        last.begin(), last.end(), [](const auto& one) { return tools::is_left_out(one.second); }));
  }
};

/// A device in trouble is looked at every millisecond.
tools::bench_run_options impatient(base::nanoseconds_t recover_within = 60'000'000'000) {
  tools::bench_run_options options;
  options.recover_every = 1'000'000;
  options.recover_within = recover_within;
  return options;
}

run_outcome run_scripted(std::vector<env::candidate_judge*> judges,
                         const std::vector<env::evaluation_request>& requests,
                         const std::vector<std::size_t>& items, tools::bench_run_options options) {
  run_outcome outcome;
  const std::atomic<bool> stop = false;
  outcome.given_up = tools::run_bench(judges, requests, items, options, stop,
                                      [&](std::size_t item, const env::verdict& v, std::size_t) {
                                        outcome.told[item].push_back(v.kind);
                                        outcome.last[item] = v;
                                        return true;
                                      });
  return outcome;
}

/// Without compilers the order is that of the items: what is compiled first is judged first.
run_outcome run_scripted(std::vector<env::candidate_judge*> judges,
                         const std::vector<env::evaluation_request>& requests,
                         const std::vector<std::size_t>& items, int compilers = 0) {
  tools::bench_run_options options = impatient();
  options.compilers = compilers;
  return run_scripted(std::move(judges), requests, items, options);
}

std::vector<std::string> sources_of(const scripted_judge& judge) {
  std::vector<std::string> all;
  for (const auto& one : judge.asked)
    all.push_back(one.source);
  return all;
}

}  // namespace

TEST_CASE("every item is judged once, by one thread a judge, whatever compiles ahead") {
  const auto requests = made_requests(7, 30);
  std::vector<std::size_t> items;
  for (std::size_t i = 0; i < requests.size(); i += 2)
    items.push_back(i);
  for (const int compilers : {0, 1, 4}) {
    scripted_judge a, b, c;
    const auto outcome = run_scripted({&a, &b, &c}, requests, items, compilers);
    CHECK(outcome.given_up.empty());
    REQUIRE(outcome.told.size() == items.size());
    for (const std::size_t item : items)
      CHECK(outcome.told.at(item) == std::vector{verdict_kind::ok});
    CHECK(a.asked.size() + b.asked.size() + c.asked.size() == items.size());
    CHECK(a.overlaps + b.overlaps + c.overlaps == 0);
    CHECK((a.warm && b.warm && c.warm));
    if (compilers == 0) CHECK(a.compiled + b.compiled + c.compiled == 0);
  }
}

TEST_CASE("a compiler works on the next while one is measured") {
  const auto requests = made_requests(1, 3);
  scripted_judge judge;
  judge.script = [&](const env::evaluation_request& request) {
    // The first evaluation lasts until something behind it has been compiled.
    for (int i = 0; request.source == "0" && judge.compiled == 0 && i < 10000; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return verdict_kind::ok;
  };
  CHECK(run_scripted({&judge}, requests, positions(3), 1).told.size() == 3);
  CHECK(judge.compiled > 0);
}

TEST_CASE("while nothing is compiled yet, what is in line is prepared, as far as it is of use") {
  const auto requests = made_requests(3, 1);
  for (const std::size_t most : {3, 2}) {
    scripted_judge judge;
    judge.most_prepared = most;
    judge.compile = [&](const env::evaluation_request&) {
      for (int i = 0; judge.prepared_count < most && i < 10000; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    };
    CHECK(run_scripted({&judge}, requests, positions(3), 3).told.size() == 3);
    std::ranges::sort(judge.prepared);
    CHECK(judge.prepared.size() == most);
    CHECK(std::ranges::adjacent_find(judge.prepared) == judge.prepared.end());
    CHECK(judge.overlaps == 0);
  }
}

TEST_CASE("no candidate is to blame for a device that was put into trouble by preparing") {
  scripted_judge judge;
  judge.while_preparing = [&] {
    if (judge.tested == 0) (void)judge.put_out("a task");
    return false;
  };
  judge.test_itself = [&] { judge.out.reset(); };
  judge.compile = [&](const env::evaluation_request&) {
    for (int i = 0; judge.prepared_count < 1 && i < 10000; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  judge.script = [&](const env::evaluation_request&) {
    return judge.out ? verdict_kind::infra_error : verdict_kind::ok;
  };
  tools::bench_run_options options = impatient();
  options.compilers = 2;
  const auto outcome = run_scripted({&judge}, made_requests(2, 1), positions(2), options);
  CHECK(judge.tested == 1);
  for (const auto& [item, kinds] : outcome.told)
    CHECK(kinds == std::vector{verdict_kind::ok});
}

TEST_CASE("nothing is prepared where nobody compiles ahead") {
  scripted_judge judge;
  CHECK(run_scripted({&judge}, made_requests(3, 1), positions(3), 0).told.size() == 3);
  CHECK(judge.prepared.empty());
}

TEST_CASE("what says nothing is asked again with another seed, a bounded number of times") {
  const auto requests = made_requests(1, 2);
  scripted_judge judge;
  judge.script = [](const env::evaluation_request& request) {
    if (request.source == "0") return verdict_kind::noisy;
    return request.recheck ? verdict_kind::ok : verdict_kind::unconfirmed;
  };
  const auto outcome = run_scripted({&judge}, requests, positions(2));
  CHECK(outcome.told.at(0) == std::vector{verdict_kind::noisy});
  CHECK(outcome.told.at(1) == std::vector{verdict_kind::ok});
  REQUIRE(judge.asked.size() == 5);
  std::set<std::uint64_t> seeds;
  for (const auto& one : judge.asked)
    seeds.insert(one.seed);
  CHECK(seeds.size() == 5);
}

TEST_CASE("a verdict about the candidate is asked for once") {
  const auto requests = made_requests(1, 1);
  scripted_judge judge;
  judge.script = [](const env::evaluation_request&) { return verdict_kind::timeout; };
  run_scripted({&judge}, requests, positions(1));
  CHECK(judge.asked.size() == 1);
}

TEST_CASE("two devices share the work: both are at it at the same time, to the end") {
  const auto requests = made_requests(5, 12);
  scripted_judge a, b;
  // Each evaluation waits until the other judge has begun as many, or one less: alone, no judge
  // gets further than one ahead.
  std::mutex guard;
  std::condition_variable changed;
  int begun[2] = {};
  int left = static_cast<int>(requests.size());
  const auto together = [&](int me) {
    return [&, me](const env::evaluation_request&) {
      std::unique_lock lock(guard);
      ++begun[me];
      --left;
      changed.notify_all();
      const bool met = changed.wait_for(lock, std::chrono::seconds(60), [&] {
        return begun[1 - me] + 1 >= begun[me] || left == 0;
      });
      return met ? verdict_kind::ok : verdict_kind::timeout;
    };
  };
  a.script = together(0);
  b.script = together(1);
  const auto outcome = run_scripted({&a, &b}, requests, positions(requests.size()));
  REQUIRE(outcome.told.size() == requests.size());
  for (const auto& [item, kinds] : outcome.told)
    CHECK(kinds == std::vector{verdict_kind::ok});
  CHECK(a.asked.size() + b.asked.size() == requests.size());
  CHECK(a.asked.size() >= requests.size() / 2 - 1);
  CHECK(b.asked.size() >= requests.size() / 2 - 1);
}

TEST_CASE("what one run judged on two devices is not judged again by the next") {
  const auto requests = made_requests(3, 20);
  scripted_judge a, b;
  std::set<std::size_t> done;
  const std::atomic<bool> stop = false;
  const std::vector<env::candidate_judge*> judges = {&a, &b};
  const auto all = positions(requests.size());
  (void)tools::run_bench(judges, requests, all, {.compilers = 1}, stop,
                         [&](std::size_t item, const env::verdict&, std::size_t) {
                           done.insert(item);
                           return done.size() < 17;
                         });
  const auto first = done.size();
  CHECK(first >= 17);
  CHECK(first < requests.size());
  std::vector<std::size_t> rest;
  std::copy_if(all.begin(), all.end(), std::back_inserter(rest),
               [&](std::size_t item) { return !done.contains(item); });
  scripted_judge c, d;
  const auto outcome = run_scripted({&c, &d}, requests, rest);
  CHECK(outcome.told.size() == requests.size() - first);
  CHECK(a.asked.size() + b.asked.size() + c.asked.size() + d.asked.size() == requests.size());
}

TEST_CASE("the work of a device in trouble is done by others, with no word on what it failed at") {
  const auto requests = made_requests(4, 50);
  scripted_judge good, bad;
  std::atomic<int> judged = 0;
  bad.script = [&](const env::evaluation_request&) {
    return ++judged <= 5 ? verdict_kind::ok : bad.put_out("memory: 9 GiB are missing");
  };
  // The good one waits until the bad one is out, so that there is something to fail with.
  good.script = [&](const env::evaluation_request&) {
    for (int i = 0; judged <= 5 && i < 10000; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return verdict_kind::ok;
  };
  const auto outcome = run_scripted({&good, &bad}, requests, positions(requests.size()));
  // It stays out, and nobody waits for it once the work is done.
  CHECK(outcome.given_up.empty());
  REQUIRE(outcome.told.size() == requests.size());
  for (const auto& [item, kinds] : outcome.told)
    CHECK(kinds == std::vector{verdict_kind::ok});
  CHECK(bad.asked.size() == 6);
}

TEST_CASE("a judge without work takes what another one gives back at the very end") {
  const auto requests = made_requests(2, 1);
  scripted_judge good, bad;
  std::atomic<bool> done = false;
  good.script = [&](const env::evaluation_request&) {
    done = true;
    return verdict_kind::ok;
  };
  bad.script = [&](const env::evaluation_request&) {
    for (int i = 0; !done && i < 10000; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    // The good one has nothing left and waits.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return bad.put_out("context: broken");
  };
  const auto outcome = run_scripted({&good, &bad}, requests, positions(2));
  CHECK(outcome.given_up.empty());
  REQUIRE(outcome.told.size() == 2);
  for (const auto& [item, kinds] : outcome.told)
    CHECK(kinds == std::vector{verdict_kind::ok});
}

TEST_CASE(
    "a device in trouble is tested until it is well, and goes on; what it failed at is last") {
  const auto requests = made_requests(2, 5);
  scripted_judge judge;
  bool once = false;
  judge.script = [&](const env::evaluation_request& request) {
    if (request.source != "3" || once) return verdict_kind::ok;
    once = true;
    return judge.put_out("hardware: XID 31");
  };
  judge.test_itself = [&] {
    if (judge.tested == 4) judge.out.reset();
  };
  const auto outcome = run_scripted({&judge}, requests, positions(10));
  CHECK(outcome.given_up.empty());
  CHECK(judge.tested == 4);
  REQUIRE(outcome.told.size() == 10);
  for (const auto& [item, kinds] : outcome.told)
    CHECK(kinds == std::vector{verdict_kind::ok});
  // One try while it fails, none while it is out.
  REQUIRE(judge.asked.size() == 11);
  CHECK(judge.asked.back().source == "3");
}

TEST_CASE("a device that was in trouble from the beginning is tested before it is given anything") {
  const auto requests = made_requests(1, 2);
  scripted_judge judge;
  judge.out = env::device_trouble{"hardware: rows wait", 0};
  judge.script = [&](const env::evaluation_request&) {
    return judge.out ? verdict_kind::infra_error : verdict_kind::ok;
  };
  judge.test_itself = [&] { judge.out.reset(); };
  const auto outcome = run_scripted({&judge}, requests, positions(2));
  CHECK(outcome.given_up.empty());
  CHECK(judge.asked.size() == 2);
}

TEST_CASE("a device that does not get well within its time is given up") {
  const auto requests = made_requests(1, 10);
  for (const base::nanoseconds_t within :
       {base::nanoseconds_t{0}, base::nanoseconds_t{30'000'000}}) {
    CAPTURE(within);
    scripted_judge judge;
    judge.script = [&](const env::evaluation_request& request) {
      return request.source == "4" ? judge.put_out("memory: 9 GiB are missing") : verdict_kind::ok;
    };
    const auto outcome = run_scripted({&judge}, requests, positions(10), impatient(within));
    CHECK(outcome.given_up == std::vector<std::string>{"memory: 9 GiB are missing"});
    CHECK(sources_of(judge) == std::vector<std::string>{"0", "1", "2", "3", "4"});
    CHECK(outcome.told.size() == 4);
    CHECK((judge.tested == 0) == (within == 0));
  }
}

TEST_CASE("a candidate that puts devices into trouble twice is left out, with the reason") {
  const auto requests = made_requests(3, 10);
  for (const std::size_t devices : {1U, 2U}) {
    CAPTURE(devices);
    scripted_judge a, b;
    std::atomic<int> tries = 0;
    for (scripted_judge* one : {&a, &b}) {
      one->script = [&tries, one](const env::evaluation_request& request) {
        if (request.source != "4") return verdict_kind::ok;
        ++tries;
        return one->put_out("memory: 9 GiB are missing");
      };
      one->test_itself = [one] { one->out.reset(); };
    }
    std::vector<env::candidate_judge*> judges = {&a, &b};
    judges.resize(devices);
    const auto outcome = run_scripted(judges, requests, positions(30));
    CHECK(outcome.given_up.empty());
    CHECK(tries == 2);
    REQUIRE(outcome.told.size() == 30);
    CHECK(outcome.left_out() == 1);
    const env::verdict& v = outcome.last.at(4);
    CHECK(v.kind == verdict_kind::infra_error);
    CHECK(tools::is_left_out(v));
    CHECK(tools::is_final(v));
    CHECK(v.detail ==
          "left out: a device went into quarantine 2 times while this was judged, the last time: "
          "memory: 9 GiB are missing (scripted)");
    for (const auto& [item, kinds] : outcome.told)
      if (item != 4) CHECK(kinds == std::vector{verdict_kind::ok});
  }
}

TEST_CASE(
    "a candidate that is all there is, is left out, too; others behind it are not waited for") {
  const auto requests = made_requests(1, 1);
  scripted_judge judge;
  judge.script = [&](const env::evaluation_request&) { return judge.put_out("context: broken"); };
  judge.test_itself = [&] { judge.out.reset(); };
  const auto outcome = run_scripted({&judge}, requests, positions(1));
  CHECK(outcome.given_up.empty());
  CHECK(outcome.left_out() == 1);
  CHECK(judge.asked.size() == 2);
  CHECK(judge.tested == 1);
}

TEST_CASE("a verdict about the candidate stands, whatever it did to the device") {
  const auto requests = made_requests(1, 3);
  scripted_judge judge;
  judge.script = [&](const env::evaluation_request& request) {
    if (request.source == "1") (void)judge.put_out("memory: 9 GiB are missing");
    return request.source == "1" ? verdict_kind::timeout : verdict_kind::ok;
  };
  judge.test_itself = [&] { judge.out.reset(); };
  const auto outcome = run_scripted({&judge}, requests, positions(3));
  CHECK(outcome.told.at(1) == std::vector{verdict_kind::timeout});
  CHECK(outcome.told.size() == 3);
  CHECK(judge.asked.size() == 3);
}

TEST_CASE("where everything puts the device into trouble it is given up, and nobody left out") {
  // Of three each comes round again before it is given up.
  for (const int each : {10, 3}) {
    const auto requests = made_requests(each == 3 ? 1 : 2, each);
    scripted_judge judge;
    judge.script = [&](const env::evaluation_request&) { return judge.put_out("hardware: lost"); };
    judge.test_itself = [&] { judge.out.reset(); };
    const auto outcome = run_scripted({&judge}, requests, positions(requests.size()));
    CHECK(outcome.given_up == std::vector<std::string>{"hardware: lost"});
    CHECK(outcome.told.empty());
    // Twice as many as of failures without trouble.
    CHECK(judge.asked.size() == 6);
  }
}

TEST_CASE("trouble behind the failures of others is not the candidate's") {
  const auto requests = made_requests(1, 20);
  scripted_judge judge;
  judge.script = [&](const env::evaluation_request& request) {
    return request.source == "0" ? verdict_kind::infra_error
                                 : judge.put_out("failures: 4 evaluations in a row failed here");
  };
  judge.test_itself = [&] { judge.out.reset(); };
  tools::bench_run_options options = impatient();
  options.most_troubles = 1;
  const auto outcome = run_scripted({&judge}, requests, positions(20), options);
  REQUIRE(outcome.given_up.size() == 1);
  CHECK(outcome.left_out() == 0);
  CHECK(outcome.told.size() == 1);
  // Three tries of the first one; then two that were one too many each.
  CHECK(judge.asked.size() == 5);
}

TEST_CASE("a stop ends waiting for a device") {
  const auto requests = made_requests(1, 5);
  scripted_judge judge;
  std::atomic<bool> stop = false;
  judge.script = [&](const env::evaluation_request&) { return judge.put_out("context: broken"); };
  judge.test_itself = [&] { stop = true; };
  std::vector<env::candidate_judge*> judges = {&judge};
  int told = 0;
  const auto given_up = tools::run_bench(judges, requests, positions(5), impatient(), stop,
                                         [&](std::size_t, const env::verdict&, std::size_t) {
                                           ++told;
                                           return true;
                                         });
  CHECK(given_up.empty());
  CHECK(told == 0);
  CHECK(judge.tested == 1);
}

TEST_CASE("a judge that fails again and again is given up; others take its work") {
  const auto requests = made_requests(4, 50);
  scripted_judge good, bad;
  std::atomic<int> failed = 0;
  bad.script = [&](const env::evaluation_request&) {
    ++failed;
    return verdict_kind::infra_error;
  };
  // Slow enough that work is left when the other is given up.
  good.script = [&](const env::evaluation_request&) {
    for (int i = 0; failed < 9 && i < 10000; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return verdict_kind::ok;
  };
  const auto outcome = run_scripted({&good, &bad}, requests, positions(requests.size()));
  REQUIRE(outcome.given_up.size() == 1);
  CHECK(outcome.given_up[0] == "scripted");
  CHECK(bad.asked.size() == 9);
  std::size_t without = 0;
  for (const auto& [item, kinds] : outcome.told)
    without += kinds == std::vector{verdict_kind::infra_error} ? 1U : 0U;
  CHECK(without == 3);
  CHECK(outcome.told.size() == requests.size());
}

TEST_CASE("one failure between good ones gives nobody up") {
  const auto requests = made_requests(1, 30);
  scripted_judge judge;
  judge.script = [](const env::evaluation_request& request) {
    return std::stoi(request.source) % 3 == 2 ? verdict_kind::ok : verdict_kind::infra_error;
  };
  const auto outcome = run_scripted({&judge}, requests, positions(30));
  CHECK(outcome.given_up.empty());
  CHECK(outcome.told.size() == 30);
}

TEST_CASE("a stop or a full disk ends after what is being judged, which is told") {
  const auto requests = made_requests(1, 100);
  scripted_judge judge;
  std::atomic<bool> stop = false;
  int told = 0;
  std::vector<env::candidate_judge*> judges = {&judge};
  tools::run_bench(judges, requests, positions(100), {}, stop,
                   [&](std::size_t, const env::verdict&, std::size_t) { return ++told < 5; });
  CHECK(told == 5);
  CHECK(judge.asked.size() == 5);
  judge.script = [&](const env::evaluation_request&) {
    stop = true;
    return verdict_kind::ok;
  };
  told = -1000;
  tools::run_bench(judges, requests, positions(100), {}, stop,
                   [&](std::size_t, const env::verdict&, std::size_t) { return ++told < 5; });
  CHECK(told == -999);
}

TEST_CASE(
    "a large claim that is still open is measured again, and counts only if it is borne out") {
  const auto requests = made_requests(1, 2);
  for (const bool at_last : {false, true}) {
    scripted_judge judge;
    int asked = 0;
    judge.confirmed = [&](const env::evaluation_request& request) -> std::optional<bool> {
      if (request.source == "1") return std::nullopt;  // not large
      CHECK(request.recheck == (asked > 0));
      return ++asked == 3 && at_last;
    };
    const auto outcome = run_scripted({&judge}, requests, positions(2));
    CHECK(asked == 3);
    CHECK(judge.asked.size() == 4);
    const env::verdict& v = outcome.last.at(0);
    CHECK(v.kind == (at_last ? verdict_kind::ok : verdict_kind::unconfirmed));
    CHECK(v.speedup_e2 == (at_last ? std::optional<std::int64_t>(900) : std::nullopt));
    CHECK(v.detail == (at_last ? "scripted" : "scripted, which none has done in 3 tries"));
    CHECK(outcome.last.at(1).kind == verdict_kind::ok);
  }
  // Who asks once only has the claim as it stands.
  scripted_judge judge;
  judge.confirmed = [](const env::evaluation_request&) { return false; };
  tools::bench_run_options once = impatient();
  once.tries = 1;
  const auto outcome = run_scripted({&judge}, requests, positions(2), once);
  CHECK(judge.asked.size() == 2);
  CHECK(outcome.last.at(0).kind == verdict_kind::ok);
  CHECK(outcome.last.at(0).speedup_e2 == 300);
}

TEST_CASE("a stop does not cut the tries of what is being judged") {
  const auto requests = made_requests(1, 3);
  scripted_judge judge;
  std::atomic<bool> stop = false;
  judge.script = [&](const env::evaluation_request& request) {
    stop = true;
    return request.recheck ? verdict_kind::ok : verdict_kind::noisy;
  };
  std::vector<verdict_kind> told;
  std::vector<env::candidate_judge*> judges = {&judge};
  tools::run_bench(judges, requests, positions(3), {}, stop,
                   [&](std::size_t, const env::verdict& v, std::size_t) {
                     told.push_back(v.kind);
                     return true;
                   });
  CHECK(told == std::vector{verdict_kind::ok});
}

TEST_CASE("a judge that takes long keeps nobody else from what it has claimed") {
  constexpr std::size_t items = 40;
  const auto requests = made_requests(1, items);
  std::atomic<std::size_t> told = 0;
  scripted_judge slow, fast;
  slow.script = [&](const env::evaluation_request&) {
    // Until all others have their verdicts; without that, for long enough to see it.
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (told + 1 < items && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return verdict_kind::ok;
  };
  fast.script = [&](const env::evaluation_request&) {
    while (slow.inside == 0)
      std::this_thread::yield();
    return verdict_kind::ok;
  };
  std::vector<env::candidate_judge*> judges = {&slow, &fast};
  tools::bench_run_options options;
  options.compilers = 8;
  const std::atomic<bool> stop = false;
  tools::run_bench(judges, requests, positions(items), options, stop,
                   [&](std::size_t, const env::verdict&, std::size_t) {
                     ++told;
                     return true;
                   });
  CHECK(told == items);
  CHECK(slow.asked.size() == 1);
  CHECK(fast.asked.size() == items - 1);
}
