// Tar archives made by hand, right and wrong.
#pragma once

#include <fmt/format.h>

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "store/tar.h"

namespace msj::store {

inline constexpr std::size_t kTarBlock = 512;

inline void seal_header(std::string &header) {
  header.replace(148, 8, "        ");
  unsigned sum = 0;
  for (const char byte : header.substr(0, kTarBlock)) sum += static_cast<unsigned char>(byte);
  header.replace(148, 8, fmt::format("{:06o}", sum) + std::string("\0 ", 2));
}

struct HandMade {
  std::string name;
  char type = '0';
  std::string contents = {};
  std::string size = {};  // in place of the contents' own
  std::string link = {};
};

inline std::string tar_member(const HandMade &made) {
  std::string header(kTarBlock, '\0');
  header.replace(0, made.name.size(), made.name);
  header.replace(100, 7, "0000644");
  const std::string size = made.size.empty() ? fmt::format("{:011o}", made.contents.size()) : made.size;
  header.replace(124, size.size(), size);
  header[156] = made.type;
  header.replace(157, made.link.size(), made.link);
  header.replace(257, 8, std::string("ustar\00000", 8));
  seal_header(header);
  const std::string padding((kTarBlock - made.contents.size() % kTarBlock) % kTarBlock, '\0');
  return header + made.contents + padding;
}

inline std::string tar_end() { return std::string(2 * kTarBlock, '\0'); }

inline std::string tar_of(const std::vector<HandMade> &members) {
  std::string tar;
  for (const HandMade &made : members) tar += tar_member(made);
  return tar + tar_end();
}

// "LENGTH key=value\n"
inline std::string pax(const std::string &key, const std::string &value) {
  const std::string rest = " " + key + "=" + value + "\n";
  std::size_t length = rest.size() + 1;
  while (std::to_string(length).size() + rest.size() != length) ++length;
  return std::to_string(length) + rest;
}

// A reader of bytes in memory; one that reads beyond them throws std::out_of_range, which no test expects.
inline TarReader reader_of(std::string_view tar) {
  return {"the archive", tar.size(), [tar](std::uint64_t offset, char *bytes, std::size_t count) {
            if (offset > tar.size() || count > tar.size() - offset) throw std::out_of_range("read beyond the archive");
            std::memcpy(bytes, tar.data() + offset, count);
          }};
}

}  // namespace msj::store
