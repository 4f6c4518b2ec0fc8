// Weights from a learner to generators over links: a sender and receivers with generators behind
// them, over Gloo in this process.
#include <chrono>
#include <condition_variable>
#include <optional>
#include <thread>

#include <unistd.h>

#include "actors/workers/weight_receiver.hpp"
#include "actors/workers/weight_sender.hpp"
#include "base/file.hpp"
#include "policy/engine/small_models.hpp"
#include "support/test.hpp"
#include "tests/actors/workers/stopped_pupil.hpp"

using namespace quern;
using namespace quern::actors;
using base::operator""_s;
using test::stopped_pupil;

namespace {

constexpr std::int32_t learner_ranks = 4;

policy::model_config model() {
  return test::small_config(policy::architecture::qwen3);
}

/// The same weights for the same version, laid out for the ranks of a learner or for a generator.
policy::parameter_arena weights_of(weights_version version, std::int32_t ranks = 1,
                                   at::ScalarType type = at::kFloat) {
  policy::layout place;
  place.ranks = ranks;
  return policy::parameter_arena::random(model(), static_cast<std::uint64_t>(version) + 1, type,
                                         at::kCPU, place)
      .value();
}

weights_ready announcement(weights_version version) {
  return {1, version, weights_of(version).hash(), ""};
}

template <class Condition>
bool comes_true(Condition condition) {
  const base::steady_clock clock;
  const base::nanoseconds_t deadline = clock.now_ns() + 60_s;
  while (!condition()) {
    if (clock.now_ns() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

/// A generator with its end of a link.
class pupil {
 public:
  explicit pupil(const std::string& address, std::int32_t ranks = learner_ranks,
                 at::ScalarType type = at::kFloat, const std::string& host = "127.0.0.1")
      : engine_(make_engine(type)) {
    weight_source from;
    from.address = address;
    from.host = host;
    from.model = model();
    from.ranks = ranks;
    from.type = type;
    link_ = weight_receiver::make(from, {}, [this](const std::string& problem) {
              const std::lock_guard lock(mutex_);
              ++(problem.empty() ? arrivals_ : problems_);
              if (!problem.empty()) problem_ = problem;
            }).value();
    link_->inbox().begin(engine_.landing());
  }

  policy::generator& engine() { return engine_; }
  weight_inbox& link() { return link_->inbox(); }
  void die() { link_.reset(); }
  int arrivals() const {
    const std::lock_guard lock(mutex_);
    return arrivals_;
  }
  std::string problem() const {
    const std::lock_guard lock(mutex_);
    return problem_;
  }
  /// Whether the announced version comes and is installed.
  bool installs(weights_version version) {
    link_->inbox().announce(announcement(version));
    return comes_true([&] {
             const auto done = link_->inbox().install(engine_);
             REQUIRE_MESSAGE(done, (done ? "" : done.error().message));
             return engine_.version() == version;
           }) &&
           engine_.weights_hash() == weights_of(version).hash();
  }

 private:
  static policy::generator make_engine(at::ScalarType type) {
    policy::generator_options options;
    options.rows = 4;
    options.slots = 2;
    return std::move(policy::generator::make(weights_of(0, 1, type), 0, options)).value();
  }

  policy::generator engine_;
  mutable std::mutex mutex_;
  int arrivals_ = 0, problems_ = 0;
  std::string problem_;
  std::unique_ptr<weight_receiver> link_;
};

struct fixture {
  base::temp_folder folder = std::move(base::temp_folder::make().value());
  std::unique_ptr<weight_sender> sender =
      weight_sender::make(weights_of(0, learner_ranks), 0).value();

  std::string address(const std::string& name) const {
    return "unix:" + (folder.path() / name).string();
  }
  /// As a learner does: in one arena that changes in place.
  void publish(weights_version version) {
    trained.flat.copy_(weights_of(version, learner_ranks).flat);
    sender->publish(trained, version);
  }
  policy::parameter_arena trained = weights_of(0, learner_ranks);
};

}  // namespace

TEST_CASE("every version reaches every generator, from a layout for four ranks into a plain one") {
  fixture f;
  pupil one(f.address("1")), two(f.address("2"));
  f.sender->open(f.address("1"));
  f.sender->open(f.address("2"));
  for (weights_version version = 1; version <= 4; ++version) {
    f.publish(version);
    CHECK(one.installs(version));
    CHECK(two.installs(version));
  }
  CHECK(f.sender->links() == 2);
  CHECK(one.arrivals() == 4);
}

TEST_CASE("between hosts links are found in the directory of the learner's rank 0") {
  fixture f;
  const auto directory = policy::rendezvous_directory::open("127.0.0.2").value();
  f.sender = weight_sender::make(weights_of(0, learner_ranks), 0, {"127.0.0.2", directory}).value();
  const auto address = [&](const char* name) { return directory->address() + "/" + name; };
  pupil one(address("1"), learner_ranks, at::kFloat, "127.0.0.3");
  pupil two(address("2"), learner_ranks, at::kFloat, "127.0.0.4");
  f.sender->open(address("1"));
  f.sender->open(address("2"));
  f.publish(1);
  CHECK(one.installs(1));
  CHECK(two.installs(1));
  two.die();
  f.publish(2);
  CHECK(one.installs(2));
  CHECK(comes_true([&] { return f.sender->links() == 1; }));
}

TEST_CASE("a slow generator holds nobody up, and gets the newest version when it has room") {
  fixture f;
  pupil slow(f.address("slow")), quick(f.address("quick"));
  f.sender->open(f.address("slow"));
  f.sender->open(f.address("quick"));
  f.publish(1);
  REQUIRE(comes_true([&] { return slow.arrivals() == 1; }));
  CHECK(quick.installs(1));
  for (weights_version version = 2; version <= 7; ++version) {
    f.publish(version);
    CHECK(quick.installs(version));
  }
  CHECK(slow.engine().version() == 0);
  CHECK(slow.installs(1));
  CHECK(slow.installs(7));
  CHECK(slow.arrivals() == 2);
}

TEST_CASE("what comes ahead of its announcement waits for it, what is older makes room") {
  fixture f;
  pupil one(f.address("m"));
  f.sender->open(f.address("m"));
  f.publish(1);
  REQUIRE(comes_true([&] { return one.arrivals() == 1; }));
  CHECK(one.link().install(one.engine()) == false);
  CHECK(one.engine().version() == 0);
  // Version 2 was announced before version 1 could be installed.
  one.link().announce(announcement(2));
  CHECK(one.link().install(one.engine()) == false);
  f.publish(2);
  REQUIRE(comes_true([&] { return one.arrivals() == 2; }));
  CHECK(one.engine().version() == 0);
  CHECK(one.installs(2));
}

TEST_CASE("a generator that comes late gets the newest version at once") {
  fixture f;
  for (weights_version version = 1; version <= 3; ++version)
    f.publish(version);
  f.sender->open(f.address("late"));
  pupil late(f.address("late"));
  CHECK(late.installs(3));
  CHECK(late.arrivals() == 1);
}

TEST_CASE("weights that are not the announced ones are refused, and the link goes on") {
  fixture f;
  pupil one(f.address("m"));
  f.sender->open(f.address("m"));
  f.publish(1);
  CHECK(one.installs(1));
  f.publish(2);
  REQUIRE(comes_true([&] { return one.arrivals() == 2; }));
  weights_ready wrong = announcement(2);
  ++wrong.hash.low;
  one.link().announce(wrong);
  const auto refused = one.link().install(one.engine());
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == base::errc::corrupt);
  CHECK(test::contains(refused.error().message, "version 1 stays"));
  CHECK(one.engine().version() == 1);
  CHECK(one.engine().weights_hash() == weights_of(1).hash());
  f.publish(3);
  CHECK(one.installs(3));
}

TEST_CASE("a generator that dies costs its own link, and the next one has another") {
  fixture f;
  pupil dying(f.address("1")), living(f.address("2"));
  f.sender->open(f.address("1"));
  f.sender->open(f.address("2"));
  f.publish(1);
  CHECK(dying.installs(1));
  CHECK(living.installs(1));
  dying.die();
  f.publish(2);
  CHECK(living.installs(2));
  CHECK(comes_true([&] { return f.sender->links() == 1; }));
  f.sender->open(f.address("3"));
  pupil next(f.address("3"));
  CHECK(next.installs(2));
  f.publish(3);
  CHECK(living.installs(3));
  CHECK(next.installs(3));
  CHECK(f.sender->links() == 2);
  CHECK(living.problem().empty());
}

TEST_CASE("a generator hears that its learner is gone, and keeps what it has") {
  fixture f;
  pupil one(f.address("m"));
  f.sender->open(f.address("m"));
  f.publish(1);
  CHECK(one.installs(1));
  f.sender.reset();
  CHECK(comes_true([&] { return !one.problem().empty(); }));
  CAPTURE(one.problem());
  CHECK(test::contains(one.problem(), "rank 0"));
  CHECK(one.engine().version() == 1);
}

TEST_CASE("ends whose other end never comes can be ended") {
  fixture f;
  f.sender->open(f.address("nobody"));
  CHECK(f.sender->links() == 1);
  f.publish(1);
  f.publish(2);
  pupil alone(f.address("no learner"));
  alone.die();
  f.sender.reset();
  CHECK(alone.problem().empty());
}

TEST_CASE("weights that change while they are sent arrive as they were announced") {
  fixture f;
  pupil one(f.address("1")), two(f.address("2"));
  f.sender->open(f.address("1"));
  f.sender->open(f.address("2"));
  constexpr weights_version last = 60;
  for (weights_version version = 1; version < last; ++version) {
    f.publish(version);
    for (pupil* each : {&one, &two}) {
      each->link().announce(announcement(version));
      const auto done = each->link().install(each->engine());
      REQUIRE_MESSAGE(done, (done ? "" : done.error().message));
    }
  }
  // While both copies are being sent a version is not offered; the learner tries that again.
  f.trained.flat.copy_(weights_of(last, learner_ranks).flat);
  CHECK(comes_true([&] { return f.sender->publish(f.trained, last); }));
  CHECK(one.installs(last));
  CHECK(two.installs(last));
}

namespace {

/// Weights that no buffer of a connection holds.
policy::parameter_arena large_weights() {
  policy::model_config config = model();
  config.vocab_size = 400'000;
  return policy::parameter_arena::random(config, 1).value();
}

}  // namespace

TEST_CASE("where links send both copies a version is not offered, and nobody waits") {
  const base::temp_folder folder = std::move(base::temp_folder::make().value());
  const auto address = [&](const char* name) { return "unix:" + (folder.path() / name).string(); };
  const policy::parameter_arena weights = large_weights();
  const auto sender = weight_sender::make(weights, 0).value();
  sender->open(address("1"));
  auto first = std::make_optional<stopped_pupil>(address("1"), weights);
  sender->open(address("2"));
  stopped_pupil second(address("2"), weights);
  CHECK(sender->publish(weights, 1));
  REQUIRE(first->ask() == 1);
  CHECK(sender->publish(weights, 2));
  REQUIRE(second.ask() == 2);
  CHECK_FALSE(sender->publish(weights, 3));
  // One of them is gone: there is a copy for the version that was skipped.
  first.reset();
  CHECK(comes_true([&] { return sender->publish(weights, 3); }));
}

namespace {

/// Runs `end`; whether that took less than `seconds`.
template <class End>
bool ends_within(double seconds, End end) {
  const auto begin = std::chrono::steady_clock::now();
  end();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() < seconds;
}

/// A GPU that no other test knows.
env::device_turn some_turn() {
  static const std::string id = "test-" + std::to_string(::getpid());
  return env::device_turn::open(id).value();
}

}  // namespace

TEST_CASE("an end does not wait for a generator that takes nothing") {
  const base::temp_folder folder = std::move(base::temp_folder::make().value());
  const std::string address = "unix:" + (folder.path() / "1").string();
  const policy::parameter_arena weights = large_weights();
  auto sender = weight_sender::make(weights, 0).value();
  sender->open(address);
  stopped_pupil stopped(address, weights);
  CHECK(sender->publish(weights, 1));
  REQUIRE(stopped.ask() == 1);
  CHECK(ends_within(30, [&] { sender.reset(); }));
}

TEST_CASE("an end does not wait for a device that others have") {
  fixture f;
  auto others = some_turn();
  REQUIRE(others.wait(20));
  // Its link waits for the device to warm up.
  pupil one(f.address("1"));
  f.sender->open(f.address("1"), device_share(some_turn()));
  f.publish(1);
  std::this_thread::sleep_for(std::chrono::seconds(1));
  CHECK(ends_within(30, [&] { f.sender.reset(); }));
}

TEST_CASE("an end does not wait for a version that was never written") {
  const base::temp_folder folder = std::move(base::temp_folder::make().value());
  const auto address = [&](const char* name) { return "unix:" + (folder.path() / name).string(); };
  const policy::parameter_arena weights = large_weights();
  auto sender = weight_sender::make(weights, 0).value();
  auto others = some_turn();
  sender->open(address("1"));
  stopped_pupil first(address("1"), weights);
  sender->open(address("2"), device_share(some_turn()));
  stopped_pupil second(address("2"), weights);
  CHECK(sender->publish(weights, 1));
  REQUIRE(first.ask() == 1);
  CHECK(sender->publish(weights, 2));
  // The second link has seen version 2 and waits for the device, while that is written over, and
  // the writing fails.
  REQUIRE(others.wait(20));
  std::thread asks([&] { second.try_ask(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  CHECK_THROWS(sender->publish(weights_of(1), 3));
  others.give_back();
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  CHECK(ends_within(30, [&] { sender.reset(); }));
  asks.join();
}

TEST_CASE("ends that do not mean the same transfer part before anything is sent") {
  fixture f;
  pupil other(f.address("m"), 2);
  f.sender->open(f.address("m"));
  f.publish(1);
  CHECK(comes_true([&] { return !other.problem().empty(); }));
  CHECK(other.arrivals() == 0);
  CHECK(comes_true([&] { return f.sender->links() == 0; }));
}

TEST_CASE("bfloat16 weights arrive with the bits and the hash that the learner has") {
  fixture f;
  const auto half = [](weights_version version) {
    return weights_of(version, learner_ranks, at::kBFloat16);
  };
  f.sender = weight_sender::make(half(0), 0).value();
  pupil one(f.address("m"), learner_ranks, at::kBFloat16);
  f.sender->open(f.address("m"));
  f.sender->publish(half(1), 1);
  one.link().announce({1, 1, half(1).hash(), ""});
  CHECK(comes_true([&] { return one.link().install(one.engine()).value(); }));
  CHECK(one.engine().version() == 1);
  CHECK(one.engine().weights_hash() == half(1).hash());
  policy::generation_request request;
  request.prompt = {1, 2, 3};
  request.max_tokens = 4;
  REQUIRE(one.engine().submit({&request, 1}));
  CHECK(one.engine().run().size() == 1);
}
