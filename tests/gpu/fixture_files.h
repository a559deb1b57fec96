// The real text of tests/data.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>
#include <vector>

#include "support/scratch.h"

namespace msj::gpu {

inline const std::string kData = MSJ_SOURCE_DIR "/tests/data/";

// What follows the header of a .npy file of version 1.0, as the script that made the fixture wrote it.
[[nodiscard]] inline std::string npy_elements(const std::string &file) {
  const std::string bytes = testing::read_text(kData + file);
  REQUIRE(bytes.starts_with(std::string("\x93NUMPY\x01\x00", 8)));
  const std::size_t header = static_cast<unsigned char>(bytes.at(8)) + 256U * static_cast<unsigned char>(bytes.at(9));
  REQUIRE(bytes.substr(10, header).find("'fortran_order': False") != std::string::npos);
  return bytes.substr(10 + header);
}

// Documents of a question, best first; scores in C order.
[[nodiscard]] inline std::vector<std::size_t> ranking(const std::vector<float> &scores, std::size_t question,
                                                      std::size_t documents) {
  std::vector<std::size_t> order(documents);
  std::iota(order.begin(), order.end(), std::size_t{0});
  const float *row = scores.data() + question * documents;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return row[a] > row[b]; });
  return order;
}

}  // namespace msj::gpu
