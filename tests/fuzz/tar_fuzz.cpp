// Any bytes as a tar archive: reading never crashes or reads past the end, every member's contents lie in the archive,
// what is refused has a reason, and files that were read and are written again are read as the same. Built with clang's
// -fsanitize=fuzzer,address,undefined.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "store/tar_files.h"

namespace {

using msj::store::kTarBlock;
using msj::store::TarMember;
using Files = std::vector<std::pair<std::string, std::string>>;  // path, contents

// Random bytes never have a right checksum: with it in every block, the members and names behind it are reached too.
std::string sealed(std::string bytes) {
  for (std::size_t at = 0; at + kTarBlock <= bytes.size(); at += kTarBlock) {
    std::string block = bytes.substr(at, kTarBlock);
    if (block.find_first_not_of('\0') == std::string::npos) continue;
    msj::store::seal_header(block);
    bytes.replace(at, kTarBlock, block);
  }
  return bytes;
}

// Those of a whole archive; none of one that is refused.
Files files_of(const std::string &tar) {
  Files files;
  try {
    msj::store::TarReader reader = msj::store::reader_of(tar);
    while (const auto member = reader.next()) {
      if (member->contents_at > tar.size() || member->size > tar.size() - member->contents_at) std::abort();
      if (member->kind == TarMember::Kind::other && member->what.empty()) std::abort();
      if (member->kind == TarMember::Kind::file) files.emplace_back(member->path, reader.contents(*member));
    }
  } catch (const msj::Error &error) {
    if (std::string(error.what()).size() < 20) std::abort();
    return {};
  }
  return files;
}

void check(const std::string &tar) {
  const Files files = files_of(tar);
  std::string again;
  msj::store::TarWriter writer([&](std::string_view bytes) { again += bytes; });
  for (const auto &[path, contents] : files) {
    if (path.empty() || path.find('\0') != std::string::npos) return;  // no name that a file could have
    writer.add(path, contents);
  }
  writer.finish();
  if (files_of(again) != files) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char *>(data), size);
  check(bytes);
  check(sealed(bytes));
  check(sealed(bytes) + msj::store::tar_end());
  return 0;
}
