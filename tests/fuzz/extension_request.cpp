// What a candidate's process recorded of its extensions: requests, their flags, and the files that
// they become.
#include "env/lanes/pytorch/build/extension_request.hpp"

#include "env/lanes/pytorch/build/extension_flags.hpp"
#include "env/lanes/pytorch/build/slim_sources.hpp"
#include "fuzz.hpp"

using namespace quern;
using fuzz::require;

namespace {

bool is_base_name(const std::string& name) {
  return !name.empty() && name.size() <= env::most_extension_name &&
         name.find('/') == std::string::npos && name.front() != '.' && name.front() != '-';
}

void judge_files(const env::extension_request& request) {
  for (const auto* list : {&request.files, &request.headers})
    for (const auto& file : *list)
      require(is_base_name(file.name), "a file has a base name");
  const auto full = env::full_sources(request);
  require(!full.empty(), "something is compiled");
  const auto slim =
      env::slim_sources(request, [](std::string_view name) { return name.size() % 2 == 0; });
  if (!slim) return;
  require(slim->size() == full.size(), "the slim route compiles the same files");
  for (std::size_t i = 0; i < full.size(); ++i)
    require((*slim)[i].name == full[i].name && (*slim)[i].cuda == full[i].cuda,
            "a file goes to the same compiler by both routes");
}

}  // namespace

QUERN_FUZZ(text) {
  const auto request = env::parse_extension_request(text);
  if (!request) return;
  require(request->name.size() <= env::most_extension_name, "a name is bounded");
  require(request->cpp_sources.size() <= env::most_extension_items, "a list is bounded");
  const auto again = env::parse_extension_request(env::write_extension_request(*request));
  require(again && *again == *request, "what was written is read the same");
  const base::hash128 tools;
  require(
      env::extension_key(*request, "sm_90a", tools) == env::extension_key(*again, "sm_90a", tools),
      "the same request has the same key");
  const auto flags = env::judge_flags(*request);
  for (const auto* list : {&flags.cxx, &flags.nvcc, &flags.link})
    for (const auto& flag : *list)
      require(!flag.empty() && flag.front() != '@' && flag.find("-fplugin") == std::string::npos &&
                  flag.find("-include") == std::string::npos,
              "no flag that is handed on reads a file");
  judge_files(*request);
}
