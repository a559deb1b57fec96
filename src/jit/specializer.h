// Specialization → cubin, through memory, disk and NVRTC: one compile per key across threads and processes.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/counters.h"
#include "base/lazy.h"
#include "base/log.h"
#include "base/once_map.h"
#include "base/settings.h"
#include "cuda/nvrtc.h"
#include "jit/specialization.h"
#include "store/cubin_store.h"

namespace msj::jit {

struct Cubin {
  std::string hash;  // of expanded source, options, target and format: the name on disk
  std::string bytes;
  std::string log;  // NVRTC's, when it was compiled here
};

class Specializer {
 public:
  Specializer(const Settings &settings, store::CacheRoot &root, Lazy<cuda::Nvrtc> &nvrtc, Counters &counters, Log &log);

  // Compiles if it must. Throws Error as cuda::Nvrtc does. What a path has to say to its users is logged once, but not
  // for a candidate of a sweep.
  enum class Purpose { use, sweep };
  [[nodiscard]] std::shared_ptr<const Cubin> cubin(const Specialization &specialization,
                                                   Purpose purpose = Purpose::use);
  // A file of kernels of no op, as it is: kept in the same places.
  [[nodiscard]] std::shared_ptr<const Cubin> cubin_of_file(const std::string &file,
                                                           const cuda::Architecture &architecture);
  // For a cubin that the driver would not load: forgets it, in memory and on disk, and compiles it again.
  [[nodiscard]] std::shared_ptr<const Cubin> rebuild(const Specialization &specialization);

  // The name on disk of this specialization's cubin, and a hash of the kernel source in it, which is provenance. Throw
  // Error where the source can't be read.
  [[nodiscard]] std::string hash_of(const Specialization &specialization);
  [[nodiscard]] std::string source_hash(const Specialization &specialization);

  [[nodiscard]] store::CubinStore &store() { return store_; }
  [[nodiscard]] KernelSources &sources() { return sources_; }

 private:
  // What is compiled and what it is called.
  struct Unit {
    std::string source;
    std::string hash;
    std::string key;   // in memory, and in the header of its file
    std::string name;  // NVRTC's for it
    std::string what;  // for the log: op, path and features
    cuda::Architecture architecture;
  };
  [[nodiscard]] Unit unit_of(const Specialization &specialization);
  [[nodiscard]] std::string hash_of_file(const std::string &name);
  [[nodiscard]] std::shared_ptr<const Cubin> get(const std::string &key, const std::function<Unit()> &make_unit);
  [[nodiscard]] std::shared_ptr<const Cubin> load_or_compile(const Unit &unit, bool trust_disk);
  void say_note(const Specialization &specialization);
  [[nodiscard]] std::shared_ptr<const Cubin> from_disk(const std::string &hash, const std::string &key);

  KernelSources sources_;
  store::CacheRoot &root_;
  store::CubinStore store_;
  Lazy<cuda::Nvrtc> &nvrtc_;
  Counters &counters_;
  Log &log_;
  double lock_timeout_;
  OnceMap<Cubin> cubins_;
};

}  // namespace msj::jit
