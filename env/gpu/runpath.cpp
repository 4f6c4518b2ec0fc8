// Where the loader looks for the libraries of a program.
#include "env/gpu/runpath.hpp"

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

#include <elf.h>

#include "base/file.hpp"
#include "base/text.hpp"

namespace quern::env {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t largest_program = std::size_t{1} << 30;

template <class T>
std::optional<T> elf_at(std::string_view file, std::uint64_t offset) {
  if (offset > file.size() || sizeof(T) > file.size() - offset) return std::nullopt;
  T value;
  std::memcpy(&value, file.data() + offset, sizeof value);
  return value;
}

/// Where in the file the bytes lie that are loaded at `address`.
std::optional<std::uint64_t> offset_of(std::string_view file, const Elf64_Ehdr& head,
                                       std::uint64_t address) {
  for (int i = 0; i < head.e_phnum; ++i) {
    const auto part =
        elf_at<Elf64_Phdr>(file, head.e_phoff + static_cast<std::uint64_t>(i) * sizeof(Elf64_Phdr));
    if (part && part->p_type == PT_LOAD && address >= part->p_vaddr &&
        address - part->p_vaddr < part->p_filesz)
      return part->p_offset + (address - part->p_vaddr);
  }
  return std::nullopt;
}

/// The text of DT_RUNPATH, else of DT_RPATH; empty where there is none.
std::string_view run_path_text(std::string_view file) {
  const auto head = elf_at<Elf64_Ehdr>(file, 0);
  if (!head || std::memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 ||
      head->e_ident[EI_CLASS] != ELFCLASS64)
    return {};
  std::optional<std::uint64_t> run_path, old_path, strings;
  for (int i = 0; i < head->e_phnum; ++i) {
    const auto part = elf_at<Elf64_Phdr>(
        file, head->e_phoff + static_cast<std::uint64_t>(i) * sizeof(Elf64_Phdr));
    if (!part || part->p_type != PT_DYNAMIC) continue;
    for (std::uint64_t at = 0; at < part->p_filesz; at += sizeof(Elf64_Dyn)) {
      const auto entry = elf_at<Elf64_Dyn>(file, part->p_offset + at);
      if (!entry || entry->d_tag == DT_NULL) break;
      if (entry->d_tag == DT_RUNPATH) run_path = entry->d_un.d_val;
      if (entry->d_tag == DT_RPATH) old_path = entry->d_un.d_val;
      if (entry->d_tag == DT_STRTAB) strings = entry->d_un.d_ptr;
    }
  }
  if (!run_path) run_path = old_path;
  if (!run_path || !strings) return {};
  const auto table = offset_of(file, *head, *strings);
  if (!table || *table > file.size() || *run_path >= file.size() - *table) return {};
  const std::size_t begin = *table + *run_path;
  const std::size_t end = file.find('\0', begin);
  return end == std::string_view::npos ? std::string_view() : file.substr(begin, end - begin);
}

/// A sandbox shows a link as a link: what it points to must be there, too.
void add_with_target(std::vector<fs::path>& to, const fs::path& folder) {
  to.push_back(folder);
  std::error_code code;
  if (!fs::is_symlink(folder, code)) return;
  if (auto target = fs::canonical(folder, code); !code) to.push_back(std::move(target));
}

}  // namespace

std::vector<fs::path> run_path_of(std::string_view file, const fs::path& folder) {
  std::vector<fs::path> result;
  for (const auto item : base::split(run_path_text(file), ':')) {
    std::string text(item);
    for (const std::string_view origin : {"${ORIGIN}", "$ORIGIN"})
      if (const auto at = text.find(origin); at != std::string::npos)
        text.replace(at, origin.size(), folder.string());
    if (text.starts_with('/')) result.push_back(fs::path(text).lexically_normal());
  }
  return result;
}

base::expected<std::vector<fs::path>> torch_library_folders(const fs::path& program) {
  QUERN_TRY(const std::string bytes, base::read_file(program, largest_program));
  std::vector<fs::path> result;
  for (const auto& folder : run_path_of(bytes, program.parent_path())) {
    std::error_code code;
    if (!fs::is_directory(folder, code)) continue;
    add_with_target(result, folder);
    // ".../site-packages/torch/lib" and ".../site-packages/nvidia": LibTorch's own run path leads
    // there.
    const auto wheels = (folder / "../../nvidia").lexically_normal();
    if (fs::exists(folder / "libtorch_cpu.so", code) && fs::is_directory(wheels, code))
      add_with_target(result, wheels);
  }
  return result;
}

}  // namespace quern::env
