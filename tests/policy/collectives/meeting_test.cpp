// Ranks that meet over real sockets, as threads of this process.
#include "policy/collectives/meeting.hpp"

#include <thread>

#include <netinet/in.h>
#include <sys/socket.h>

#include "base/bytes.hpp"
#include "base/file.hpp"
#include "policy/collectives/meeting_wire.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::policy;
using base::operator""_ms;
using base::operator""_s;

namespace {

struct rank_group {
  base::temp_folder folder = base::temp_folder::make().value();
  std::vector<std::shared_ptr<meeting>> ranks;

  explicit rank_group(std::int32_t count, watch_limits patience = {60_s, 1_s, 2_s})
      : ranks(static_cast<std::size_t>(count)) {
    std::vector<std::jthread> joining;
    for (std::int32_t i = 0; i < count; ++i)
      joining.emplace_back([&, i] {
        auto joined = meeting::join({"unix:" + (folder.path() / "m").string(), i, count, patience});
        if (joined) ranks[static_cast<std::size_t>(i)] = std::move(*joined);
      });
  }
};

}  // namespace

TEST_CASE("frames are put together from any cut, and a length that cannot be is noticed") {
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  const base::unique_fd one(ends[0]), other(ends[1]);
  const rank_beat sent{5, 6, -7, true, "phase"};
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
  // A stranger that says it is rank 1 of a group that has one is sent away and harms nobody.
  auto stranger = connect_to("unix:" + (group.folder.path() / "m").string());
  REQUIRE(stranger);
  REQUIRE(send_frame(stranger->get(), std::string("\1\1\0\0\0", 5), 100));
  CHECK_FALSE(group.ranks[2]->wait_failure(300_ms));
  group.ranks[2]->cut();
  const auto verdict = group.ranks[0]->wait_failure(5_s);
  REQUIRE(verdict);
  CHECK(verdict->rank == 2);
  CHECK(verdict->fault == rank_fault::gone);
  const base::error error = group.ranks[0]->error_of(verdict, "gradients of layer.1", "");
  CAPTURE(error.message);
  for (const char* part :
       {"rank 0 of 3", "gradients of layer.1", "backward", "version 12", "rank 2"})
    CHECK(error.message.find(part) != std::string::npos);
  REQUIRE(group.ranks[1]->wait_failure(5_s));
  CHECK_FALSE(group.ranks[1]->get("never set"));
}

TEST_CASE("who is alone is told who is missing") {
  const auto folder = base::temp_folder::make().value();
  watch_limits limits;
  limits.arrival = 200_ms;
  const auto joined = meeting::join({"unix:" + (folder.path() / "m").string(), 0, 2, limits});
  REQUIRE_FALSE(joined);
  CHECK(joined.error().message.find("rank 1 has not come") != std::string::npos);
  const auto without_server =
      meeting::join({"unix:" + (folder.path() / "n").string(), 1, 2, limits});
  REQUIRE_FALSE(without_server);
  CHECK(without_server.error().message.find("rank 0 is not at the meeting place") !=
        std::string::npos);
  CHECK_FALSE(meeting::join({"somewhere", 0, 2, limits}));
  CHECK_FALSE(meeting::join({"unix:" + std::string(200, 'x'), 0, 2, limits}));
  CHECK_FALSE(meeting::join({"tcp://nobody", 0, 2, limits}));
  CHECK_FALSE(meeting::join({"unix:/tmp/x", 2, 2, limits}));
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
  std::vector<std::shared_ptr<meeting>> ranks(2);
  {
    std::vector<std::jthread> joining;
    for (std::int32_t i = 0; i < 2; ++i)
      joining.emplace_back([&, i] {
        auto joined =
            meeting::join({"tcp://127.0.0.1:" + std::to_string(port), i, 2, {60_s, 1_s, 2_s}});
        if (joined) ranks[static_cast<std::size_t>(i)] = std::move(*joined);
      });
  }
  REQUIRE(ranks[0]);
  REQUIRE(ranks[1]);
  REQUIRE(ranks[0]->set("k", "v"));
  CHECK(ranks[1]->get("k").value() == "v");
}
