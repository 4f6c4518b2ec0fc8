// The request of an extension: its JSON form, its bounds and its key.
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/json.hpp"
#include "env/lanes/pytorch/build/extension_recording.hpp"
#include "env/lanes/pytorch/build/extension_request.hpp"
#include "samples.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::test;
using base::json;

namespace {

json sample_json() {
  auto parsed = base::parse_json(env::write_extension_request(full_request()));
  REQUIRE(parsed.has_value());
  return *parsed;
}

std::string refusal_of(const json& object) {
  const auto read = env::parse_extension_request(base::dump(object));
  return read ? "" : read.error().message;
}

using change = std::function<void(env::extension_request&)>;
const std::vector<std::pair<const char*, change>>& changes() {
  static const std::vector<std::pair<const char*, change>> all{
      {"name", [](auto& r) { r.name = "other"; }},
      {"cpp source", [](auto& r) { r.cpp_sources[0] += " "; }},
      {"cpp sources parted", [](auto& r) { r.cpp_sources.emplace_back(""); }},
      {"cuda source", [](auto& r) { r.cuda_sources[0] += "\n"; }},
      {"moved source", [](auto& r) { std::swap(r.cpp_sources, r.cuda_sources); }},
      {"no functions", [](auto& r) { r.functions.reset(); }},
      {"empty functions", [](auto& r) { r.functions->clear(); }},
      {"function", [](auto& r) { (*r.functions)[0].name = "sub"; }},
      {"documentation", [](auto& r) { (*r.functions)[0].text = "subtracts"; }},
      {"file",
       [](auto& r) {
         r.files.push_back({"a.cpp", ""});
       }},
      {"header", [](auto& r) { r.headers[0].text += " "; }},
      {"header is a file", [](auto& r) { std::swap(r.headers, r.files); }},
      {"cflags", [](auto& r) { r.cflags.pop_back(); }},
      {"order of cflags", [](auto& r) { std::swap(r.cflags[0], r.cflags[1]); }},
      {"cuda_cflags", [](auto& r) { r.cuda_cflags.clear(); }},
      {"ldflags", [](auto& r) { r.ldflags.emplace_back("-lcudnn"); }},
      {"include_paths", [](auto& r) { r.include_paths.clear(); }},
      {"flags of another tool", [](auto& r) { std::swap(r.cuda_cflags, r.ldflags); }},
      {"with_cuda", [](auto& r) { r.with_cuda = false; }},
      {"error_handling", [](auto& r) { r.error_handling = false; }},
      {"implicit_headers", [](auto& r) { r.implicit_headers = false; }}};
  return all;
}

}  // namespace

TEST_CASE("a request is read as it was written") {
  for (const auto& [what, apply] : changes()) {
    CAPTURE(what);
    auto request = full_request();
    apply(request);
    const auto read = env::parse_extension_request(env::write_extension_request(request));
    REQUIRE_MESSAGE(read.has_value(), (read ? "" : read.error().message));
    CHECK(*read == request);
  }
}

TEST_CASE("whatever is changed in a request changes its key") {
  const base::hash128 tools = base::xxh128("tools");
  std::set<base::hash128> keys{env::extension_key(full_request(), "sm_90a", tools)};
  CHECK(keys.count(env::extension_key(full_request(), "sm_90a", tools)) == 1);
  for (const auto& [what, apply] : changes()) {
    auto request = full_request();
    apply(request);
    CHECK_MESSAGE(keys.insert(env::extension_key(request, "sm_90a", tools)).second, what);
  }
  CHECK(keys.insert(env::extension_key(full_request(), "sm_80", tools)).second);
  CHECK(keys.insert(env::extension_key(full_request(), "sm_90a", base::xxh128("new"))).second);
}

TEST_CASE("what is no request is refused with the key that is wrong") {
  const auto with = [](const char* key, json value) {
    json object = sample_json();
    object[key] = std::move(value);
    return refusal_of(object);
  };
  CHECK(refusal_of(sample_json()).empty());
  CHECK(contains(refusal_of(json::array()), "object"));
  CHECK(contains(with("surprise", 1), "'surprise'"));
  json less = sample_json();
  less.erase("files");
  CHECK(contains(refusal_of(less), "'files'"));
  CHECK(contains(with("name", "a-b"), "'a-b'"));
  CHECK(contains(with("name", "a/../b"), "name of a module"));
  CHECK(contains(with("name", std::string(129, 'a')), "at most 128"));
  CHECK(contains(with("name", ""), "name of a module"));
  CHECK(contains(with("cpp_sources", "text"), "'cpp_sources'"));
  CHECK(contains(with("cpp_sources", json::array({1})), "'cpp_sources'"));
  CHECK(contains(with("cpp_sources", json::array({std::string("a\0b", 3)})), "zero byte"));
  CHECK(contains(with("cflags", std::vector<std::string>(65, "-O2")), "at most 64"));
  CHECK(contains(with("functions", json::array({"add"})), "pairs"));
  CHECK(contains(with("with_cuda", 1), "'with_cuda'"));
  for (const char* name : {"../a.cpp", "/etc/a.cpp", ".hidden", "-o", "a b.cpp", ""})
    CHECK_MESSAGE(contains(with("files", json::array({json::array({name, ""})})), "base name"),
                  name);
  const auto twice = json::array({json::array({"a.cu", ""}), json::array({"a.cu", "x"})});
  CHECK(contains(with("files", twice), "twice"));
  CHECK(contains(with("cpp_sources", json::array({std::string(1 << 20, 'x')})), "the limit is"));
  CHECK_FALSE(env::parse_extension_request("{").has_value());
  CHECK_FALSE(env::parse_extension_request("").has_value());
}

TEST_CASE("a recording is read to its end and no further") {
  const std::string request =
      "{\"request\":" + env::write_extension_request(full_request()) + "}\n";
  const std::string end = "{\"end\":\"raised\",\"text\":\"Traceback\"}\n";
  const auto read = env::parse_extension_recording(request + end);
  REQUIRE_MESSAGE(read.has_value(), (read ? "" : read.error().message));
  CHECK(read->requests == std::vector{full_request()});
  CHECK((read->ending == env::extension_recording::end::raised));
  CHECK(read->text == "Traceback");
  CHECK((env::parse_extension_recording("")->ending == env::extension_recording::end::lost));
  CHECK_FALSE(env::parse_extension_recording(end + request).has_value());
  CHECK_FALSE(env::parse_extension_recording("{\"end\":\"won\",\"text\":\"\"}\n").has_value());
  CHECK_FALSE(env::parse_extension_recording("{\"request\":{}}\n").has_value());
  std::string many;
  for (int i = 0; i < 17; ++i)
    many += request;
  CHECK_FALSE(env::parse_extension_recording(many).has_value());
}
