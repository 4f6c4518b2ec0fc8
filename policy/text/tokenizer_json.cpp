// Reads tokenizer.json. Each component is either one that encode() computes, or refused by name.
#include <atomic>

#include "base/json.hpp"
#include "policy/text/byte_level.hpp"
#include "policy/text/normalise.hpp"
#include "policy/text/tokenizer_tables.hpp"

namespace quern::policy {

namespace {

using base::errc;
using base::expected;
using base::fail;
using base::json;

constexpr token_id max_vocab = 1 << 20;  // bounds what a hostile file can make us allocate

const json& member(const json& object, std::string_view key) {
  static const json none;
  if (!object.is_object()) return none;
  const auto found = object.find(std::string(key));
  return found == object.end() ? none : *found;
}

std::string type_of(const json& component) {
  const json& type = member(component, "type");
  return type.is_string() ? type.get<std::string>() : std::string();
}

base::status refuse(std::string_view part, const json& component) {
  return fail(errc::invalid_argument, "{} {} is not computed here", part,
              base::dump(component).substr(0, 200));
}

/// The components of a Sequence, or the one component.
std::vector<json> flatten(const json& component, std::string_view list_key) {
  if (component.is_null()) return {};
  if (type_of(component) != "Sequence") return {component};
  const json& list = member(component, list_key);
  return list.is_array() ? list.get<std::vector<json>>() : std::vector<json>{component};
}

base::status read_normaliser(const json& root, tokenizer_tables& out) {
  for (const json& part : flatten(member(root, "normalizer"), "normalizers")) {
    if (type_of(part) != "NFC") return refuse("normalizer", part);
    out.nfc = true;
  }
  return {};
}

base::status read_split(const json& root, tokenizer_tables& out) {
  const json& component = member(root, "pre_tokenizer");
  const auto parts = flatten(component, "pretokenizers");
  const bool shape =
      parts.size() == 2 && type_of(parts[0]) == "Split" && type_of(parts[1]) == "ByteLevel" &&
      member(parts[0], "behavior") == "Isolated" && member(parts[0], "invert") == false &&
      member(parts[1], "add_prefix_space") == false && member(parts[1], "use_regex") == false;
  if (!shape) return refuse("pre_tokenizer", component);
  const json& expression = member(member(parts[0], "pattern"), "Regex");
  const auto pattern =
      expression.is_string() ? pattern_from_text(expression.get<std::string>()) : std::nullopt;
  if (!pattern)
    return fail(errc::invalid_argument,
                "the split pattern {} is not computed here; those of Qwen2 and Llama-3 are",
                base::dump(member(parts[0], "pattern")).substr(0, 300));
  out.pattern = *pattern;
  return {};
}

base::status check_model(const json& model) {
  const auto type = type_of(model);
  if (!model.is_object() || (!type.empty() && type != "BPE"))
    return fail(errc::invalid_argument, "model '{}' is not computed here; BPE is", type);
  for (const char* key : {"dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
                          "byte_fallback"}) {
    const json& value = member(model, key);
    if (!value.is_null() && value != false && value != "" && value != 0)
      return fail(errc::invalid_argument, "model.{} is {}, which is not computed here", key,
                  base::dump(value).substr(0, 80));
  }
  return {};
}

expected<token_id> read_id(const json& value, std::string_view token) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() >= max_vocab)
    return fail(errc::invalid_argument, "token '{}' has the id {}; ids are numbers below {}", token,
                base::dump(value).substr(0, 40), max_vocab);
  return value.get<token_id>();
}

base::status set_token(tokenizer_tables& out, token_id id, const std::string& bytes) {
  const auto index = static_cast<std::size_t>(id);
  if (index >= out.bytes.size()) {
    out.bytes.resize(index + 1);
    out.special.resize(index + 1);
  }
  if (!out.bytes[index].empty() && out.bytes[index] != bytes)
    return fail(errc::invalid_argument, "tokens '{}' and '{}' share the id {}", out.bytes[index],
                bytes, id);
  out.bytes[index] = bytes;
  return {};
}

base::status read_vocabulary(const json& model, tokenizer_tables& out) {
  const json& vocabulary = member(model, "vocab");
  if (!vocabulary.is_object()) return fail(errc::invalid_argument, "model.vocab is not an object");
  for (const auto& [spelling, value] : vocabulary.items()) {
    QUERN_TRY(const token_id id, read_id(value, spelling));
    const auto bytes = unspell_bytes(spelling);
    // Added tokens may be listed here under their plain text; they never come out of merges.
    if (!bytes || bytes->empty()) continue;
    QUERN_CHECK(set_token(out, id, *bytes));
    if (!out.base_ids.emplace(*bytes, id).second)
      return fail(errc::invalid_argument, "token '{}' is in the vocabulary twice", spelling);
  }
  for (unsigned byte = 0; byte < 256; ++byte) {
    const auto found = out.base_ids.find(std::string(1, static_cast<char>(byte)));
    if (found == out.base_ids.end())
      return fail(errc::invalid_argument,
                  "byte {:#04x} is not in the vocabulary; a byte-level tokenizer needs all 256",
                  byte);
    out.byte_ids[byte] = found->second;
  }
  return {};
}

/// "a b" as older files have it, or ["a", "b"].
expected<std::pair<std::string, std::string>> read_pair(const json& item) {
  if (item.is_array() && item.size() == 2 && item[0].is_string() && item[1].is_string())
    return std::pair{item[0].get<std::string>(), item[1].get<std::string>()};
  if (item.is_string()) {
    const auto text = item.get<std::string>();
    const auto space = text.find(' ');
    if (space != std::string::npos && text.find(' ', space + 1) == std::string::npos)
      return std::pair{text.substr(0, space), text.substr(space + 1)};
  }
  return fail(errc::invalid_argument, "merge {} is not a pair of tokens",
              base::dump(item).substr(0, 80));
}

base::status read_merges(const json& model, tokenizer_tables& out) {
  const json& merges = member(model, "merges");
  if (!merges.is_array()) return fail(errc::invalid_argument, "model.merges is not a list");
  const auto id_of = [&](const std::optional<std::string>& bytes) -> std::optional<token_id> {
    const auto found = bytes ? out.base_ids.find(*bytes) : out.base_ids.end();
    if (found == out.base_ids.end()) return std::nullopt;
    return found->second;
  };
  std::int32_t rank = 0;
  for (const json& item : merges) {
    QUERN_TRY(const auto pair, read_pair(item));
    const auto left = id_of(unspell_bytes(pair.first));
    const auto right = id_of(unspell_bytes(pair.second));
    const auto both = id_of(unspell_bytes(pair.first + pair.second));
    if (!left || !right || !both)
      return fail(errc::invalid_argument,
                  "merge {} of '{}' and '{}' needs a token that the vocabulary does not have", rank,
                  pair.first, pair.second);
    out.merges.set(*left, *right, {rank++, *both});
  }
  return {};
}

base::status read_added(const json& root, tokenizer_tables& out) {
  const json& list = member(root, "added_tokens");
  if (list.is_null()) return {};
  if (!list.is_array()) return fail(errc::invalid_argument, "added_tokens is not a list");
  for (const json& item : list) {
    QUERN_TRY(const auto content, base::get<std::string>(item, "content"));
    if (content.empty()) return fail(errc::invalid_argument, "an added token is empty");
    QUERN_TRY(const token_id id, read_id(member(item, "id"), content));
    for (const char* key : {"single_word", "lstrip", "rstrip"})
      if (member(item, key) == true)
        return fail(errc::invalid_argument,
                    "added token '{}' asks for {}, which is not computed here", content, key);
    const bool special = member(item, "special") == true;
    const bool normalised = member(item, "normalized") == true;
    QUERN_CHECK(set_token(out, id, content));
    out.special[static_cast<std::size_t>(id)] = special;
    if (!out.added_ids.emplace(content, id).second)
      return fail(errc::invalid_argument, "added token '{}' is listed twice", content);
    if (normalised)
      out.added_normalised.insert({out.nfc ? normalise_nfc(content) : content, id, special});
    else
      out.added_raw.insert({content, id, special});
  }
  return {};
}

/// TemplateProcessing for one text: special tokens around "A".
base::status read_template(const json& component, tokenizer_tables& out) {
  const json& items = member(component, "single");
  if (!items.is_array()) return refuse("post_processor", component);
  bool after = false;
  for (const json& item : items) {
    if (!member(item, "Sequence").is_null()) {
      if (after) return refuse("post_processor", component);
      after = true;
      continue;
    }
    const json& name = member(member(item, "SpecialToken"), "id");
    if (!name.is_string()) return refuse("post_processor", component);
    const json& ids =
        member(member(member(component, "special_tokens"), name.get<std::string>()), "ids");
    if (!ids.is_array()) return refuse("post_processor", component);
    for (const json& value : ids) {
      QUERN_TRY(const token_id id, read_id(value, name.get<std::string>()));
      (after ? out.suffix : out.prefix).push_back(id);
    }
  }
  return after ? base::status{} : refuse("post_processor", component);
}

base::status read_post_processor(const json& root, tokenizer_tables& out) {
  for (const json& part : flatten(member(root, "post_processor"), "processors")) {
    const auto type = type_of(part);
    if (type == "ByteLevel") continue;  // it moves offsets, which are not computed here
    if (type != "TemplateProcessing" || !out.prefix.empty() || !out.suffix.empty())
      return refuse("post_processor", part);
    QUERN_CHECK(read_template(part, out));
  }
  return {};
}

base::status check_rest(const json& root) {
  for (const char* key : {"truncation", "padding"})
    if (!member(root, key).is_null())
      return fail(errc::invalid_argument, "{} is set in the file; set it to null", key);
  const auto decoders = flatten(member(root, "decoder"), "decoders");
  if (decoders.size() != 1 || type_of(decoders[0]) != "ByteLevel")
    return refuse("decoder", member(root, "decoder"));
  return {};
}

}  // namespace

expected<tokenizer_tables> parse_tokenizer_tables(std::string_view json_text) {
  static std::atomic<std::uint64_t> instances{0};
  QUERN_TRY(const json root, base::parse_json(json_text));
  if (!root.is_object()) return fail(errc::invalid_argument, "a tokenizer is a JSON object");
  tokenizer_tables out;
  out.instance = ++instances;
  const json& model = member(root, "model");
  QUERN_CHECK(check_model(model));
  QUERN_CHECK(check_rest(root));
  QUERN_CHECK(read_normaliser(root, out));
  QUERN_CHECK(read_split(root, out));
  QUERN_CHECK(read_vocabulary(model, out));
  QUERN_CHECK(read_merges(model, out));
  QUERN_CHECK(read_added(root, out));
  QUERN_CHECK(read_post_processor(root, out));
  out.ignore_merges = member(model, "ignore_merges") == true;
  return out;
}

}  // namespace quern::policy
