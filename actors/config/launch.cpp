#include "actors/config/launch.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>
#include <unistd.h>

#include "base/text.hpp"

extern "C" char** environ;

namespace quern::actors {
namespace {

using base::errc;
using base::fail;

constexpr std::string_view host_mark = "{host}";
constexpr std::string_view command_mark = "{command}";
constexpr std::string_view advice =
    "ssh -o BatchMode=yes {host}, or srun --nodes=1 --ntasks=1 --nodelist={host}";

std::vector<std::string> words_of(const std::string& pattern) {
  std::vector<std::string> found;
  for (const std::string_view word : base::split(pattern, ' '))
    if (!word.empty()) found.emplace_back(word);
  return found;
}

std::string replaced(std::string text, std::string_view mark, std::string_view by) {
  for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at)) {
    text.replace(at, mark.size(), by);
    at += by.size();
  }
  return text;
}

bool gives_words_to_a_shell(const std::string& program) {
  return std::filesystem::path(program).filename() == "ssh";
}

/// Each ssh in a row has a shell of its own that takes the text apart.
std::string quoted_for_shells(std::string text, const std::vector<std::string>& pattern) {
  const auto shells = std::count_if(pattern.begin(), pattern.end(), gives_words_to_a_shell);
  for (std::ptrdiff_t more = 1; more < shells; ++more)
    text = shell_quoted(text);
  return text;
}

/// Another program that starts ssh: the words would be taken apart by the shell at its end.
bool hides_a_shell(const std::string& pattern) {
  const auto all = words_of(pattern);
  return pattern.find(command_mark) == std::string::npos &&
         std::any_of(all.begin() + 1, all.end(), gives_words_to_a_shell);
}

}  // namespace

std::string shell_quoted(std::string_view word) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_-./,:@%+=").find(c) != std::string_view::npos;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), plain)) return std::string(word);
  return "'" + replaced(std::string(word), "'", "'\\''") + "'";
}

base::status check_launch(const std::string& pattern) {
  if (words_of(pattern).empty())
    return fail(errc::invalid_argument,
                "cluster.launch is empty, but a role is to live on another host: say how a process "
                "is started there, such as {}",
                advice);
  if (hides_a_shell(pattern))
    return fail(errc::invalid_argument,
                "cluster.launch is '{}': ssh gives the words of a command to a shell, which would "
                "take them apart; put {} where ssh has its command, as in: timeout 9 ssh {} {}",
                pattern, command_mark, host_mark, command_mark);
  if (pattern.find(host_mark) != std::string::npos) return {};
  return fail(
      errc::invalid_argument,
      "cluster.launch is '{}': it has no {}, so that it could not be told where; such as {}",
      pattern, host_mark, advice);
}

base::expected<std::string> launch_program(const std::string& pattern) {
  QUERN_CHECK(check_launch(pattern));
  const std::string name = words_of(pattern).front();
  std::vector<std::string> places;
  const char* path = std::getenv("PATH");
  if (name.find('/') != std::string::npos)
    places.emplace_back(name);
  else
    for (const std::string_view folder : base::split(path != nullptr ? path : "", ':'))
      places.push_back(fmt::format("{}/{}", folder, name));
  for (const std::string& place : places) {
    std::error_code ignored;
    if (std::filesystem::is_regular_file(place, ignored) && ::access(place.c_str(), X_OK) == 0)
      return std::filesystem::absolute(place, ignored).string();
  }
  return fail(errc::invalid_argument,
              "cluster.launch begins with '{}', which is no program {}: install it, or name "
              "another one",
              name, name.find('/') != std::string::npos ? "here" : "in PATH");
}

base::expected<std::vector<std::string>> launch_command(const std::string& pattern,
                                                        const std::string& host,
                                                        const std::vector<std::string>& environment,
                                                        const std::vector<std::string>& argv) {
  QUERN_TRY(const std::string program, launch_program(pattern));
  std::vector<std::string> command;
  if (!environment.empty()) {
    command.emplace_back("env");
    command.insert(command.end(), environment.begin(), environment.end());
  }
  command.insert(command.end(), argv.begin(), argv.end());
  std::string text;
  for (const std::string& word : command)
    text += (text.empty() ? "" : " ") + shell_quoted(word);
  std::vector<std::string> made = words_of(pattern);
  text = quoted_for_shells(std::move(text), made);
  made.front() = program;
  for (std::string& word : made)
    word = replaced(replaced(std::move(word), host_mark, host), command_mark, text);
  if (pattern.find(command_mark) != std::string::npos) return made;
  if (gives_words_to_a_shell(program))
    made.push_back(text);
  else
    made.insert(made.end(), command.begin(), command.end());
  return made;
}

std::vector<std::string> travelling_environment() {
  std::vector<std::string> found;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const bool travels = text.starts_with("NCCL_") || text.starts_with("QUERN_") ||
                         text.starts_with("OMP_WAIT_POLICY=");
    if (travels) found.emplace_back(text);
  }
  return found;
}

}  // namespace quern::actors
