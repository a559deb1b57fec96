// The machine code of a cubin: the contents of its ELF sections ".text.*", by name.
#pragma once

#include <elf.h>

#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>

namespace msj::testing {

template <typename T>
[[nodiscard]] T read_at(std::string_view bytes, std::size_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) throw std::runtime_error("cubin is truncated");
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

[[nodiscard]] inline std::map<std::string, std::string> code_sections(std::string_view cubin) {
  const auto header = read_at<Elf64_Ehdr>(cubin, 0);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) throw std::runtime_error("cubin is no ELF file");
  const auto section = [&](std::size_t index) {
    return read_at<Elf64_Shdr>(cubin, header.e_shoff + index * header.e_shentsize);
  };
  const Elf64_Shdr names = section(header.e_shstrndx);
  std::map<std::string, std::string> code;
  for (std::size_t i = 0; i < header.e_shnum; ++i) {
    const Elf64_Shdr one = section(i);
    const std::string name = cubin.substr(names.sh_offset + one.sh_name).data();
    if (name.starts_with(".text.")) code[name] = cubin.substr(one.sh_offset, one.sh_size);
  }
  return code;
}

}  // namespace msj::testing
