// Small statistics over a handful of numbers: order statistics, winsorised spread, Student's
// quantiles.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace quern::env {

/// Arithmetic mean; 0 for no values.
double mean_of(std::span<const double> values);

/// Mean of what is left when a fifth of the values (rounded down) is cut off at each end: windows
/// that a neighbour on the machine has hit do not decide. 0 for no values.
double trimmed_mean_of(std::span<const double> values);

/// Middle value, or the mean of the two middle values; 0 for no values.
double median_of(std::span<const double> values);

/// The p-quantile (0 <= p <= 1) by linear interpolation between order statistics; 0 for no values.
double quantile_of(std::span<const double> values, double p);

/// Standard deviation (n - 1) after the lowest and the highest value were replaced by their
/// neighbours, so that one disturbed bucket does not decide; plain for fewer than five values.
double winsorised_deviation(std::span<const double> values);

/// Standard error of the trimmed mean that belongs to winsorised_deviation (Yuen 1974): one value
/// trimmed at each end; plain s / sqrt(n) for fewer than five values, infinite for fewer than two.
double trimmed_standard_error(std::span<const double> values);

/// Two-sided 95 % quantile of Student's t with `degrees` >= 1 of freedom.
double student_95(std::size_t degrees);

/// Cuts [0, count) into `parts` consecutive ranges (begin, end) whose lengths differ by at most
/// one, the longer ones first. Ranges are empty where count < parts.
std::vector<std::pair<std::size_t, std::size_t>> consecutive_ranges(std::size_t count,
                                                                    std::size_t parts);

}  // namespace quern::env
