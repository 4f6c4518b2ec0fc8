// Schema 1 of run.db, which called an incarnation of a run an epoch: what readers put over it, and
// what makes schema 2 of it. The names of schema 1 stand in this file's .cpp alone.
#pragma once

namespace quern::storage {

/// Temporary views with the names of the present schema over tables of schema 1. For a connection
/// that reads: they live in its memory, the file stays as it is, and SQLite uses the file's
/// indices through them.
const char* schema1_views();

/// Renames tables and columns of schema 1 and drops the triggers that name them. Rows stay where
/// they are: the time does not depend on how many there are. For one transaction, which then makes
/// the triggers anew.
const char* schema1_renames();

}  // namespace quern::storage
