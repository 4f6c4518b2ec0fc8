// What an ELF file asks of the loader.
#include "env/gpu/dynamic_section.hpp"

#include <cstdint>
#include <cstring>
#include <optional>

#include <elf.h>

namespace quern::env {
namespace {

constexpr std::size_t most_needed = 256;
/// Of all dynamic sections together: without a bound 65,535 parts that lie on each other are read
/// through one by one, which takes hours for a file of 60 MB. A compiler writes some thirty.
constexpr int most_dynamic_entries = 65'536;

template <class T>
std::optional<T> elf_at(std::string_view file, std::uint64_t offset) {
  if (offset > file.size() || sizeof(T) > file.size() - offset) return std::nullopt;
  T value;
  std::memcpy(&value, file.data() + offset, sizeof value);
  return value;
}

std::optional<Elf64_Phdr> part_at(std::string_view file, const Elf64_Ehdr& head, int number) {
  return elf_at<Elf64_Phdr>(file,
                            head.e_phoff + static_cast<std::uint64_t>(number) * sizeof(Elf64_Phdr));
}

/// Where in the file the bytes lie that are loaded at `address`.
std::optional<std::uint64_t> offset_of(std::string_view file, const Elf64_Ehdr& head,
                                       std::uint64_t address) {
  for (int i = 0; i < head.e_phnum; ++i) {
    const auto part = part_at(file, head, i);
    if (part && part->p_type == PT_LOAD && address >= part->p_vaddr &&
        address - part->p_vaddr < part->p_filesz)
      return part->p_offset + (address - part->p_vaddr);
  }
  return std::nullopt;
}

/// The entries that name something, as offsets into the table of strings.
struct named_entries {
  std::vector<std::uint64_t> needed;
  std::optional<std::uint64_t> run_path, old_path, strings;
};

named_entries entries_of(std::string_view file, const Elf64_Ehdr& head) {
  named_entries found;
  int left = most_dynamic_entries;
  for (int i = 0; i < head.e_phnum; ++i) {
    const auto part = part_at(file, head, i);
    if (!part || part->p_type != PT_DYNAMIC) continue;
    for (std::uint64_t at = 0; at < part->p_filesz; at += sizeof(Elf64_Dyn)) {
      if (left-- == 0) return found;
      const auto entry = elf_at<Elf64_Dyn>(file, part->p_offset + at);
      if (!entry || entry->d_tag == DT_NULL) break;
      if (entry->d_tag == DT_NEEDED && found.needed.size() < most_needed)
        found.needed.push_back(entry->d_un.d_val);
      if (entry->d_tag == DT_RUNPATH) found.run_path = entry->d_un.d_val;
      if (entry->d_tag == DT_RPATH) found.old_path = entry->d_un.d_val;
      if (entry->d_tag == DT_STRTAB) found.strings = entry->d_un.d_ptr;
    }
  }
  return found;
}

std::string_view text_at(std::string_view file, std::uint64_t table, std::uint64_t offset) {
  if (table > file.size() || offset >= file.size() - table) return {};
  const std::size_t begin = table + offset;
  const std::size_t end = file.find('\0', begin);
  return end == std::string_view::npos ? std::string_view() : file.substr(begin, end - begin);
}

}  // namespace

dynamic_section read_dynamic_section(std::string_view file) {
  const auto head = elf_at<Elf64_Ehdr>(file, 0);
  if (!head || std::memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 ||
      head->e_ident[EI_CLASS] != ELFCLASS64)
    return {};
  const named_entries entries = entries_of(file, *head);
  if (!entries.strings) return {};
  const auto table = offset_of(file, *head, *entries.strings);
  if (!table) return {};
  dynamic_section result;
  for (const std::uint64_t name : entries.needed)
    if (const auto text = text_at(file, *table, name); !text.empty()) result.needed.push_back(text);
  if (const auto path = entries.run_path ? entries.run_path : entries.old_path)
    result.run_path = text_at(file, *table, *path);
  return result;
}

}  // namespace quern::env
