// How nodes and their actors end: also where CAF would wait for ever, and where an actor throws.
#include "actors/node.hpp"

#include <future>
#include <new>
#include <stdexcept>
#include <thread>

#include "actors/actor_guard.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::actors;

TEST_CASE("a node ends though an actor that another node knows tells its monitors late") {
  node here, there;
  auto known = here.system().spawn<caf::detached>(
      [](caf::event_based_actor*) { return caf::behavior{[](const tick& beat) { return beat; }}; });
  here.owns(known);
  const auto port = here.system().middleman().publish(known, 0, "127.0.0.1");
  REQUIRE(port);
  {
    const auto found = there.system().middleman().remote_actor("127.0.0.1", *port);
    REQUIRE(found);
    // With the answer this node's broker has heard that the other one has a proxy: it is a monitor.
    caf::scoped_actor asking(there.system());
    bool answered = false;
    asking->request(*found, std::chrono::seconds(60), tick{})
        .receive([&](const tick&) { answered = true; }, [](const caf::error&) {});
    REQUIRE(answered);
  }
  // Attachables are called in reverse order: the broker hears of the end after this. It stays alive
  // as it does where the clock still has its next heartbeat.
  auto broker = here.system().middleman().named_broker<caf::io::basp_broker>(caf::atom("BASP"));
  caf::actor_cast<caf::actor>(known)->attach_functor(
      [broker] { std::this_thread::sleep_for(std::chrono::milliseconds(300)); });
  broker = nullptr;
  known = nullptr;
  CHECK(here.end());
  CHECK(there.end());
}

TEST_CASE("what an actor throws is told as a sentence, and the actor ends") {
  node self;
  std::promise<std::string> told;
  auto thrower = self.system().spawn<caf::detached>([&](caf::event_based_actor* actor) {
    end_on_exception(actor, "thrower", [&](const std::string& what) { told.set_value(what); });
    return caf::behavior{[](const tick&) { throw std::bad_alloc(); }};
  });
  caf::anon_send(thrower, tick{});
  auto what = told.get_future();
  REQUIRE(what.wait_for(std::chrono::seconds(60)) == std::future_status::ready);
  CHECK(test::contains(what.get(), "no memory is left"));
  thrower = nullptr;
  // Nobody tells it to end.
  self.end_actors();
}

TEST_CASE("exceptions out of a limit say which, and what to do") {
  const auto text = [](const auto& problem) {
    return base::exception_text(std::make_exception_ptr(problem));
  };
  const auto system = [](std::errc code) { return std::system_error(std::make_error_code(code)); };
  CHECK(test::contains(text(std::bad_alloc()), "ulimit -v"));
  CHECK(test::contains(text(system(std::errc::resource_unavailable_try_again)), "pids.max"));
  CHECK(test::contains(text(system(std::errc::too_many_files_open)), "ulimit -n"));
  CHECK(text(std::runtime_error("else")) == "else");
  CHECK(test::contains(text(5), "says nothing of itself"));
}
