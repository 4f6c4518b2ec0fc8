// Triton kernels as values: what a recorder may say, and what is kept of a build.
#include "env/lanes/pytorch/build/triton_kernel.hpp"

#include <string>

#include "support/test.hpp"

using namespace quern;
using namespace quern::test;

namespace {

const std::string triton_line =
    R"({"kernel":{"key":")" + std::string(64, 'a') +
    R"(","name":"k","options":{"num_warps":8},"signature":["*fp32","i32"],"ttir":"module {}"}})"
    "\n";
constexpr const char* triton_end = R"({"end":"ran","notes":["a note"],"reason":"","text":""})";

std::string cubin_head() {
  std::string head(64, '\0');
  head.replace(0, 6,
               "\x7f"
               "ELF\x02\x01",
               6);
  head[18] = static_cast<char>(190);
  head[48] = 90;
  return head;
}

}  // namespace

TEST_CASE("a recording of Triton kernels is read within its bounds") {
  const auto read = env::parse_triton_recording(triton_line + triton_end);
  REQUIRE_MESSAGE(read.has_value(), (read ? "" : read.error().message));
  REQUIRE(read->kernels.size() == 1);
  CHECK(read->kernels[0].options == R"({"num_warps":8})");
  CHECK((read->reason == env::triton_reason::none));
  CHECK(read->notes == std::vector<std::string>{"a note"});
  // Of a process whose answer may be the candidate's.
  CHECK(env::read_triton_recording(triton_line + triton_end).kernels.size() ==
        read->kernels.size());
  for (const std::string lines :
       {"{\"nonsense\": 1}\n", "{\"end\": \"raised\", \"text\": \"\\ud800\"}\n"}) {
    REQUIRE_FALSE(env::parse_triton_recording(lines));
    const auto lost = env::read_triton_recording(lines);
    CHECK(lost.reason == env::triton_reason::lost);
    CHECK_FALSE(lost.text.empty());
  }
  // A process that ended early said nothing of its end.
  const auto early = env::parse_triton_recording(triton_line);
  REQUIRE(early.has_value());
  CHECK((early->reason == env::triton_reason::lost));

  std::string many;
  for (std::size_t i = 0; i <= env::most_triton_kernels; ++i)
    many += triton_line;
  const std::string large = std::string(env::most_ttir_bytes + 1, 'x');
  for (const std::string& wrong :
       {many, std::string(triton_end) + "\n" + triton_line, std::string("[]"), std::string("{"),
        std::string(R"({"end":"ran","notes":[],"reason":"other","text":""})"),
        std::string(R"({"end":"ran","notes":[1],"reason":"","text":""})"),
        std::string(R"({"kernel":{"name":"k"}})"),
        // A key that is a path.
        R"({"kernel":{"key":")" + std::string(61, 'a') +
            R"(/..","name":"k","options":{},"signature":[],"ttir":""}})",
        R"({"kernel":{"key":")" + std::string(64, 'a') +
            R"(","name":"k","options":{},"signature":[],"ttir":")" + large + "\"}}"}) {
    CAPTURE(wrong.substr(0, 80));
    CHECK_FALSE(env::parse_triton_recording(wrong).has_value());
  }
}

TEST_CASE("the key of a Triton kernel is its content, not where it was launched") {
  const env::triton_kernel kernel{"k", std::string(64, 'a'), "module {}", "[]", "{}"};
  const base::hash128 tools = base::xxh128("tools");
  auto same = kernel;
  same.launch_key = std::string(64, 'b');
  CHECK(env::triton_kernel_key(same, tools) == env::triton_kernel_key(kernel, tools));
  auto ttir = kernel, signature = kernel, options = kernel;
  ttir.ttir += " ";
  signature.signature = R"(["i32"])";
  options.options = R"({"num_warps":8})";
  for (const auto& other : {ttir, signature, options})
    CHECK_FALSE(env::triton_kernel_key(other, tools) == env::triton_kernel_key(kernel, tools));
  CHECK_FALSE(env::triton_kernel_key(kernel, base::xxh128("other")) ==
              env::triton_kernel_key(kernel, tools));
}

TEST_CASE("an artefact of a Triton kernel is what was written, or is refused") {
  env::triton_artefact artefact;
  artefact.launcher = base::xxh128("launcher");
  artefact.launcher_content = base::xxh128("bytes");
  artefact.metadata = R"({"shared":0})";
  artefact.cubin = std::string_view("code\nwith lines", 15);
  const std::string file = env::write_triton_artefact(artefact);
  const auto read = env::read_triton_artefact(file);
  REQUIRE_MESSAGE(read.has_value(), (read ? "" : read.error().message));
  CHECK(read->launcher == artefact.launcher);
  CHECK(read->launcher_content == artefact.launcher_content);
  CHECK(read->metadata == artefact.metadata);
  CHECK(read->cubin == artefact.cubin);
  for (std::size_t i = 0; i < file.size(); ++i) {
    std::string changed = file;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    CAPTURE(i);
    CHECK_FALSE(env::read_triton_artefact(changed).has_value());
    CHECK_FALSE(env::read_triton_artefact(std::string_view(file).substr(0, i)).has_value());
  }
}

TEST_CASE("machine code of another device or machine is refused") {
  CHECK(env::check_cubin(cubin_head()).has_value());
  auto older = cubin_head(), host = cubin_head();
  older[48] = 80;
  host[18] = 62;
  for (const auto& wrong : {older, host, std::string("code"), cubin_head().substr(0, 63)})
    CHECK_FALSE(env::check_cubin(wrong).has_value());
}
