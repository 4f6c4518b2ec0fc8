// CURVE keys in files: a key pair that a machine keeps for itself, and a list of those let in.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <string_view>

#include "base/status.hpp"
#include "env/plugin/zmq_socket.hpp"

namespace quern::env {

/// Makes a key pair and writes it to a new file of mode 0600: public key and secret key, a line of
/// 40 characters (Z85) each. Errors: conflict (the file is there: a key is never overwritten), io.
base::expected<curve_keys> make_key_file(const std::filesystem::path& file);

/// Reads such a file. Errors: not_found, invalid_argument (not two lines of 40 characters, or
/// readable by others).
base::expected<curve_keys> read_key_file(const std::filesystem::path& file);

/// A public key as a person types it. Error: invalid_argument, with the length that is needed.
base::status check_public_key(std::string_view text);

/// Public keys, one a line; what follows a key on its line, empty lines and lines that begin with #
/// are notes for people. Errors: not_found, invalid_argument (a line whose first word is no key; no
/// key at all).
base::expected<std::set<std::string>> read_public_keys(const std::filesystem::path& file);

}  // namespace quern::env
