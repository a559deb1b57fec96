// MaxSim scores from C++17: one query against three documents of different lengths, on the first GPU, or on the CPU
// where there is none.
//
//     export PKG_CONFIG_PATH=PREFIX/lib/pkgconfig LD_LIBRARY_PATH=PREFIX/lib
//     c++ -std=c++17 docs/examples/score.cpp $(pkg-config --cflags --libs maxsim_jit) -o build/score
#include <cstdint>
#include <cstdio>
#include <exception>
#include <maxsim_jit/maxsim_jit.hpp>
#include <optional>
#include <utility>
#include <vector>

namespace {

std::int32_t choose_device(const maxsim_jit::Context &context) {
  try {
    maxsim_jit::DeviceMemory(context, 0, 1);
    return 0;
  } catch (const maxsim_jit::Error &error) {
    if (error.status() != MSJ_ERROR_NO_DRIVER) throw;
    std::printf("No GPU, so the CPU scores: %s.\n", error.what());
    return MSJ_DEVICE_CPU;
  }
}

// A vector's values where the device reads them: a copy in its memory, or on the CPU the vector's own. A program with
// CUDA passes its pointers.
template <typename T>
class Placed {
 public:
  Placed(const maxsim_jit::Context &context, std::int32_t device, std::vector<T> values) : values_(std::move(values)) {
    if (device == MSJ_DEVICE_CPU) return;
    memory_.emplace(context, device, values_.size() * sizeof(T));
    memory_->upload(values_.data());
  }
  void *get() { return memory_ ? memory_->get() : values_.data(); }
  const std::vector<T> &collect() {
    if (memory_) memory_->download(values_.data());
    return values_;
  }

 private:
  std::vector<T> values_;
  std::optional<maxsim_jit::DeviceMemory> memory_;
};

void score() {
  const maxsim_jit::Context context;
  const std::int32_t device = choose_device(context);  // 0, or MSJ_DEVICE_CPU
  Placed<float> q(context, device, {1, 0, 0, 0, 0, 1, 0, 0});
  Placed<float> d(context, device, {0.5F, 0.5F,  0, 0, 0, 0, 1, 0,    // document 0
                                    0,    1,     0, 0, 1, 0, 0, 0,    // document 1
                                    0,    0.25F, 0, 1, 9, 9, 9, 9});  // document 2: the second token is padding
  Placed<std::int32_t> lengths(context, device, {2, 2, 1});
  Placed<float> scores(context, device, {-1, -1, -1});

  maxsim_jit::DenseForward call;
  call.q = maxsim_jit::Tensor(q.get(), maxsim_jit::DType::f32, {1, 2, 4});
  call.d = maxsim_jit::Tensor(d.get(), maxsim_jit::DType::f32, {3, 2, 4});
  call.d_lengths = maxsim_jit::Tensor(lengths.get(), maxsim_jit::DType::i32, {3});
  call.scores = maxsim_jit::Tensor(scores.get(), maxsim_jit::DType::f32, {1, 3});
  call.launch.device = device;

  // Before serving: compiles, tunes and loads. The plan saves the look-up; the CPU has none.
  std::optional<maxsim_jit::Plan> plan;
  if (device != MSJ_DEVICE_CPU) call.launch.plan = &plan.emplace(prepare_plan(context, call.call()));
  context.freeze();  // from here on, a cold call throws Error(MSJ_ERROR_COLD), and never compiles

  maxsim_jit::dense_forward(context, call);  // asynchronous, on call.launch.stream

  int document = 0;
  for (const float value : scores.collect()) std::printf("document %d: %.2f\n", document++, value);
}

}  // namespace

int main() try {
  score();
  return 0;
} catch (const std::exception &error) {
  std::fprintf(stderr, "score: %s\n", error.what());
  return 1;
}
