// What a candidate asked torch.utils.cpp_extension for: its JSON form and its key.
#include "env/lanes/pytorch/build/extension_request.hpp"

#include <algorithm>
#include <array>

#include "base/json.hpp"

namespace quern::env {
namespace {

using base::errc;
using base::fail;
using base::json;

constexpr std::array<std::string_view, 13> request_keys{
    "cflags",        "cpp_sources", "cuda_cflags", "cuda_sources",     "error_handling",
    "files",         "functions",   "headers",     "implicit_headers", "ldflags",
    "include_paths", "name",        "with_cuda"};

bool is_extension_name(std::string_view name) {
  const auto letter = [](char c) {
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  };
  if (name.empty() || name.size() > most_extension_name || !letter(name.front())) return false;
  return std::all_of(name.begin(), name.end(),
                     [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

/// A file of the work folder: no folder in it, no way out of it.
bool is_file_name(std::string_view name) {
  if (name.empty() || name.size() > most_extension_name || name.front() == '.' ||
      name.front() == '-')
    return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return c == '_' || c == '-' || c == '.' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9');
  });
}

base::expected<std::string> request_text(const json& value, std::string_view key) {
  if (!value.is_string())
    return fail(errc::invalid_argument, "'{}' must hold texts, found {}", key,
                base::dump(value).substr(0, 80));
  const auto& text = value.get_ref<const std::string&>();
  if (text.find('\0') != std::string::npos)
    return fail(errc::invalid_argument, "'{}' holds a zero byte", key);
  return text;
}

base::expected<const json*> request_list(const json& object, std::string_view key) {
  const json& value = object.at(std::string(key));
  if (!value.is_array() || value.size() > most_extension_items)
    return fail(errc::invalid_argument, "'{}' must be a list of at most {} items", key,
                most_extension_items);
  return &value;
}

base::expected<std::vector<std::string>> request_texts(const json& object, std::string_view key) {
  QUERN_TRY(const json* list, request_list(object, key));
  std::vector<std::string> texts;
  for (const json& item : *list) {
    QUERN_TRY(texts.emplace_back(), request_text(item, key));
  }
  return texts;
}

base::expected<std::vector<named_text>> request_pairs(const json& object, std::string_view key) {
  QUERN_TRY(const json* list, request_list(object, key));
  std::vector<named_text> found;
  for (const json& item : *list) {
    if (!item.is_array() || item.size() != 2)
      return fail(errc::invalid_argument, "'{}' must hold pairs of name and text, found {}", key,
                  base::dump(item).substr(0, 80));
    auto& pair = found.emplace_back();
    QUERN_TRY(pair.name, request_text(item[0], key));
    QUERN_TRY(pair.text, request_text(item[1], key));
  }
  return found;
}

base::expected<std::vector<named_text>> request_files(const json& object, std::string_view key) {
  QUERN_TRY(auto found, request_pairs(object, key));
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!is_file_name(found[i].name))
      return fail(errc::invalid_argument, "'{}' names the file '{}': a base name is needed", key,
                  found[i].name.substr(0, 80));
    for (std::size_t j = 0; j < i; ++j)
      if (found[j].name == found[i].name)
        return fail(errc::invalid_argument, "'{}' names the file '{}' twice", key, found[i].name);
  }
  return found;
}

base::status check_keys(const json& object) {
  if (!object.is_object()) return fail(errc::invalid_argument, "a request must be a JSON object");
  for (const auto& [key, value] : object.items())
    if (std::find(request_keys.begin(), request_keys.end(), key) == request_keys.end())
      return fail(errc::invalid_argument, "a request has no key '{}'", key.substr(0, 80));
  for (const std::string_view key : request_keys)
    if (!object.contains(std::string(key)))
      return fail(errc::invalid_argument, "a request needs the key '{}'", key);
  return {};
}

json pairs_json(const std::vector<named_text>& from) {
  json list = json::array();
  for (const auto& one : from)
    list.push_back(json::array({one.name, one.text}));
  return list;
}

void hash_texts(base::hasher& hash, const std::vector<std::string>& texts) {
  hash.add(std::uint64_t{texts.size()});
  for (const auto& text : texts)
    hash.add(text);
}

void hash_pairs(base::hasher& hash, const std::vector<named_text>& list) {
  hash.add(std::uint64_t{list.size()});
  for (const auto& one : list)
    hash.add(one.name).add(one.text);
}

}  // namespace

base::expected<extension_request> parse_extension_request(std::string_view text) {
  if (text.size() > most_extension_bytes)
    return fail(errc::invalid_argument, "a request has {} bytes, the limit is {}", text.size(),
                most_extension_bytes);
  QUERN_TRY(const json object, base::parse_json(text, 4));
  QUERN_CHECK(check_keys(object));
  extension_request request;
  QUERN_TRY(request.name, base::get<std::string>(object, "name"));
  if (!is_extension_name(request.name))
    return fail(errc::invalid_argument,
                "'{}' is no name of a module: letters, digits and '_' are needed, at most {}",
                request.name.substr(0, 80), most_extension_name);
  QUERN_TRY(request.cpp_sources, request_texts(object, "cpp_sources"));
  QUERN_TRY(request.cuda_sources, request_texts(object, "cuda_sources"));
  if (!object.at("functions").is_null()) {
    QUERN_TRY(request.functions, request_pairs(object, "functions"));
  }
  QUERN_TRY(request.files, request_files(object, "files"));
  QUERN_TRY(request.headers, request_files(object, "headers"));
  QUERN_TRY(request.cflags, request_texts(object, "cflags"));
  QUERN_TRY(request.cuda_cflags, request_texts(object, "cuda_cflags"));
  QUERN_TRY(request.ldflags, request_texts(object, "ldflags"));
  QUERN_TRY(request.include_paths, request_texts(object, "include_paths"));
  QUERN_TRY(request.with_cuda, base::get<bool>(object, "with_cuda"));
  QUERN_TRY(request.error_handling, base::get<bool>(object, "error_handling"));
  QUERN_TRY(request.implicit_headers, base::get<bool>(object, "implicit_headers"));
  return request;
}

std::string write_extension_request(const extension_request& request) {
  json object;
  object["name"] = request.name;
  object["cpp_sources"] = request.cpp_sources;
  object["cuda_sources"] = request.cuda_sources;
  object["functions"] = request.functions ? pairs_json(*request.functions) : json(nullptr);
  object["files"] = pairs_json(request.files);
  object["headers"] = pairs_json(request.headers);
  object["cflags"] = request.cflags;
  object["cuda_cflags"] = request.cuda_cflags;
  object["ldflags"] = request.ldflags;
  object["include_paths"] = request.include_paths;
  object["with_cuda"] = request.with_cuda;
  object["error_handling"] = request.error_handling;
  object["implicit_headers"] = request.implicit_headers;
  return base::dump(object);
}

base::hash128 extension_key(const extension_request& request, std::string_view architecture,
                            const base::hash128& toolchain) {
  base::hasher hash;
  hash.add("extension").add(request.name);
  hash_texts(hash, request.cpp_sources);
  hash_texts(hash, request.cuda_sources);
  hash.add(std::uint64_t{request.functions.has_value()});
  if (request.functions) hash_pairs(hash, *request.functions);
  hash_pairs(hash, request.files);
  hash_pairs(hash, request.headers);
  for (const auto* flags :
       {&request.cflags, &request.cuda_cflags, &request.ldflags, &request.include_paths})
    hash_texts(hash, *flags);
  hash.add(std::uint64_t{request.with_cuda})
      .add(std::uint64_t{request.error_handling})
      .add(std::uint64_t{request.implicit_headers});
  return hash.add(architecture).add(base::to_hex(toolchain)).digest();
}

}  // namespace quern::env
