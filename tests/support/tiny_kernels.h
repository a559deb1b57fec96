// Kernels that do nothing, for tests that are about keys and counts: every path of every op compiles in milliseconds.
#pragma once

#include <filesystem>
#include <string>

#include "base/op_spec.h"
#include "ops/registry.h"
#include "support/scratch.h"

namespace msj::testing {

class TinyKernels {
 public:
  TinyKernels() {
    for (const ops::Op &op : ops::all_ops()) {
      for (const PathSpec &path : op.spec->paths) write(*op.spec, path, "");
    }
    write_text(folder_ / "ceilings.cu", "");
  }

  // Writes a path's file with one more line in it: another source for contexts that are made from now on.
  void write(const OpSpec &op, const PathSpec &path, const std::string &line) {
    std::string text = line + "\n";
    for (const std::string_view entry : path.entries) {
      text += "extern \"C\" __global__ void __launch_bounds__(1024) " + std::string(entry) +
              "(const __grid_constant__ msj::Args args) {}\n";
    }
    write_text(file(op, path), text);
  }
  [[nodiscard]] std::string file(const OpSpec &op, const PathSpec &path) const {
    return folder_ / (std::string(op.name) + "." + std::string(path.name) + ".cu");
  }
  [[nodiscard]] const std::string &folder() const { return folder_.path(); }

 private:
  ScratchDirectory folder_;
  ScopedEnvironment variable_{"MAXSIM_JIT_KERNEL_DIR", folder_.path()};
};

}  // namespace msj::testing
