// Who is let into a run.
#include "actors/decide/reception.hpp"

#include "support/test.hpp"

using namespace quern;
using namespace quern::actors;
using quern::test::contains;

TEST_CASE("secrets are 128 bits and no two are alike") {
  const std::string one = make_run_secret().value(), other = make_run_secret().value();
  CHECK(one.size() == 32);
  CHECK(one.find_first_not_of("0123456789abcdef") == std::string::npos);
  CHECK(one != other);
}

TEST_CASE("only processes of the run, its build and its configuration are let in") {
  const reception rules("build 1", {7, 8}, "secret");
  hello from;
  from.role = "generator";
  from.build = "build 1";
  from.config = {7, 8};
  from.secret = "secret";
  CHECK(rules.admit(from));
  const auto refused = [&](const hello& who, std::string_view part) {
    const auto result = rules.admit(who);
    REQUIRE_FALSE(result);
    CAPTURE(result.error().message);
    CHECK(contains(result.error().message, part));
    CHECK_FALSE(contains(result.error().message, "secret\""));
    return result.error().message;
  };
  for (const char* wrong : {"", "secre", "secret ", "secreT", "Secret"}) {
    hello unadmitted = from;
    unadmitted.secret = wrong;
    // Whatever else he says, he learns nothing of the run.
    unadmitted.build = "build 2";
    CHECK_FALSE(contains(refused(unadmitted, "does not know the secret"), "build"));
  }
  hello old = from;
  old.build = "build 2";
  refused(old, "build 2");
  hello other = from;
  other.config = {7, 9};
  refused(other, "configuration");
  // Without a secret nobody is let in, not even who has none.
  hello empty;
  CHECK_FALSE(reception().admit(empty));
}
