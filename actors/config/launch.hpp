// How a process is started on another host: by a command of this machine that stays for as long as
// the process lives, passes its standard input and output on and ends when it ends, as ssh and srun
// do.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"

namespace quern::actors {

/// A word as a shell reads it back: in quotes where it needs them.
std::string shell_quoted(std::string_view word);

/// That cluster.launch has a program and {host}, and {command} where another program starts ssh.
/// Errors say what is missing.
base::status check_launch(const std::string& pattern);

/// The program that cluster.launch begins with, looked for in PATH. Errors: invalid_argument.
base::expected<std::string> launch_program(const std::string& pattern);

/// The command of this machine that runs `argv` on `host`, with `environment` (NAME=VALUE) over
/// what it finds there. The pattern's words stand between spaces. {host} is the name; {command} is
/// the whole command as one text for a shell. A pattern without {command} is followed by the words
/// of the command as they are; that of ssh, which gives them to a shell, by the text.
base::expected<std::vector<std::string>> launch_command(const std::string& pattern,
                                                        const std::string& host,
                                                        const std::vector<std::string>& environment,
                                                        const std::vector<std::string>& argv);

/// Variables of this process that go along to other hosts: those that say how NCCL and Quern work,
/// and how threads of LibTorch wait.
std::vector<std::string> travelling_environment();

}  // namespace quern::actors
