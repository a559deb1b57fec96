// What the stand-in driver reads of a cubin: an ELF file for CUDA, with one .text.<kernel> and one .nv.info.<kernel>
// section for each kernel.
#pragma once

#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <string>

namespace fake {

struct KernelCode {
  std::string name;
  std::size_t parameter_bytes = 0;
  unsigned max_threads = 1024;
};

template <typename Header>
Header read_at(const char *image, std::size_t offset) {
  Header header;
  std::memcpy(&header, image + offset, sizeof(header));
  return header;
}

// Entries of .nv.info: a format byte, an attribute byte, and a 16-bit value, or size of what follows (format 4).
inline void read_kernel_info(const char *bytes, std::size_t size, KernelCode &code) {
  constexpr unsigned char kSized = 4;
  constexpr unsigned char kMaxThreads = 0x05;
  constexpr unsigned char kParameter = 0x17;  // one each: index, ordinal, offset
  constexpr unsigned char kParameterBytes = 0x19;
  std::size_t first_parameter = 0;  // past what aligns it
  for (std::size_t at = 0; at + 4 <= size;) {
    const auto format = static_cast<unsigned char>(bytes[at]);
    const auto attribute = static_cast<unsigned char>(bytes[at + 1]);
    const auto value = read_at<std::uint16_t>(bytes, at + 2);
    if (attribute == kParameterBytes) code.parameter_bytes = value;
    if (attribute == kParameter && read_at<std::uint16_t>(bytes, at + 8) == 0) {
      first_parameter = read_at<std::uint16_t>(bytes, at + 10);
    }
    if (attribute == kMaxThreads && format == kSized) code.max_threads = read_at<std::uint32_t>(bytes, at + 4);
    at += 4 + (format == kSized ? value : 0u);
  }
  code.parameter_bytes -= std::min(first_parameter, code.parameter_bytes);
}

// The kernels and the bytes of the cubin at `image`, whose size it says itself; false if it is none.
inline bool read_cubin(const char *image, std::string &copy, std::deque<KernelCode> &kernels) {
  constexpr Elf64_Half kMachineCuda = 190;
  const auto header = read_at<Elf64_Ehdr>(image, 0);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_machine != kMachineCuda) return false;
  const auto section = [&](std::size_t index) {
    return read_at<Elf64_Shdr>(image, header.e_shoff + index * sizeof(Elf64_Shdr));
  };
  std::size_t bytes = header.e_shoff + header.e_shnum * sizeof(Elf64_Shdr);
  const char *names = image + section(header.e_shstrndx).sh_offset;
  const auto suffix = [&](const Elf64_Shdr &s, const std::string &prefix) {
    const std::string name = names + s.sh_name;
    return name.starts_with(prefix) ? name.substr(prefix.size()) : std::string();
  };
  for (std::size_t i = 0; i < header.e_shnum; ++i) {
    const Elf64_Shdr s = section(i);
    if (s.sh_type != SHT_NOBITS) bytes = std::max(bytes, static_cast<std::size_t>(s.sh_offset + s.sh_size));
    if (const std::string kernel = suffix(s, ".text."); !kernel.empty()) kernels.push_back({.name = kernel});
  }
  for (std::size_t i = 0; i < header.e_shnum; ++i) {
    const Elf64_Shdr s = section(i);
    const std::string kernel = suffix(s, ".nv.info.");
    for (KernelCode &code : kernels) {
      if (code.name == kernel) read_kernel_info(image + s.sh_offset, s.sh_size, code);
    }
  }
  copy.assign(image, std::max(bytes, static_cast<std::size_t>(header.e_phoff) + header.e_phnum * sizeof(Elf64_Phdr)));
  return true;
}

}  // namespace fake
