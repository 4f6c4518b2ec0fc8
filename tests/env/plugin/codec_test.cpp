// The frames of the host protocol: what is written can be read, what is broken is refused by name.
#include "base/file.hpp"
#include "base/json.hpp"
#include "env/plugin/message_codec.hpp"
#include "support/test.hpp"
#include "tests/env/plugin/samples.hpp"

namespace {

using namespace quern;
using env::decode;
using env::encode;

constexpr auto kinds = std::variant_size_v<env::message>;

TEST_CASE("every message survives its frames") {
  base::random_stream random(1, "codec");
  for (int round = 0; round < 200; ++round) {
    for (std::size_t kind = 0; kind < kinds; ++kind) {
      const auto what = env::test::random_message(kind, random);
      const auto parts = encode(what);
      REQUIRE(parts);
      const auto back = decode(*parts);
      REQUIRE_MESSAGE(back, (back ? "" : back.error().message));
      CHECK(*back == what);
    }
  }
}

TEST_CASE("the frames are those of the golden file") {
  std::string text;
  for (const auto& what : env::test::one_of_each()) {
    const auto parts = encode(what);
    REQUIRE(parts);
    for (const auto& part : *parts)
      text += base::dump(base::json(part)) + "\n";
    text += "\n";
  }
  const auto golden = base::read_file(test::source_dir() / "tests/golden/host_protocol/frames.txt");
  REQUIRE(golden);
  CHECK(text == *golden);
}

TEST_CASE("header values are integers and strings, nothing else") {
  for (const auto& what : env::test::one_of_each()) {
    const auto parts = encode(what);
    REQUIRE(parts);
    const auto header = base::parse_json((*parts)[2]);
    REQUIRE(header);
    const base::json leaves = header->flatten();
    for (const auto& [name, value] : leaves.items()) {
      CHECK((value.is_number_integer() || value.is_string()));
    }
  }
}

TEST_CASE("an unknown field is ignored, a missing or wrong one is named") {
  for (const auto& what : env::test::one_of_each()) {
    const auto parts = *encode(what);
    auto header = *base::parse_json(parts[2]);
    auto more = parts;
    header["a_field_of_next_year"] = {1, "x", {{"y", 2.5}}};
    more[2] = base::dump(header);
    const auto read = decode(more);
    REQUIRE(read);
    CHECK(*read == what);
    const base::json original = *base::parse_json(parts[2]);
    for (const auto& [name, value] : original.items()) {
      auto less = header;
      less.erase(name);
      more[2] = base::dump(less);
      const auto missing = decode(more);
      REQUIRE_FALSE(missing);
      CHECK(missing.error().message.find("'" + name + "'") != std::string::npos);
      for (const base::json& wrong : {base::json(1.5), base::json(true), base::json(nullptr)}) {
        less[name] = wrong;
        more[2] = base::dump(less);
        CHECK_FALSE(decode(more));
      }
    }
  }
}

TEST_CASE("numbers that do not fit are refused") {
  const auto parts = *encode(env::credit_message{1, 0, 1});
  const auto with = [&](const std::string& header) {
    auto changed = parts;
    changed[2] = header;
    return decode(changed);
  };
  CHECK(with(R"({"session":"ff","device":0,"n":9007199254740992})"));
  for (const char* header :
       {R"({"session":"ff","device":0,"n":9007199254740993})",
        R"({"session":"ff","device":0,"n":1e3})", R"({"session":"","device":0,"n":1})",
        R"({"session":"fffffffffffffffff","device":0,"n":1})",
        R"({"session":"0x1","device":0,"n":1})", R"({"session":255,"device":0,"n":1})",
        R"({"session":"ff","device":0,"n":18446744073709551615})", R"([1])", R"({"session")", ""}) {
    CHECK_FALSE(with(header));
  }
}

TEST_CASE("each kind of refusal has its own code") {
  const auto code = [](const env::frames& parts) {
    const auto what = decode(parts);
    REQUIRE_FALSE(what);
    return what.error().code;
  };
  CHECK(code({}) == base::errc::version);
  CHECK(code({"QRN2", "HELLO", "{}"}) == base::errc::version);
  CHECK(code({"QRN1", "HELLO"}) == base::errc::invalid_argument);
  CHECK(code({"QRN1", "DANCE", "{}"}) == base::errc::not_found);
  CHECK(code({"QRN1", "TASK", R"({"task_hash":"00000000000000000000000000000000"})"}) ==
        base::errc::invalid_argument);
  CHECK(code({"QRN1", "HEARTBEAT", std::string(env::max_header_bytes + 1, ' ')}) ==
        base::errc::exhausted);
  CHECK(code(env::frames(env::max_frames + 1, "QRN1")) == base::errc::exhausted);
  CHECK(code({"QRN1", "VERDICT", "{}", std::string(env::max_frame_bytes + 1, 'x')}) ==
        base::errc::exhausted);
  const auto large = encode(env::verdict_message{1, 2, std::string(env::max_frame_bytes + 1, 'x')});
  REQUIRE_FALSE(large);
  CHECK(large.error().code == base::errc::exhausted);
}

TEST_CASE("broken frames never do more than fail") {
  base::random_stream random(2, "fuzz");
  int read = 0;
  for (int round = 0; round < 20000; ++round) {
    auto parts = *encode(env::test::random_message(random.below(kinds), random));
    for (auto n = 1 + random.below(4); n > 0; --n) {
      auto& part = parts[random.below(parts.size())];
      switch (random.below(5)) {
        case 0:
          if (!part.empty()) part[random.below(part.size())] = static_cast<char>(random.below(256));
          break;
        case 1:
          part.resize(random.below(part.size() + 1));
          break;
        case 2:
          part.insert(random.below(part.size() + 1), 1, static_cast<char>(random.below(256)));
          break;
        case 3:
          if (parts.size() > 1)
            parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(random.below(parts.size())));
          break;
        default:
          std::swap(part, parts[random.below(parts.size())]);
          break;
      }
    }
    const auto what = decode(parts);
    if (what) {
      ++read;
      CHECK(encode(*what));
    } else {
      CHECK_FALSE(what.error().message.empty());
    }
  }
  CHECK(read > 0);
}

TEST_CASE("two sides agree on the newest common protocol or say who is old") {
  CHECK(env::common_protocol(1, 1) == 1);
  CHECK(env::common_protocol(1, 99) == env::newest_protocol);
  const auto newer = env::common_protocol(2, 3);
  REQUIRE_FALSE(newer);
  CHECK(newer.error().code == base::errc::version);
  CHECK(newer.error().message.find("update the run") != std::string::npos);
  const auto older = env::common_protocol(0, 0);
  REQUIRE_FALSE(older);
  CHECK(older.error().message.find("update the host") != std::string::npos);
  CHECK_FALSE(env::common_protocol(2, 1));
}

TEST_CASE("fields that came later are left out where they say nothing, and read where they do") {
  const std::string beat = (*encode(env::heartbeat_message{1}))[2];
  CHECK(beat == R"({"session":"0000000000000001"})");
  CHECK(test::contains((*encode(env::heartbeat_message{1, {{2, "lost", 30}}}))[2],
                       R"("quarantined":[{"device":2,"for_ms":30,"reason":"lost"}])"));
  env::failed_message failed{1, 2, "why"};
  CHECK_FALSE(test::contains((*encode(failed))[2], "returned"));
  failed.returned = 1;
  CHECK(test::contains((*encode(failed))[2], R"("returned":1)"));
  env::job_message job;
  CHECK_FALSE(test::contains((*encode(job))[2], "claim_e2"));
  job.claim_e2 = 812;
  CHECK(test::contains((*encode(job))[2], R"("claim_e2":812)"));
  CHECK_FALSE(test::contains((*encode(job))[2], "policy"));
  job.policy = "graphs,host_entry";
  CHECK(test::contains((*encode(job))[2], R"("policy":"graphs,host_entry")"));
  env::hello_message hello{1, 1, "raw", 7, {"cpp", "cuda"}, {{0, "H100-SXM", 24}}};
  CHECK(
      test::contains((*encode(hello))[2], R"("devices":[{"class":"H100-SXM","id":0,"slots":24}])"));
  hello.devices[0].lanes = {"cuda"};
  CHECK(test::contains((*encode(hello))[2], R"("lanes":["cuda"],"slots":24)"));
  CHECK(std::get<env::hello_message>(decode(*encode(hello)).value()) == hello);
  CHECK_FALSE(decode(env::frames{
      "QRN1", "HELLO",
      R"({"build":"","devices":[{"class":"c","id":0,"slots":1,"lanes":"cpp"}],"lanes":["cpp"],"nonce":"1","proto_max":1,"proto_min":1})"}));
  const auto old = decode(env::frames{
      "QRN1", "HELLO",
      R"({"build":"","devices":[{"class":"c","id":0,"slots":1}],"lanes":["cpp","cuda"],"nonce":"1","proto_max":1,"proto_min":1})"});
  REQUIRE(old);
  CHECK(std::get<env::hello_message>(*old).devices[0].lanes.empty());
  CHECK(std::get<env::hello_message>(*old).lanes == std::vector<std::string>{"cpp", "cuda"});
  // A list that is none, a device without its reason, too many of them.
  for (const char* header :
       {R"({"session":"1","quarantined":7})", R"({"session":"1","quarantined":[{"device":0}]})",
        R"({"session":"1","quarantined":["x"]})"})
    CHECK_FALSE(decode(env::frames{"QRN1", "HEARTBEAT", header}));
}

}  // namespace
