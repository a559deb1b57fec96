// Without libFuzzer: the target once for each file of the folders named, in the order of their names.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size);

namespace {

std::vector<std::filesystem::path> files_of(int count, char **folders) {
  std::vector<std::filesystem::path> files;
  for (int i = 0; i < count; ++i) {
    for (const auto &entry : std::filesystem::directory_iterator(folders[i])) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

}  // namespace

int main(int argc, char **argv) try {
  const auto files = files_of(argc - 1, argv + 1);
  for (const auto &file : files) {
    std::fprintf(stderr, "%s\n", file.c_str());  // the last one named is the one that a crash is about
    std::ifstream stream(file, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(stream), {}};
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t *>(bytes.data()), bytes.size());
  }
  std::printf("%zu files replayed\n", files.size());
  return files.empty() ? 1 : 0;
} catch (const std::exception &error) {
  std::fprintf(stderr, "replay: %s\n", error.what());
  return 1;
}
