// A dispatch actor for tests: between an evaluator host that speaks the protocol by hand and an
// orchestrator actor that only listens.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>

#include "actors/dispatch_actor.hpp"
#include "actors/node.hpp"
#include "base/file.hpp"
#include "env/plugin/zmq_socket.hpp"
#include "support/test.hpp"

namespace quern::test {

using namespace quern::actors;

/// What the orchestrator actor was told. Thread-safe.
class told {
 public:
  void withdrawn(const jobs_withdrawn& news) {
    const std::lock_guard lock(guard_);
    for (const sample_id sample : news.samples)
      withdrawn_.push_back(sample);
    changed_.notify_all();
  }
  void verdict(const sample_verdict& news) {
    const std::lock_guard lock(guard_);
    verdicts_.push_back(news);
    changed_.notify_all();
  }
  /// Once there are so many of both; at most a minute.
  bool wait_for(std::size_t withdrawn, std::size_t verdicts) {
    std::unique_lock lock(guard_);
    return changed_.wait_for(lock, std::chrono::minutes(1), [&] {
      return withdrawn_.size() >= withdrawn && verdicts_.size() >= verdicts;
    });
  }
  std::vector<sample_id> all_withdrawn() {
    const std::lock_guard lock(guard_);
    return withdrawn_;
  }
  std::vector<sample_verdict> all_verdicts() {
    const std::lock_guard lock(guard_);
    return verdicts_;
  }

 private:
  std::mutex guard_;
  std::condition_variable changed_;
  std::vector<sample_id> withdrawn_;
  std::vector<sample_verdict> verdicts_;
};

inline orchestrator_ref::behavior_type listener(orchestrator_ref::pointer, told* ears) {
  const auto nobody = [] { return caf::make_error(caf::sec::runtime_error, "nobody joins here"); };
  return {
      [=](const hello&, const generator_ref&) -> caf::result<welcome> { return nobody(); },
      [=](const hello&, const learner_ref&) -> caf::result<welcome> { return nobody(); },
      [](const generation_credit&) {},
      [](const weights_installed&) {},
      [](const generated_sample&) {},
      [=](const sample_verdict& news) { ears->verdict(news); },
      [=](const jobs_withdrawn& news) { ears->withdrawn(news); },
      [](const learner_ready&) {},
      [](const step_done&) {},
      [](const weights_ready&) {},
      [](const checkpoint_saved&) {},
      [](const process_check&) {},
      [](const drain&) {},
      [](const fatal_problem&) {},
      [](const tick&) {},
  };
}

/// The next message of type T that the host gets; others are passed over.
template <class T>
T next(env::zmq_socket& socket) {
  while (true) {
    REQUIRE(env::wait_for(socket, -1, 60'000).socket);
    const auto in = socket.receive().value();
    if (!in) continue;
    const auto what = env::decode(in->parts).value();
    if (const auto* wanted = std::get_if<T>(&what)) return *wanted;
  }
}

/// A run of lane cpp with one task.
inline run_config small_config() {
  run_config config;
  config.tasks.count = 1;
  config.tasks.held_out_count = 0;
  return config;
}

/// A dispatch actor, and a host that says only what a test has it say.
struct dispatching {
  base::temp_folder folder = base::temp_folder::make().value();
  run_config config;
  std::optional<task_book> tasks;
  std::shared_ptr<device_board> board = std::make_shared<device_board>();
  told ears;
  node self;
  std::optional<dispatch_ref> dispatch;
  env::zmq_context context;
  std::optional<env::zmq_socket> host;

  explicit dispatching(run_config of = small_config(), std::string device_class = "cpp-test")
      : config(std::move(of)) {
    tasks.emplace(task_book::make(config).value());
    const auto sink = std::make_shared<dispatch_sink>();
    sink->orchestrator = self.system().spawn(listener, &ears);
    self.owns(sink->orchestrator);
    dispatch_setup setup{&config, &*tasks, std::move(device_class), 1, {}};
    setup.gateway.endpoints = {"ipc://" + (folder.path() / "hosts").string()};
    setup.gateway.incarnation = 1;
    setup.gateway.heartbeat_ms = 60'000;  // the host says nothing by itself
    setup.board = board;
    auto made = spawn_dispatch(self.system(), setup, sink);
    REQUIRE(made);
    self.owns(*made);
    dispatch.emplace(std::move(*made));
    host.emplace(env::zmq_socket::open(context, env::socket_kind::dealer).value());
    REQUIRE(host->connect(sink->endpoints.at(0)));
  }
  void say(const env::message& what) {
    REQUIRE(host->send({}, env::encode(what).value()) == env::send_outcome::sent);
  }
  /// Whether so many devices take work; waits for it.
  bool comes_to(std::size_t working) const {
    for (int i = 0; i < 3000 && board->working() != working; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return board->working() == working;
  }
  /// Lets the host in; its session.
  std::uint64_t join(const std::string& name = "", std::uint64_t nonce = 7) {
    env::hello_message hello{1, 1, "raw", nonce, {"cpp"}, {{0, "cpp-test", 1}}};
    hello.name = name;
    say(hello);
    return next<env::welcome_message>(*host).session;
  }
};

}  // namespace quern::test
