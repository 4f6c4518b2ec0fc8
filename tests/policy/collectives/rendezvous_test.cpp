// Ranks that meet over real sockets, as threads of this process.
#include "policy/collectives/rendezvous.hpp"

#include <thread>

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/bytes.hpp"
#include "base/file.hpp"
#include "policy/collectives/joined_ranks.hpp"
#include "policy/collectives/rendezvous_server.hpp"
#include "policy/collectives/rendezvous_wire.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::policy;
using base::operator""_ms;
using base::operator""_s;

namespace {

using rank_group = quern::test::joined_ranks;

}  // namespace

TEST_CASE("frames are put together from any cut, and a length that cannot be is noticed") {
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  const base::unique_fd one(ends[0]), other(ends[1]);
  const rank_beat sent{5, 6, -7, true, "phase", true, 8, 9};
  frame_reader reader;
  // The bytes of forty frames, in pieces of seven.
  std::string stream;
  base::byte_writer frame;
  frame.text(encode_beat(sent));
  for (int i = 0; i < 40; ++i)
    stream += frame.buffer();
  int found = 0;
  for (std::size_t at = 0; at < stream.size(); at += 7) {
    REQUIRE(base::write_all(one.get(), stream.substr(at, 7)));
    REQUIRE(reader.fill(other.get()));
    while (const auto payload = reader.next()) {
      const auto read = decode_beat(std::string_view(*payload).substr(1));
      REQUIRE(read);
      REQUIRE(*read == sent);
      ++found;
    }
  }
  CHECK(found == 40);
  REQUIRE(send_frame(one.get(), encode_beat(sent), 100));
  REQUIRE(reader.fill(other.get()));
  CHECK(reader.next().value_or("") == encode_beat(sent));
  const rank_verdict verdict{3, rank_fault::silent, 5, sent};
  CHECK(decode_verdict(std::string_view(encode_verdict(verdict)).substr(1)).value() == verdict);
  CHECK_FALSE(decode_verdict("short"));
  REQUIRE(base::write_all(one.get(), std::string(8, '\xff')));
  CHECK(reader.fill(other.get()));
  CHECK_FALSE(reader.next());
  CHECK(reader.broken());
}

TEST_CASE("no more is read ahead than the largest frame, and that one is read") {
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  const base::unique_fd one(ends[0]), other(ends[1]);
  base::byte_writer frame;
  frame.text(std::string(largest_frame, 'g'));
  std::jthread writer([&, fd = one.get()] {
    for (int i = 0; i < 3; ++i)
      (void)base::write_all(fd, frame.buffer());
  });
  frame_reader reader;
  while (reader.held() < frame.buffer().size())
    REQUIRE(reader.fill(other.get()));
  for (int i = 0; i < 20; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    REQUIRE(reader.fill(other.get()));
  }
  CHECK(reader.held() < frame.buffer().size() + 64'000);
  int found = 0;
  while (found < 3) {
    REQUIRE(reader.fill(other.get()));
    while (const auto payload = reader.next()) {
      REQUIRE(payload->size() == largest_frame);
      ++found;
    }
  }
}

TEST_CASE("where packets are dropped a connection is given up within its time") {
  // A listener that accepts nobody: once its queue is full the kernel drops whoever knocks.
  const base::unique_fd full(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(where);
  REQUIRE(::bind(full.get(), reinterpret_cast<const sockaddr*>(&where), size) == 0);
  REQUIRE(::listen(full.get(), 0) == 0);
  REQUIRE(::getsockname(full.get(), reinterpret_cast<sockaddr*>(&where), &size) == 0);
  const std::string address = "tcp://127.0.0.1:" + std::to_string(ntohs(where.sin_port));
  std::vector<base::unique_fd> waiting;
  const base::steady_clock clock;
  base::nanoseconds_t took = 0;
  std::string problem;
  while (problem.empty() && waiting.size() < 8) {
    const base::nanoseconds_t begin = clock.now_ns();
    auto reached = connect_to(address);
    took = clock.now_ns() - begin;
    if (reached)
      waiting.push_back(std::move(*reached));
    else
      problem = reached.error().message;
  }
  CHECK(problem.find("cannot reach the rendezvous place " + address) != std::string::npos);
  CHECK(took >= 500_ms);
  CHECK(took < 10_s);
  // Who does connect gets a socket that waits for what it reads, as before.
  CHECK((::fcntl(waiting.at(0).get(), F_GETFL) & O_NONBLOCK) == 0);
}

TEST_CASE("who never says hello is sent away, who waits for others is not") {
  const auto folder = base::temp_folder::make().value();
  const std::string address = "unix:" + (folder.path() / "m").string();
  const auto server = rendezvous_server::start(address, 3, {60_s, 2_s, 2_s}).value();
  const auto silent = connect_to(address).value(), polite = connect_to(address).value();
  REQUIRE(send_frame(polite.get(), std::string("\1\1\0\0\0", 5), 100));
  pollfd news{silent.get(), POLLIN, 0};
  REQUIRE(::poll(&news, 1, 20'000) == 1);
  char byte = 0;
  CHECK(::recv(silent.get(), &byte, 1, MSG_DONTWAIT) == 0);
  // The other one hears of rank 0's silence at least, on a connection that is open.
  news = {polite.get(), POLLIN, 0};
  REQUIRE(::poll(&news, 1, 20'000) == 1);
  CHECK(::recv(polite.get(), &byte, 1, MSG_DONTWAIT) == 1);
}

TEST_CASE("a directory is asked some times a second, not at once again") {
  const auto listening = listen_at("tcp://127.0.0.1:0").value();
  const std::string address = "tcp://127.0.0.1:" + std::to_string(port_of(listening.get()).value());
  std::jthread joining([&] {
    CHECK_FALSE(rendezvous::join({address + "/group", 1, 2, {1_s, 1_s, 2_s}}));
  });
  int questions = 0;
  pollfd knock{listening.get(), POLLIN, 0};
  while (::poll(&knock, 1, 1500) == 1) {
    const base::unique_fd connection(::accept(listening.get(), nullptr, nullptr));
    ++questions;
  }
  CHECK(questions >= 2);
  CHECK(questions <= 7);
}

TEST_CASE("ranks meet, share values, add up and part") {
  rank_group group(4);
  for (const auto& one : group.ranks)
    REQUIRE(one);
  std::vector<std::jthread> asking;
  std::vector<std::string> got(4);
  for (std::size_t i = 0; i < 4; ++i)
    asking.emplace_back([&, i] {
      got[i] = group.ranks[i]->get("address").value_or("nothing");
      CHECK(group.ranks[i]->add("count", 1));
    });
  REQUIRE(group.ranks[2]->set("address", std::string("a\0b", 3)));
  asking.clear();
  for (const std::string& one : got)
    CHECK(one == std::string("a\0b", 3));
  CHECK(group.ranks[0]->add("count", 0).value() == 4);
  for (const auto& one : group.ranks)
    CHECK_FALSE(one->failure());
  group.ranks.resize(1);
  CHECK_FALSE(group.ranks[0]->wait_failure(300_ms));
}

TEST_CASE(
    "everybody is told of a link that breaks; the error names rank, phase, peer and version") {
  rank_group group(3);
  for (const auto& one : group.ranks)
    REQUIRE(one);
  group.ranks[0]->at("backward", 12);
  // A process that is not admitted that says it is rank 1 of a group that has one is sent away and
  // harms nobody.
  auto unadmitted = connect_to("unix:" + (group.folder.path() / "m").string());
  REQUIRE(unadmitted);
  REQUIRE(send_frame(unadmitted->get(), std::string("\1\1\0\0\0", 5), 100));
  CHECK_FALSE(group.ranks[2]->wait_failure(300_ms));
  group.ranks[2]->cut();
  const auto verdict = group.ranks[0]->wait_failure(60_s);
  REQUIRE(verdict);
  CHECK(verdict->rank == 2);
  CHECK(verdict->fault == rank_fault::gone);
  const base::error error = group.ranks[0]->error_of(verdict, "gradients of layer.1", "");
  CAPTURE(error.message);
  for (const char* part :
       {"rank 0 of 3", "gradients of layer.1", "backward", "version 12", "rank 2"})
    CHECK(error.message.find(part) != std::string::npos);
  REQUIRE(group.ranks[1]->wait_failure(60_s));
  CHECK_FALSE(group.ranks[1]->get("never set"));
}

TEST_CASE("a rank that is busy for longer than it may be is named to all, though nobody waits") {
  rank_group group(3);
  for (const auto& one : group.ranks)
    REQUIRE(one);
  group.ranks[1]->at("waiting for a batch", 7);
  group.ranks[1]->busy("publishing weights", 60_s);
  group.ranks[2]->busy(true);
  CHECK_FALSE(group.ranks[0]->wait_failure(300_ms));
  CHECK(group.ranks[1]->where() == "publishing weights, version 7");
  group.ranks[1]->busy("saving a checkpoint", 400_ms);
  for (const auto& one : group.ranks) {
    const auto verdict = one->wait_failure(60_s);
    REQUIRE(verdict);
    CHECK(verdict->rank == 1);
    CHECK(verdict->fault == rank_fault::overdue);
    const std::string said = one->error_of(verdict, "", "").message;
    CAPTURE(said);
    CHECK(said.find("saving a checkpoint, version 7") != std::string::npos);
    CHECK(said.find("with what may take 0.4 s") != std::string::npos);
  }
}

TEST_CASE("who waits for others is not held to its own limit, and is told who has not come") {
  rank_group group(4);
  for (const auto& one : group.ranks)
    REQUIRE(one);
  group.ranks[0]->at("connecting", 3);
  group.ranks[0]->busy("connecting", 500_ms);
  std::jthread second([&] { CHECK_FALSE(group.ranks[2]->gather("gradients", 1200_ms)); });
  const auto gathered = group.ranks[0]->gather("gradients", 1200_ms);
  second.join();
  REQUIRE_FALSE(gathered);
  CHECK(gathered.error().code == base::errc::unavailable);
  CHECK(gathered.error().message ==
        "rank 0 of 4, gradients in connecting, version 3: rank 1, rank 3 not there within 1.2 s");
  group.ranks[0]->busy(false);
  const auto told = group.ranks[0]->get("address", 3, 100_ms);
  REQUIRE_FALSE(told);
  CHECK(told.error().message ==
        "rank 0 of 4, get address in connecting, version 3: rank 3 has not told it within 0.1 s");
  // An answer that comes when nobody waits for it any more is of no harm.
  REQUIRE(group.ranks[3]->set("address", "late"));
  CHECK(group.ranks[0]->get("address", 3, 60_s).value() == "late");
  CHECK_FALSE(group.ranks[0]->failure());
  std::vector<std::jthread> coming;
  for (const auto& one : group.ranks)
    coming.emplace_back([&] { CHECK(one->gather("later", 60_s)); });
}

TEST_CASE("who is alone is told who is missing") {
  const auto folder = base::temp_folder::make().value();
  watch_limits limits;
  limits.arrival = 200_ms;
  const auto joined = rendezvous::join({"unix:" + (folder.path() / "m").string(), 0, 2, limits});
  REQUIRE_FALSE(joined);
  CHECK(joined.error().message.find("rank 1 has not come") != std::string::npos);
  const auto without_server =
      rendezvous::join({"unix:" + (folder.path() / "n").string(), 1, 2, limits});
  REQUIRE_FALSE(without_server);
  CHECK(without_server.error().message.find("rank 0 is not at the rendezvous place") !=
        std::string::npos);
  CHECK_FALSE(rendezvous::join({"somewhere", 0, 2, limits}));
  CHECK_FALSE(rendezvous::join({"unix:" + std::string(200, 'x'), 0, 2, limits}));
  CHECK_FALSE(rendezvous::join({"tcp://nobody", 0, 2, limits}));
  CHECK_FALSE(rendezvous::join({"unix:/tmp/x", 2, 2, limits}));
}

TEST_CASE("over TCP as well") {
  int port = 0;
  {
    const base::unique_fd taken(::socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(where);
    REQUIRE(::bind(taken.get(), reinterpret_cast<const sockaddr*>(&where), size) == 0);
    REQUIRE(::getsockname(taken.get(), reinterpret_cast<sockaddr*>(&where), &size) == 0);
    port = ntohs(where.sin_port);
  }
  std::vector<std::shared_ptr<rendezvous>> ranks(2);
  {
    std::vector<std::jthread> joining;
    for (std::int32_t i = 0; i < 2; ++i)
      joining.emplace_back([&, i] {
        auto joined =
            rendezvous::join({"tcp://127.0.0.1:" + std::to_string(port), i, 2, {60_s, 1_s, 2_s}});
        if (joined) ranks[static_cast<std::size_t>(i)] = std::move(*joined);
      });
  }
  REQUIRE(ranks[0]);
  REQUIRE(ranks[1]);
  REQUIRE(ranks[0]->set("k", "v"));
  CHECK(ranks[1]->get("k").value() == "v");
}

TEST_CASE("at a directory nobody chooses a port, and several rendezvous have one address") {
  const auto directory = rendezvous_directory::open("127.0.0.2").value();
  REQUIRE(directory->address().starts_with("tcp://127.0.0.2:"));
  const auto address = [&](int number) {
    return directory->address() + "/group-" + std::to_string(number);
  };
  CHECK(name_of_rendezvous(address(1)) == "group-1");
  CHECK(name_of_rendezvous("unix:/a/b").empty());
  CHECK(find_rendezvous("unix:/a/b").value() == "unix:/a/b");
  std::vector<std::shared_ptr<rendezvous>> ranks(4);
  {
    std::vector<std::jthread> joining;
    // The others come first: they ask again until rank 0 is there.
    for (std::int32_t i = 3; i >= 0; --i)
      joining.emplace_back([&, i] {
        rendezvous_options where{address(i / 2), i % 2, 2, {60_s, 1_s, 2_s}};
        where.host = i % 2 == 0 ? "127.0.0.2" : "127.0.0.3";
        if (i % 2 == 0) {
          where.directory = directory;
          std::this_thread::sleep_for(std::chrono::milliseconds(50));
        }
        if (auto joined = rendezvous::join(where))
          ranks[static_cast<std::size_t>(i)] = std::move(*joined);
      });
  }
  for (const auto& rank : ranks)
    REQUIRE(rank);
  CHECK(ranks[1]->host() == "127.0.0.3");
  REQUIRE(ranks[0]->set("k", "of the first"));
  REQUIRE(ranks[2]->set("k", "of the second"));
  CHECK(ranks[1]->get("k").value() == "of the first");
  CHECK(ranks[3]->get("k").value() == "of the second");
  CHECK(find_rendezvous(address(0)));
  ranks.clear();
  // A rendezvous that is over is not found any more, nor is one that never was.
  for (const int number : {0, 7}) {
    const auto found = find_rendezvous(address(number));
    REQUIRE_FALSE(found);
    CHECK(found.error().message.find("has not begun") != std::string::npos);
  }
  const auto late = rendezvous::join({address(0), 1, 2, {100_ms, 1_s, 2_s}});
  REQUIRE_FALSE(late);
  CHECK(late.error().message.find("rank 0 is not at the rendezvous place") != std::string::npos);
}

TEST_CASE("a directory lets silent connections wait, and goes on") {
  const auto directory = rendezvous_directory::open("127.0.0.1").value();
  directory->add("known", 4711);
  // Says nothing; says what is no frame.
  const auto silent = connect_to(directory->address()).value();
  const auto loud = connect_to(directory->address()).value();
  REQUIRE(base::write_all(loud.get(), std::string(64, '\xff')));
  // The silent one is given up within its patience, which is longer than that of one question.
  std::string found;
  for (int i = 0; i < 100 && found.empty(); ++i)
    found = find_rendezvous(directory->address() + "/known").value_or("");
  CHECK(found == "tcp://127.0.0.1:4711");
  CHECK_FALSE(rendezvous_directory::open("192.0.2.1"));
}
