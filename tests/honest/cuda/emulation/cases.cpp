// Writes the cases of tasks to files: inputs by every hidden distribution at every hidden size, and
// what the reference makes of them. usage: cases FOLDER
// TASK_FILE[:1,2,3[:4,5,6...]]..., with further sizes to check.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "env/judge/evaluator_options.hpp"
#include "env/lanes/cpp/cpp_oracle.hpp"
#include "env/task/task_codec.hpp"
#include "env/tensor_task/check.hpp"
#include "support/tensor_task.hpp"

using namespace quern;
namespace fs = std::filesystem;

namespace {

void write(const fs::path& file, const env::tensor_bytes& bytes) {
  std::ofstream out(file, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
}

/// "1,2,3" as numbers.
std::vector<std::int64_t> numbers(const std::string& text) {
  std::vector<std::int64_t> result;
  std::stringstream in(text);
  for (std::string word; std::getline(in, word, ',');)
    result.push_back(std::stoll(word));
  return result;
}

int write_task(env::reference_oracle& oracle, const fs::path& folder, const env::task& what) {
  fs::create_directories(folder);
  std::ofstream index(folder / "index");
  for (const auto& input : env::tensors_of(what).inputs)
    index << "input " << env::cpp_name_of(input.type) << " " << env::name_of(input.type) << "\n";
  for (const auto& output : env::tensors_of(what).outputs)
    index << "output " << env::cpp_name_of(output.type) << " " << env::name_of(output.type) << "\n";
  index << "sizes " << env::tensors_of(what).sizes.size() << "\n";
  index << "tolerance " << what.tolerance.atol << " " << what.tolerance.rtol << "\n";
  int number = 0;
  for (const auto& sizes : env::tensors_of(what).hidden_sizes) {
    const auto at = env::instantiate(what, sizes).value();
    for (int round = -1; round < env::hidden_rounds(what); ++round) {
      const auto kinds =
          round < 0 ? env::timed_distributions(what) : env::hidden_distributions(what, round);
      const auto inputs =
          env::make_inputs(at, kinds, 5, static_cast<std::uint32_t>(round + 1)).value();
      const auto outputs = oracle.run(what, at, inputs, false);
      if (!outputs) {
        std::fprintf(stderr, "%s: %s\n", what.name.c_str(), outputs.error().message.c_str());
        return 1;
      }
      index << "case " << number;
      for (const auto size : sizes)
        index << " " << size;
      index << "\n";
      for (std::size_t i = 0; i < inputs.size(); ++i)
        write(folder / fmt::format("{}.in{}", number, i), inputs[i]);
      for (std::size_t i = 0; i < outputs->size(); ++i)
        write(folder / fmt::format("{}.out{}", number, i), (*outputs)[i]);
      ++number;
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  env::evaluator_options options;
  options.sandbox_required = false;
  const auto oracle = env::open_cpp_oracle(options);
  if (!oracle) {
    std::fprintf(stderr, "%s\n", oracle.error().message.c_str());
    return 1;
  }
  for (int i = 2; i < argc; ++i) {
    std::stringstream words(argv[i]);
    std::string name;
    std::getline(words, name, ':');
    const fs::path file = name;
    auto what = env::load_task(file);
    if (!what) {
      std::fprintf(stderr, "%s\n", what.error().message.c_str());
      return 1;
    }
    for (std::string sizes; std::getline(words, sizes, ':');)
      test::edit_tensors(*what).hidden_sizes.push_back(numbers(sizes));
    if (write_task(**oracle, fs::path(argv[1]) / file.parent_path().filename() / what->name,
                   *what) != 0)
      return 1;
  }
  return 0;
}
