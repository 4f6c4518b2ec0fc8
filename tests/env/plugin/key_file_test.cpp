// Keys are never overwritten, never readable by others, and a bad line is named.
#include "env/plugin/key_file.hpp"

#include <sys/stat.h>

#include "base/file.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::env;

TEST_CASE("a key pair is made once, comes back as it was, and is for its owner only") {
  const auto folder = base::temp_folder::make().value();
  const auto file = folder.path() / "host.key";
  const auto made = make_key_file(file);
  REQUIRE(made);
  const auto read = read_key_file(file);
  REQUIRE(read);
  CHECK(read->public_key == made->public_key);
  CHECK(read->secret_key == made->secret_key);
  CHECK(make_key_file(file).error().code == base::errc::already_exists);
  REQUIRE(chmod(file.c_str(), 0644) == 0);
  CHECK(read_key_file(file).error().message.find("chmod 600") != std::string::npos);
  CHECK(read_key_file(folder.path() / "none").error().code == base::errc::not_found);
}

TEST_CASE("a list of public keys: notes are skipped, what is no key is named by its line") {
  const auto folder = base::temp_folder::make().value();
  const auto file = folder.path() / "hosts";
  const auto key = make_curve_keys()->public_key;
  REQUIRE(base::write_file_atomic(file, "# the lab\n\n" + key + " rack 3\n"));
  CHECK(read_public_keys(file).value() == std::set<std::string>{key});
  REQUIRE(base::write_file_atomic(file, key + "\nshort\n"));
  CHECK(read_public_keys(file).error().message.find(":2:") != std::string::npos);
  REQUIRE(base::write_file_atomic(file, "# nobody\n"));
  CHECK_FALSE(read_public_keys(file));
}
