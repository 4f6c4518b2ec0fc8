// The loop of every runner over a socket: what it takes, what it refuses, when it ends.
#include "env/runner/serve.hpp"

#include <functional>
#include <thread>

#include <fcntl.h>
#include <sys/mman.h>

#include "env/runner/channel.hpp"
#include "support/raw_link.hpp"

using namespace quern;
using namespace quern::env::runner;
using env::runner_link;
using test::contains;
using test::raw_link;

namespace {

/// What its handlers saw.
struct noted_runner {
  std::vector<question> asked;
  std::vector<std::byte> body;  ///< of the last one
  std::function<void(const question&)> look = [](const question&) {};

  reply note(const question& q) {
    asked.push_back(q);
    body.assign(q.body.begin(), q.body.end());
    look(q);
    return q.done(q.body.size());
  }
  reply note_run(const question& q, const run_request& r) {
    note(q);
    return q.done(static_cast<std::uint64_t>(r.end - r.begin));
  }
};

reply note(void* runner, const question& asked) {
  return static_cast<noted_runner*>(runner)->note(asked);
}

constexpr std::array all_but_flush{
    command_handler{command::map, &note},
    command_handler{command::load, &note},
    command_handler{command::script, &note},
    command_handler{command::workspace, &note},
    command_handler{command::plan, &note},
    command_handler{command::gpu_open, &note},
    command_handler{command::gpu_import, &note},
    command_handler{command::gpu_load, &note},
    command_handler{command::gpu_tensors, &note},
    command_handler{command::gpu_program, &note},
    command_handler{command::gpu_call, &note},
    command_handler{command::gpu_window, &note},
    command_handler{command::gpu_deliver, &note},
    command_handler{command::gpu_drop, &note},
    command_handler{command::gpu_lock, &note},
    command_handler{command::ask_lane, &note},
    handled_by<command::run, &noted_runner::note_run>(),
};
constexpr std::array few{
    command_handler{command::gpu_import, &note}, command_handler{command::gpu_call, &note},
    command_handler{command::gpu_window, &note}, command_handler{command::gpu_drop, &note},
    command_handler{command::script, &note},
};

/// A server on a thread, and the other end of its socket.
class served {
 public:
  explicit served(std::span<const command_handler> handlers, std::size_t more_room = 0)
      : served(runner_link::make_pair().value(), handlers, more_room) {}
  ~served() { end(); }
  served(const served&) = delete;
  served& operator=(const served&) = delete;

  void start() {
    thread_ = std::thread([this] {
      status_ = serve_commands(server, socket_.get(), buffer_);
      socket_.reset();
    });
  }
  /// Closes the evaluator's end and waits; the status.
  int end() {
    link.close();
    return wait();
  }
  /// Waits for an end that comes by itself.
  int wait() {
    if (thread_.joinable()) thread_.join();
    return status_;
  }

  noted_runner runner;
  command_server server;
  raw_link link;

 private:
  served(std::pair<base::unique_fd, base::unique_fd> ends,
         std::span<const command_handler> handlers, std::size_t more_room)
      : link(std::move(ends.first)),
        socket_(std::move(ends.second)),
        buffer_(longest_message(handlers) + more_room) {
    server.handlers = handlers;
    server.runner = &runner;
  }

  base::unique_fd socket_;
  std::vector<std::byte> buffer_;
  int status_ = -1;
  std::thread thread_;
};

base::unique_fd a_file() {
  return base::unique_fd(memfd_create("serve", MFD_CLOEXEC));
}

}  // namespace

TEST_CASE("each command is taken with what its rule says, and with nothing else") {
  served s(all_but_flush, 64);
  s.start();
  const auto file = a_file();
  const std::array<int, 1> one{file.get()};
  for (const auto& rule : command_rules) {
    if (rule.command_id == command::flush) continue;
    CAPTURE(static_cast<int>(rule.command_id));
    const auto takes = [&](std::size_t bytes, bool descriptor) {
      const std::size_t before = s.runner.asked.size();
      const auto said = s.link.ask(rule.command_id, bytes,
                                   descriptor ? std::span<const int>(one) : std::span<const int>());
      const bool seen = s.runner.asked.size() != before;
      CHECK(seen == (said == "done"));
      return seen;
    };
    using enum descriptor_rule;
    CHECK(takes(rule.least_bytes, true) == (rule.descriptor != none));
    CHECK(takes(rule.least_bytes, false) == (rule.descriptor != needed));
    const bool with = rule.descriptor == needed;
    CHECK(takes(rule.most_bytes, with));
    CHECK_FALSE(takes(rule.most_bytes + 1, with));
    if (rule.least_bytes > 0) CHECK_FALSE(takes(rule.least_bytes - 1, with));
    if (rule.least_bytes > 0) CHECK_FALSE(takes(0, with));
  }
  CHECK(contains(s.link.ask(command::flush, 0), "has no command 6"));
  CHECK(s.end() == 0);
}

TEST_CASE("a handler gets ticket, body and descriptor, which is closed behind it") {
  served s(all_but_flush);
  int seen = -1;
  std::uint64_t ticket_of_signals = 0;
  s.runner.look = [&](const question& q) {
    seen = q.descriptor >= 0 ? fcntl(q.descriptor, F_GETFD) : -2;
    ticket_of_signals = s.server.ticket;
  };
  s.start();
  const run_request range{3, 10};
  s.link.send_with_ticket(7, command::run, std::as_bytes(std::span(&range, 1)));
  auto r = s.link.answer();
  REQUIRE(r.has_value());
  CHECK(r->ticket == 7);
  CHECK(r->value == 7);
  CHECK(seen == -2);
  CHECK(ticket_of_signals == 7);
  const auto file = a_file();
  const std::array<int, 1> one{file.get()};
  std::vector<std::byte> body(sizeof(map_request));
  body[5] = std::byte{42};
  const auto before = test::open_descriptors(getpid());
  s.link.send_with_ticket(900, command::map, body, one);
  r = s.link.answer();
  REQUIRE(r.has_value());
  CHECK(r->ticket == 900);
  CHECK(s.runner.body == body);
  CHECK(ticket_of_signals == 900);
  CHECK(seen == FD_CLOEXEC);
  CHECK(test::open_descriptors(getpid()) == before);
  CHECK(s.end() == 0);
}

TEST_CASE("what no runner takes is refused, and the loop goes on") {
  served s(few, 64);
  s.start();
  test::check_refusals(s.link, getpid());
  for (const auto& asked : s.runner.asked)
    CHECK(asked.body.empty());
  CHECK(s.end() == 0);
}

TEST_CASE("a runner that is not ready says why, to whatever comes") {
  served s(few);
  s.server.refuses = [](const void* runner, command what, outcome& how) -> const char* {
    if (what == command::gpu_drop) return nullptr;
    if (what == command::gpu_call) how = outcome::fault;
    return static_cast<const noted_runner*>(runner)->asked.empty() ? "nothing was asked" : "later";
  };
  s.start();
  CHECK(s.link.ask(command::gpu_import, 3) == "nothing was asked");
  CHECK(s.link.ask(static_cast<command>(99), 3) == "nothing was asked");
  CHECK(s.link.ask(command::gpu_drop, 0) == "done");
  CHECK(s.link.ask(command::gpu_import, 3) == "later");
  s.link.send_with_ticket(100, command::gpu_call, {});
  const auto r = s.link.answer();
  REQUIRE(r.has_value());
  CHECK(r->ticket == 100);
  CHECK(r->reply_outcome == outcome::fault);
  CHECK(s.end() == 0);
}

TEST_CASE("how long the loop looks for the next command is asked behind each") {
  static std::vector<std::pair<command, std::size_t>> behind;
  behind.clear();
  served s(few);
  s.server.awake_behind = [](command what, std::size_t bytes) -> std::int64_t {
    behind.emplace_back(what, bytes);
    return 2'000'000;
  };
  s.start();
  CHECK(s.link.ask(command::gpu_drop, 0) == "done");
  CHECK(s.link.ask(command::gpu_call, 5) != "done");
  // Longer than it is awake: it sleeps, and is woken.
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(s.link.ask(command::gpu_drop, 0) == "done");
  CHECK(s.end() == 0);
  CHECK(behind == std::vector<std::pair<command, std::size_t>>{
                      {command::gpu_drop, 0}, {command::gpu_call, 5}, {command::gpu_drop, 0}});
}

TEST_CASE("the loop ends where no message can be answered, and when the evaluator is gone") {
  SUBCASE("end of file") {
    served s(few);
    s.start();
    CHECK(s.end() == 0);
  }
  SUBCASE("a message shorter than a header") {
    served s(few);
    s.start();
    CHECK(s.link.ask(command::gpu_drop, 0) == "done");
    s.link.send_bytes(std::vector<std::byte>(sizeof(header) - 1));
    CHECK_FALSE(s.link.answer().has_value());
    CHECK(s.end() == 0);
    CHECK(s.runner.asked.size() == 1);
  }
  SUBCASE("a message longer than any command") {
    served s(few);
    s.start();
    s.link.send_with_ticket(1, command::script, std::vector<std::byte>(sizeof(script_request) + 1));
    CHECK_FALSE(s.link.answer().has_value());
    CHECK(s.end() == 0);
    CHECK(s.runner.asked.empty());
  }
  SUBCASE("the evaluator leaves in the middle of a body") {
    served s(few);
    s.link.send_with_ticket(1, command::gpu_call,
                            std::vector<std::byte>(sizeof(gpu_call_request) / 2));
    s.link.close();
    s.start();
    CHECK(s.wait() == 0);
    CHECK(s.runner.asked.empty());
  }
  SUBCASE("the evaluator leaves without its answer") {
    served s(few);
    s.runner.look = [&](const question&) { s.link.close(); };
    s.link.send_with_ticket(1, command::gpu_drop, {});
    s.start();
    CHECK(s.wait() == 0);
    CHECK(s.runner.asked.size() == 1);
  }
  SUBCASE("a socket that is none") {
    command_server server;
    std::vector<std::byte> buffer(sizeof(header));
    const auto file = a_file();
    CHECK(serve_commands(server, file.get(), buffer) == lost_socket_status);
    CHECK(serve_commands(server, -1, buffer) == lost_socket_status);
  }
}
