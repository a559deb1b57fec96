// Kernel sources: includes are replaced in place, once each, recursively; from the library or from a folder.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <filesystem>

#include "base/error.h"
#include "jit/source.h"
#include "support/scratch.h"

using namespace msj;
using namespace msj::testing;

namespace {

struct Folder {
  Folder() {
    std::filesystem::create_directory(directory / "common");
    write_text(directory / "op.path.cu", "// head\n#include \"common/a.cuh\"\n  #include \"common/b.cuh\"\nbody\n");
    write_text(directory / "common/a.cuh", "#pragma once\n#include \"common/b.cuh\"\na\n");
    write_text(directory / "common/b.cuh", "#pragma once\nb\n");
  }
  ScratchDirectory directory;
};

std::string error_of(jit::KernelSources &sources, const std::string &name, msj_status status) {
  try {
    (void)sources.expanded(name);
  } catch (const Error &error) {
    CHECK(error.status() == status);
    return error.what();
  }
  FAIL("no error");
  return {};
}

}  // namespace

TEST_CASE("each file is expanded once, where it is first included") {
  const Folder folder;
  jit::KernelSources sources(folder.directory.path());
  CHECK(sources.expanded("op.path.cu") == "// head\nb\na\nbody\n");
}

TEST_CASE("files that include each other end") {
  const Folder folder;
  write_text(folder.directory / "common/b.cuh", "#pragma once\n#include \"common/a.cuh\"\nb\n");
  jit::KernelSources sources(folder.directory.path());
  CHECK(sources.expanded("op.path.cu") == "// head\nb\na\nbody\n");
}

TEST_CASE("a source is read once per context") {
  const Folder folder;
  jit::KernelSources sources(folder.directory.path());
  const std::string before = sources.expanded("op.path.cu");
  write_text(folder.directory / "op.path.cu", "changed\n");
  CHECK(sources.expanded("op.path.cu") == before);
  CHECK(jit::KernelSources(folder.directory.path()).expanded("op.path.cu") == "changed\n");
}

TEST_CASE("a missing file is named") {
  const Folder folder;
  jit::KernelSources sources(folder.directory.path());
  CHECK(error_of(sources, "none.cu", MSJ_ERROR_IO).find(folder.directory / "none.cu") != std::string::npos);
  CHECK(error_of(sources, "none.cu", MSJ_ERROR_IO).find("MAXSIM_JIT_KERNEL_DIR") != std::string::npos);
  std::filesystem::remove(folder.directory / "common/b.cuh");
  CHECK(error_of(sources, "op.path.cu", MSJ_ERROR_IO).find("common/b.cuh") != std::string::npos);
  jit::KernelSources embedded("");
  CHECK(error_of(embedded, "none.cu", MSJ_ERROR_INTERNAL).find("none.cu") != std::string::npos);
}

TEST_CASE("what is no regular file is refused, not waited for") {
  const Folder folder;
  const std::string pipe = folder.directory / "pipe.cu";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  std::filesystem::create_directory(folder.directory / "directory.cu");
  jit::KernelSources sources(folder.directory.path());
  for (const char *name : {"pipe.cu", "directory.cu"}) {
    CHECK(error_of(sources, name, MSJ_ERROR_IO).find("is no regular file") != std::string::npos);
  }
}

TEST_CASE("what is embedded is what lies in kernels/, and includes nothing from elsewhere") {
  jit::KernelSources embedded("");
  jit::KernelSources folder(std::string(MSJ_SOURCE_DIR) + "/kernels");
  int kernels = 0;
  for (const auto &[name, text] : jit::embedded_kernels()) {
    CAPTURE(name);
    CHECK(read_text(std::string(MSJ_SOURCE_DIR) + "/kernels/" + name) == text);
    if (!name.ends_with(".cu")) continue;
    ++kernels;
    CHECK(embedded.expanded(name) == folder.expanded(name));
    CHECK(embedded.expanded(name).find("#include") == std::string::npos);
  }
  CHECK(kernels >= 1);
}
