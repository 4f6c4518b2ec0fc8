// What was built for a candidate, in the folder of its process.
#include "env/lanes/pytorch/gpu/candidate_files.hpp"

#include <filesystem>

#include "base/file.hpp"
#include "base/json.hpp"

namespace quern::env {

std::string cannot_run_on_device(const python_facts& facts) {
  if (facts.uses_cute) return "kernels in CuTe need a compiler where the module runs";
  if (facts.uses_tilelang) return "kernels in TileLang need a compiler where the module runs";
  if (facts.uses_torch_compile) return "torch.compile needs a compiler where the module runs";
  return {};
}

base::status put_extensions(device_module& process, const candidate_extensions& built) {
  if (built.folder.empty()) return {};
  constexpr std::size_t longest_index = std::size_t{64} << 20;
  QUERN_TRY(const auto text,
            base::read_file(std::filesystem::path(built.folder) / "index.json", longest_index));
  QUERN_TRY(auto index, base::parse_json(text));
  for (std::size_t i = 0; i < index.size(); ++i) {
    if (!index[i].contains("file")) continue;
    const std::string name = fmt::format("extension{}.so", i);
    QUERN_CHECK(process.put_file(name, index[i]["file"].get<std::string>()));
    index[i]["file"] = name;
  }
  QUERN_CHECK(process.put("index.json", base::dump(index)));
  return {};
}

base::status put_kernels(device_module& process, const built_kernels& built) {
  QUERN_CHECK(process.put("kernels.json", built.index));
  for (const built_kernels::file& one : built.files)
    QUERN_CHECK(process.put(one.name, one.bytes));
  return {};
}

}  // namespace quern::env
