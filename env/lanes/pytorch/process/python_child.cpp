// One forked Python process with one module.
#include "env/lanes/pytorch/process/python_child.hpp"

#include <algorithm>
#include <cstring>

namespace quern::env {
namespace {

constexpr std::uint64_t weight_alignment = 64;

runner_failure forged_answer(std::string text) {
  runner_failure failure;
  failure.failure_kind = runner_failure::kind::forged;
  failure.text = std::move(text);
  return failure;
}

runner_failure too_long_question(std::size_t bytes, std::size_t room) {
  runner_failure failure;
  failure.failure_kind = runner_failure::kind::host;
  failure.text = fmt::format("a question of {} bytes, at most {}", bytes, room);
  return failure;
}

}  // namespace

base::expected<lent_weights> places_of_weights(const module_sheet& sheet, std::int32_t region) {
  QUERN_TRY(const auto layouts, weight_layouts(sheet));
  lent_weights places{region, {}, 0};
  for (const tensor_layout& layout : layouts) {
    places.offsets.push_back(places.bytes);
    places.bytes += round_up(static_cast<std::uint64_t>(layout.bytes), weight_alignment);
  }
  return places;
}

base::expected<module_weights> make_weights(const module_sheet& sheet, memory_use use) {
  QUERN_TRY(auto places, places_of_weights(sheet, 0));
  QUERN_TRY(auto file, memory_file::create(use, std::max<std::uint64_t>(places.bytes, 1)));
  return module_weights{std::move(file), std::move(places.offsets)};
}

answered<std::uint64_t> python_child::map(const memory_file& file, python_file as,
                                          question_limits limits) {
  const auto mapped = link_.map(file.request(static_cast<std::uint32_t>(as)), file.fd(), limits);
  if (!mapped) return tl::make_unexpected(mapped.error());
  return mapped->value;
}

answered<runner::reply> python_child::open(question_limits limits) {
  return link_.map(sheet_.request(static_cast<std::uint32_t>(python_file::sheet)), sheet_.fd(),
                   limits);
}

answered<runner::reply> python_child::load(const std::string& path, question_limits limits) {
  if (auto opened = open(limits); !opened) return opened;
  auto loaded = link_.load(path, limits);
  const auto bits = loaded ? loaded->value : loaded.error().last.value;
  layers_ = layer_set::from_bits(static_cast<std::uint32_t>(bits)) & layer_set::all();
  return loaded;
}

answered<std::string> python_child::record(const std::string& path, question_limits limits) {
  if (const auto opened = open(limits); !opened) return tl::make_unexpected(opened.error());
  return ask({{"ask", "record"}, {"path", path}}, limits);
}

answered<std::string> python_child::record_making(const std::string& init, question_limits limits) {
  return ask({{"ask", "record_making"}, {"init", init}}, limits);
}

answered<std::string> python_child::record_call(const base::json& inputs, question_limits limits) {
  return ask({{"ask", "record_call"}, {"inputs", inputs}}, limits);
}

answered<std::string> python_child::record_kernels(const base::json& job, question_limits limits) {
  if (const auto opened = open(limits); !opened) return tl::make_unexpected(opened.error());
  const auto answer = ask({{"ask", "record_kernels"}, {"job", job}}, limits);
  if (!answer) return answer;
  const auto json = base::parse_json(*answer, 16);
  if (!json) return tl::make_unexpected(forged_answer(json.error().message));
  auto lines = base::get<std::string>(*json, "lines");
  if (!lines) return tl::make_unexpected(forged_answer(lines.error().message));
  return std::move(*lines);
}

answered<std::string> python_child::kernelbench_exact(const base::json& question,
                                                      question_limits limits) {
  if (const auto opened = open(limits); !opened) return tl::make_unexpected(opened.error());
  return ask(question, limits);
}

answered<std::string> python_child::ask(const base::json& question, question_limits limits) {
  std::string text = base::dump(question);
  runner::lane_request request;
  if (text.size() > request.text.size()) {
    // Its place is then that of the answer, which comes when the question has been read.
    const auto room = sheet_.bytes();
    if (text.size() > room.size())
      return tl::make_unexpected(too_long_question(text.size(), room.size()));
    std::memcpy(room.data(), text.data(), text.size());
    text = base::dump(base::json{{"long", text.size()}});
  }
  request.bytes = static_cast<std::uint32_t>(text.size());
  std::copy(text.begin(), text.end(), request.text.begin());
  const auto reply = link_.ask(runner::command::ask_lane, std::as_bytes(std::span(&request, 1)), -1,
                               limits, nullptr);
  if (!reply) return tl::make_unexpected(reply.error());
  const auto room = sheet_.bytes();
  if (reply->value > room.size())
    return tl::make_unexpected(
        forged_answer(fmt::format("an answer of {} bytes in {}", reply->value, room.size())));
  // Copied once: what is read twice may have changed.
  std::string answer(reply->value, '\0');
  std::memcpy(answer.data(), room.data(), answer.size());
  const auto json = base::parse_json(answer, 16);
  if (!json) return tl::make_unexpected(forged_answer(json.error().message));
  const auto layers = base::get<std::int64_t>(*json, "layers");
  if (!layers) return tl::make_unexpected(forged_answer(layers.error().message));
  layers_ = layer_set::from_bits(static_cast<std::uint32_t>(*layers)) & layer_set::all();
  return answer;
}

answered<std::string> python_child::describe(const module_making& how, question_limits limits) {
  return ask({{"ask", "describe"},
              {"precision", how.precision},
              {"seed", how.seed},
              {"on_core", how.draws_on_core}},
             limits);
}

answered<std::string> python_child::describe_without_values(const module_making& how,
                                                            question_limits limits) {
  return ask({{"ask", "describe_meta"},
              {"precision", how.precision},
              {"seed", how.seed},
              {"on_core", true}},
             limits);
}

answered<std::string> python_child::content(std::int64_t first,
                                            std::span<const std::uint64_t> seeds,
                                            std::string_view family, question_limits limits,
                                            bool row) {
  return ask({{"ask", "content"},
              {"first", first},
              {"seeds", std::vector(seeds.begin(), seeds.end())},
              {"row", row},
              {"family", family}},
             limits);
}

answered<std::string> python_child::write_weights(const module_weights& to,
                                                  question_limits limits) {
  const auto address = map(to.file, python_file::weights, limits);
  if (!address) return tl::make_unexpected(address.error());
  return ask({{"ask", "weights"}, {"address", *address}, {"offsets", to.offsets}}, limits);
}

answered<std::string> python_child::take_arguments(const module_making& how,
                                                   const module_sheet& sheet,
                                                   question_limits limits) {
  return ask(
      {{"ask", "take_arguments"}, {"precision", how.precision}, {"inputs", arguments_json(sheet)}},
      limits);
}

answered<bool> python_child::forget(question_limits limits) {
  const auto answer = ask({{"ask", "forget"}}, limits);
  if (!answer) return tl::make_unexpected(answer.error());
  const auto json = base::parse_json(*answer, 16);
  return json && json->value("as_before", false);
}

answered<std::string> python_child::write_weights(const lent_weights& to, question_limits limits) {
  return ask({{"ask", "weights"}, {"region", to.region}, {"offsets", to.offsets}}, limits);
}

answered<made_model> python_child::construct(const module_making& how, const module_sheet& sheet,
                                             const module_weights& weights, question_limits limits,
                                             named_weights named) {
  const auto address = map(weights.file, python_file::weights, limits);
  if (!address) return tl::make_unexpected(address.error());
  return construct_from(how, sheet, {{"address", *address}, {"offsets", weights.offsets}}, limits,
                        named);
}

answered<made_model> python_child::construct(const module_making& how, const module_sheet& sheet,
                                             const lent_weights& weights, question_limits limits,
                                             named_weights named) {
  return construct_from(how, sheet, {{"region", weights.region}, {"offsets", weights.offsets}},
                        limits, named);
}

answered<made_model> python_child::construct_again(const module_making& how,
                                                   const module_sheet& sheet,
                                                   question_limits limits) {
  const auto none = base::json::array();
  return construct_from(how, sheet, {{"address", 0}, {"offsets", none}, {"weights", none}}, limits,
                        named_weights::of_reference);
}

answered<made_model> python_child::construct_from(const module_making& how,
                                                  const module_sheet& sheet,
                                                  const base::json& weights, question_limits limits,
                                                  named_weights named) {
  base::json question{{"ask", "construct"},
                      {"precision", how.precision},
                      {"seed", how.seed},
                      {"on_core", how.draws_on_core},
                      {"as_constructed", named == named_weights::as_constructed},
                      {"init", sheet.init},
                      {"inputs", arguments_json(sheet)},
                      {"restores", sheet.keeps_state},
                      {"reseeds", sheet.draws},
                      {"weights", weights_json(sheet)}};
  question.update(weights);
  const auto answer = ask(question, limits);
  if (!answer) return tl::make_unexpected(answer.error());
  const auto json = base::parse_json(*answer, 16);
  if (!json) return tl::make_unexpected(forged_answer(json.error().message));
  const auto elsewhere = base::get<bool>(*json, "drawn_elsewhere");
  if (!elsewhere) return tl::make_unexpected(forged_answer(elsewhere.error().message));
  const auto taken = base::get<std::int64_t>(*json, "weights_taken");
  if (!taken) return tl::make_unexpected(forged_answer(taken.error().message));
  const auto changed = base::get<bool>(*json, "weights_changed");
  if (!changed) return tl::make_unexpected(forged_answer(changed.error().message));
  const auto own = base::get<bool>(*json, "own_weights");
  if (!own) return tl::make_unexpected(forged_answer(own.error().message));
  return made_model{*elsewhere, *taken, *changed, *own};
}

answered<std::string> python_child::call_as(std::string_view baseline, int calls,
                                            question_limits limits) {
  return ask({{"ask", "call_as"}, {"baseline", baseline}, {"calls", calls}}, limits);
}

answered<std::string> python_child::calibrate(bool in_f64, question_limits limits) {
  return ask({{"ask", "calibrate"}, {"in_f64", in_f64}}, limits);
}

answered<std::string> python_child::evidence(question_limits limits) {
  return ask({{"ask", "evidence"}}, limits);
}

}  // namespace quern::env
