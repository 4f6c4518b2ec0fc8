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
/// 40 characters (Z85) each; and the public key alone to `file`.pub, of mode 0644, to be copied to
/// the other side. Errors: already_exists (one of them is there: a key is never overwritten), io.
base::expected<curve_keys> make_key_file(const std::filesystem::path& file);

/// Reads such a file. Errors: not_found, invalid_argument (not two lines of 40 characters, or
/// readable by others).
base::expected<curve_keys> read_key_file(const std::filesystem::path& file);

/// A public key as a person gives it: the key itself, whose characters a shell may read as its own,
/// or the name of a file with this key alone (`FILE.pub` of make_key_file). Errors:
/// invalid_argument (neither; a file with several keys, such as a pair, whose secret is not for
/// others), whatever reading gives.
base::expected<std::string> public_key_of(const std::string& text);

/// Public keys, one a line; what follows a key on its line, empty lines and lines that begin with #
/// are notes for people. `place` is a file, or a folder whose files *.pub are read. Errors:
/// not_found, invalid_argument (a line whose first word is no key; no key at all).
base::expected<std::set<std::string>> read_public_keys(const std::filesystem::path& place);

}  // namespace quern::env
