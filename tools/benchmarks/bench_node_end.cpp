// Begins and ends pairs of connected nodes until one does not end, and shows then what its threads
// wait for.
//
//   bench_node_end [PAIRS] [SEED]     1000 pairs; exit code 1: one has not ended within 20 s
#include <atomic>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <thread>

#include <fmt/core.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "actors/node.hpp"

namespace {

using namespace quern::actors;
using namespace std::chrono_literals;

constexpr auto longest_end = 20s;

struct control_state {
  control_state() = default;
  // Not an aggregate: see QUERN_STATE.
  ~control_state() {}
  std::vector<generator_ref> generators;
};
QUERN_STATE(control_state);

/// Like the head of a closing comparison or of a run: published, monitors who comes, sends and is
/// sent messages, has messages of its own in the clock.
orchestrator_ref::behavior_type control_actor(
    orchestrator_ref::stateful_pointer<control_state> self) {
  self->set_down_handler([](const caf::down_msg&) {});
  self->delayed_send(self, 60s, tick{});
  return {[=](const hello&, const generator_ref& who) -> caf::result<welcome> {
            self->monitor(who);
            self->state.generators.push_back(who);
            return welcome{};
          },
          [](const hello&, const learner_ref&) -> caf::result<welcome> { return welcome{}; },
          [=](const generation_credit&) {
            for (const generator_ref& who : self->state.generators)
              self->send(who, tick{});
          },
          [](const weights_installed&) {},
          [](const generated_sample&) {},
          [](const sample_verdict&) {},
          [](const jobs_withdrawn&) {},
          [](const learner_ready&) {},
          [](const step_done&) {},
          [](const weights_ready&) {},
          [](const checkpoint_saved&) {},
          [](const process_check&) {},
          [](const drain&) {},
          [](const fatal_problem&) {},
          [](const tick&) {}};
}

struct worker_state {
  worker_state() = default;
  // Not an aggregate: see QUERN_STATE.
  ~worker_state() {}
  orchestrator_ref control;
  int left = 0;
};
QUERN_STATE(worker_state);

/// Like a generator: greets, then exchanges `messages` with control.
generator_ref::behavior_type worker_actor(generator_ref::stateful_pointer<worker_state> self,
                                          orchestrator_ref control, int messages,
                                          std::function<void()> farewell) {
  self->attach_functor([farewell = std::move(farewell)] { farewell(); });
  self->state.control = control;
  self->state.left = messages;
  self->monitor(control);
  self->set_down_handler(
      [=](const caf::down_msg&) { self->quit(caf::exit_reason::remote_link_unreachable); });
  self->request(control, 30s, hello{}, caf::actor_cast<generator_ref>(self))
      .then([=](const welcome&) { self->send(self->state.control, generation_credit{}); },
            [=](const caf::error&) { self->quit(caf::exit_reason::user_shutdown); });
  return {[](const generate_group&) {}, [](const weights_ready&) {},
          [](const cancel_generation&) {}, [](const weights_arrived&) {},
          [=](const tick&) {
            if (--self->state.left > 0) self->send(self->state.control, generation_credit{});
          }};
}

/// Ends the process with the stacks of its threads where an end takes too long.
class end_watch {
 public:
  void begin(std::string_view what) {
    const std::lock_guard lock(mutex_);
    ending_ = what;
    since_ = std::chrono::steady_clock::now();
  }
  void over() {
    const std::lock_guard lock(mutex_);
    ending_.clear();
  }
  [[noreturn]] void run() {
    while (true) {
      std::this_thread::sleep_for(200ms);
      const std::lock_guard lock(mutex_);
      if (!ending_.empty() && std::chrono::steady_clock::now() - since_ > longest_end) dump();
    }
  }

 private:
  [[noreturn]] void dump() const {
    fmt::print("{} has not ended; its threads:\n", ending_);
    std::fflush(stdout);
    ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    const std::string self = std::to_string(::getpid());
    const pid_t child = ::fork();
    if (child == 0) {
      ::execlp("gdb", "gdb", "-p", self.c_str(), "-batch", "-nx", "-ex", "thread apply all bt",
               static_cast<char*>(nullptr));
      std::_Exit(127);
    }
    ::waitpid(child, nullptr, 0);
    std::_Exit(EXIT_FAILURE);
  }

  std::mutex mutex_;
  std::string ending_;
  std::chrono::steady_clock::time_point since_;
};

/// One node with its actors, another that connects, and both ends beside each other.
void pair(end_watch& watch, std::mt19937& random) {
  const auto draw = [&](int most) {
    return static_cast<int>(random() % static_cast<unsigned>(most));
  };
  auto control = std::make_unique<node>();
  auto worker = std::make_unique<node>();
  {
    const orchestrator_ref head = control->system().spawn<caf::detached>(control_actor);
    control->owns(head);
    const auto port = listen_for_processes(control->system(), head, "127.0.0.1");
    if (!port) {
      fmt::print("{}\n", port.error().message);
      std::exit(EXIT_FAILURE);
    }
    const auto found = connect_to_control(worker->system(), {"127.0.0.1", *port});
    if (!found) {
      fmt::print("{}\n", found.error().message);
      std::exit(EXIT_FAILURE);
    }
    worker->owns(worker->system().spawn<caf::detached>(worker_actor, *found, 1 + draw(20),
                                                       std::function<void()>(worker->farewell())));
  }
  std::this_thread::sleep_for(std::chrono::microseconds(draw(3000)));
  const int later = draw(2000) - 1000;
  watch.begin("a pair of nodes");
  std::thread other([&] {
    if (later > 0) std::this_thread::sleep_for(std::chrono::microseconds(later));
    worker.reset();
  });
  if (later < 0) std::this_thread::sleep_for(std::chrono::microseconds(-later));
  control.reset();
  other.join();
  watch.over();
}

}  // namespace

int main(int argc, char** argv) {
  const auto number = [&](int place, int usual) {
    int value = usual;
    if (argc > place) {
      const std::string_view text = argv[place];
      std::from_chars(text.data(), text.data() + text.size(), value);
    }
    return value;
  };
  const int pairs = number(1, 1000);
  std::mt19937 random(static_cast<unsigned>(number(2, 1)));
  end_watch watch;
  std::thread([&] { watch.run(); }).detach();
  const auto start = std::chrono::steady_clock::now();
  double longest = 0;
  for (int i = 0; i < pairs; ++i) {
    if (i % 1000 == 0) std::fprintf(stderr, "%d pairs have ended\n", i);
    const auto before = std::chrono::steady_clock::now();
    pair(watch, random);
    longest = std::max(
        longest, std::chrono::duration<double>(std::chrono::steady_clock::now() - before).count());
  }
  const double all =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  fmt::print("{} pairs of nodes began and ended in {:.1f} s; the longest took {:.2f} s\n", pairs,
             all, longest);
  std::fflush(stdout);
  std::_Exit(EXIT_SUCCESS);
}
