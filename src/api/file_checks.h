// What a lookup would refuse of the cache's files, for those that have no call in hand: `cache verify|prune|import`,
// inspect, doctor.
#pragma once

#include <string>
#include <string_view>

#include "ops/pipeline.h"

namespace msj::api {

// What is wrong with a file of the cache, by its place below a layer's root and its bytes; "" if nothing.
[[nodiscard]] std::string file_problem(ops::Pipeline &pipeline, const std::string &relative, std::string_view bytes);
// The same, but a sound entry that no lookup of this library takes, of another bucket version or tuning epoch, is
// passed over: a lower layer may have one that is of use.
[[nodiscard]] store::Verdict lookup_verdict(ops::Pipeline &pipeline, const std::string &relative,
                                            std::string_view bytes);
// Whether a sound cubin file's texts are readable, and the key text that of the specialization that its name is for. A
// cubin of another version of the library, or of other sources, has a name that this one can't make: it is let pass.
[[nodiscard]] std::string cubin_texts_problem(ops::Pipeline &pipeline, const store::CubinFile &file);

// Why no lookup of this library takes a file that is right in itself; "" if one may. Only what an older library left
// for certain: an entry of an older bucket version or tuning epoch. A newer library's entries, and cubins of other
// sources, may be another's that shares the cache.
[[nodiscard]] std::string obsolete_reason(ops::Pipeline &pipeline, const std::string &relative, std::string_view bytes);

// "NVIDIA-H200_sm_90a_132sm_227KiB" is an environment of sm_90a; each is of "".
[[nodiscard]] bool is_of_architecture(const std::string &environment, std::string_view arch);

// The texts of a cubin file are nested less deep.
inline constexpr std::size_t kMaxCubinTextDepth = 8;

}  // namespace msj::api
