// maxsim-jit for C++17: a header-only wrapper over the C ABI (maxsim_jit.h), which says everything that this file does
// not: what the sizes mean, when calls are asynchronous, what a plan is for.
//
//     maxsim_jit::Context context;
//     maxsim_jit::DenseForward call;
//     call.q = maxsim_jit::Tensor(q, maxsim_jit::DType::bf16, {1, 32, 128});
//     call.d = maxsim_jit::Tensor(d, maxsim_jit::DType::bf16, {1000, 300, 128});
//     call.scores = maxsim_jit::Tensor(scores, maxsim_jit::DType::f32, {1, 1000});
//     maxsim_jit::dense_forward(context, call);
//
//  - Every failure throws maxsim_jit::Error: what() is msj_last_error()'s sentence, status() the MSJ_ERROR_*.
//  - Memory stays the caller's: a Tensor is a view. A Context is a handle: copies share one context, which lives until
//    the last copy and the last Plan and DeviceMemory made from it are gone.
//  - Thread-safe where the C ABI is: any number of threads may use one Context. A Call, a Tensor or a struct of
//    arguments must not be changed while another thread reads it.
//  - Nothing here allocates between a filled-in call and the kernel's launch.
#ifndef MAXSIM_JIT_MAXSIM_JIT_HPP_
#define MAXSIM_JIT_MAXSIM_JIT_HPP_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "maxsim_jit/maxsim_jit.h"

namespace maxsim_jit {

// ---- errors -----------------------------------------------------------------------------------------------------

class Error : public std::runtime_error {
 public:
  Error(msj_status status, const std::string &sentence) : std::runtime_error(sentence), status_(status) {}
  msj_status status() const noexcept { return status_; }

 private:
  msj_status status_;
};

// Throws what the thread's last failed call left behind. Call it on the status of an msj_* function, before any other.
inline void check(msj_status status) {
  if (status != MSJ_OK) throw Error(status, msj_last_error());
}

// ---- tensors ----------------------------------------------------------------------------------------------------

enum class DType : std::int32_t {
  f32 = MSJ_F32,
  f16 = MSJ_F16,
  bf16 = MSJ_BF16,
  fp8_e4m3 = MSJ_FP8_E4M3,
  fp8_e5m2 = MSJ_FP8_E5M2,
  i8 = MSJ_I8,
  u8 = MSJ_U8,
  boolean = MSJ_BOOL,
  i32 = MSJ_I32,
  i64 = MSJ_I64
};

// A view of device memory (host memory for calls on the CPU). A default-made Tensor means: absent.
class Tensor {
 public:
  Tensor() noexcept = default;

  // C-contiguous. Throws Error(MSJ_ERROR_INVALID_ARGUMENT) for a rank above MSJ_MAX_RANK.
  Tensor(const void *data, DType dtype, std::initializer_list<std::int64_t> shape)
      : Tensor(data, dtype, shape.begin(), shape.size()) {}

  Tensor(const void *data, DType dtype, const std::int64_t *shape, std::size_t rank) {
    if (rank > std::size_t{MSJ_MAX_RANK}) {
      throw Error(MSJ_ERROR_INVALID_ARGUMENT, "rank of a Tensor is " + std::to_string(rank) + "; at most " +
                                                  std::to_string(int{MSJ_MAX_RANK}) + " is accepted");
    }
    view_.struct_size = sizeof(view_);
    view_.data = const_cast<void *>(data);  // the C struct is one for inputs and results
    view_.dtype = static_cast<msj_dtype>(dtype);
    view_.rank = static_cast<std::int32_t>(rank);
    std::uint64_t stride = 1;  // unsigned: where it passes 2^63, the call is refused for its shape
    for (std::size_t i = rank; i-- > 0;) {
      view_.shape[i] = shape[i];
      view_.strides[i] = static_cast<std::int64_t>(stride);
      stride *= shape[i] > 1 ? static_cast<std::uint64_t>(shape[i]) : 1;
    }
  }

  // The same view with other strides, in elements; as many as the rank, else Error(MSJ_ERROR_INVALID_ARGUMENT).
  Tensor with_strides(std::initializer_list<std::int64_t> strides) const {
    return with_strides(strides.begin(), strides.size());
  }
  Tensor with_strides(const std::int64_t *strides, std::size_t count) const {
    if (count != static_cast<std::size_t>(view_.rank)) {
      throw Error(MSJ_ERROR_INVALID_ARGUMENT, "with_strides got " + std::to_string(count) +
                                                  " strides; a Tensor of rank " + std::to_string(view_.rank) +
                                                  " has as many");
    }
    Tensor result = *this;
    for (std::size_t i = 0; i < count; ++i) result.view_.strides[i] = strides[i];
    return result;
  }

  bool present() const noexcept { return view_.struct_size != 0; }
  const msj_tensor &view() const noexcept { return view_; }

 private:
  msj_tensor view_{};  // struct_size 0: absent
};

// ---- context ----------------------------------------------------------------------------------------------------

// Empty means: the environment variable, else the library's default.
struct ContextOptions {
  std::string cache_dir{};  // as MAXSIM_JIT_CACHE_DIR: "rw" or "rw:ro1:ro2"
  std::string tune{};       // as MAXSIM_JIT_TUNE: "on", "cached" or "off"
  // Called from any thread. What they throw is dropped: nothing may pass through the C ABI.
  std::function<void(std::int32_t level, const char *message)> log{};  // MSJ_LOG_*
  std::function<void(const char *what, std::int64_t done, std::int64_t total)> progress{};
};

namespace detail {

// Options and context in one place, because the context calls the options' functions until it is destroyed.
struct ContextState {
  explicit ContextState(ContextOptions given) : options(std::move(given)) {
    msj_context_options raw{};
    raw.struct_size = sizeof(raw);
    if (!options.cache_dir.empty()) raw.cache_dir = options.cache_dir.c_str();
    if (!options.tune.empty()) raw.tune = options.tune.c_str();
    if (options.log) raw.log = &ContextState::log;
    if (options.progress) raw.progress = &ContextState::progress;
    raw.log_user = this;
    raw.progress_user = this;
    check(msj_context_create(&raw, &context));
  }
  ~ContextState() { msj_context_destroy(context); }
  ContextState(const ContextState &) = delete;
  ContextState &operator=(const ContextState &) = delete;

  static void log(void *user, std::int32_t level, const char *message) noexcept {
    try {
      static_cast<ContextState *>(user)->options.log(level, message);
    } catch (...) {
    }
  }
  static void progress(void *user, const char *what, std::int64_t done, std::int64_t total) noexcept {
    try {
      static_cast<ContextState *>(user)->options.progress(what, done, total);
    } catch (...) {
    }
  }

  ContextOptions options;
  msj_context *context = nullptr;
};

struct StringDelete {
  void operator()(char *string) const noexcept { msj_string_free(string); }
};
using String = std::unique_ptr<char, StringDelete>;

}  // namespace detail

class Context {
 public:
  Context() : Context(ContextOptions{}) {}
  explicit Context(ContextOptions options) : state_(std::make_shared<detail::ContextState>(std::move(options))) {}

  msj_context *get() const noexcept { return state_->context; }

  // From now on a call that would compile, sweep or load throws Error(MSJ_ERROR_COLD) instead.
  void freeze(bool frozen = true) const { check(msj_freeze(get(), frozen ? 1 : 0)); }

  msj_counters stats() const {
    msj_counters counters{};
    counters.struct_size = sizeof(counters);
    check(msj_stats(get(), &counters));
    return counters;
  }

  // JSON, as the C header describes it. Empty op or arch: all.
  std::string inspect(const std::string &op = {}, const std::string &arch = {}, bool cubins = false) const {
    msj_inspect_options options{};
    options.struct_size = sizeof(options);
    if (!op.empty()) options.op = op.c_str();
    if (!arch.empty()) options.arch = arch.c_str();
    options.cubins = cubins ? 1 : 0;
    char *json = nullptr;
    check(msj_inspect(get(), &options, &json));
    return detail::String(json).get();
  }
  std::string doctor() const {
    char *json = nullptr;
    check(msj_doctor(get(), &json));
    return detail::String(json).get();
  }
  std::string cache(std::int32_t action) const {  // MSJ_CACHE_*
    char *json = nullptr;
    check(msj_cache(get(), action, &json));
    return detail::String(json).get();
  }
  // To and from a tar archive. Empty op or arch: all. Whoever imports a file trusts whoever made it.
  std::string cache_export(const std::string &file, const std::string &op = {}, const std::string &arch = {}) const {
    msj_export_options options{};
    options.struct_size = sizeof(options);
    if (!op.empty()) options.op = op.c_str();
    if (!arch.empty()) options.arch = arch.c_str();
    char *json = nullptr;
    check(msj_cache_export(get(), &options, file.c_str(), &json));
    return detail::String(json).get();
  }
  std::string cache_import(const std::string &file) const {
    char *json = nullptr;
    check(msj_cache_import(get(), file.c_str(), &json));
    return detail::String(json).get();
  }

 private:
  std::shared_ptr<detail::ContextState> state_;
};

// JSON: every op's operands, features, sizes, dtypes and params. Needs no context.
inline std::string describe() {
  char *json = nullptr;
  check(msj_describe(&json));
  return detail::String(json).get();
}

inline std::string version() { return msj_version(); }

// ---- plans and calls --------------------------------------------------------------------------------------------

class Call;

// The hot path's handle: what prepare_plan found for one kind of call. Usable for any call of the same op, features,
// dtypes, static sizes, layout class, bucket and device; else Error(MSJ_ERROR_PLAN_MISMATCH).
class Plan {
 public:
  Plan(Plan &&) noexcept = default;
  Plan &operator=(Plan &&other) noexcept {  // the old plan goes before its context
    plan_ = std::move(other.plan_);
    context_ = std::move(other.context_);
    return *this;
  }
  const msj_plan *get() const noexcept { return plan_.get(); }

 private:
  friend Plan prepare_plan(const Context &, const Call &);
  struct Delete {
    void operator()(msj_plan *plan) const noexcept { msj_plan_destroy(plan); }
  };
  Plan(Context context, msj_plan *plan) : context_(std::move(context)), plan_(plan) {}

  Context context_;  // declared first: destroyed after the plan
  std::unique_ptr<msj_plan, Delete> plan_;
};

// Where and how a call runs.
struct Launch {
  std::int32_t device = 0;    // CUDA ordinal, or MSJ_DEVICE_CPU: the reference, on host tensors
  void *stream = nullptr;     // CUstream
  void *workspace = nullptr;  // 256-byte aligned device memory of workspace_size() bytes
  std::size_t workspace_size = 0;
  const Plan *plan = nullptr;  // null: looked up
};

// Any op's call, for code that knows its op only at run time; typed structs such as DenseForward make one.
class Call {
 public:
  static constexpr std::size_t max_operands = 16;
  static constexpr std::size_t max_params = 8;

  explicit Call(msj_op op) noexcept {
    call_.struct_size = sizeof(call_);
    call_.op = op;
    point_to_own();
  }
  Call(const Call &other) noexcept
      : call_(other.call_), tensors_(other.tensors_), pointers_(other.pointers_), params_(other.params_) {
    point_to_own();
  }
  Call &operator=(const Call &other) noexcept {
    call_ = other.call_;
    tensors_ = other.tensors_;
    pointers_ = other.pointers_;
    params_ = other.params_;
    point_to_own();
    return *this;
  }
  ~Call() = default;

  // `index` is the op's enumerator, MSJ_DENSE_FORWARD_Q and so on. An absent Tensor makes the operand absent.
  Call &operand(std::size_t index, const Tensor &tensor) {
    if (index >= max_operands) {
      throw Error(MSJ_ERROR_INVALID_ARGUMENT, "operand index of a Call is " + std::to_string(index) + "; below " +
                                                  std::to_string(max_operands) + " is accepted");
    }
    tensors_[index] = tensor.view();
    pointers_[index] = tensor.present() ? &tensors_[index] : nullptr;
    if (index >= call_.operand_count && tensor.present()) call_.operand_count = index + 1;
    return *this;
  }
  template <typename Integer, std::enable_if_t<std::is_integral_v<Integer>, int> = 0>
  Call &param(std::int32_t id, Integer value) {
    add_param(id).value.i = static_cast<std::int64_t>(value);
    return *this;
  }
  Call &param(std::int32_t id, double value) {
    add_param(id).value.f = value;
    return *this;
  }
  Call &param(const msj_param &param) {
    add_param(param.id).value = param.value;
    return *this;
  }
  Call &flag(std::uint64_t flag, bool on = true) noexcept {
    call_.flags = on ? call_.flags | flag : call_.flags & ~flag;
    return *this;
  }
  Call &launch(const Launch &launch) noexcept {
    call_.device = launch.device;
    call_.stream = launch.stream;
    call_.workspace = launch.workspace;
    call_.workspace_size = launch.workspace_size;
    call_.plan = launch.plan == nullptr ? nullptr : launch.plan->get();
    return *this;
  }

  // Valid until this Call changes or dies.
  const msj_call *get() const noexcept { return &call_; }

 private:
  msj_param &add_param(std::int32_t id) {
    if (call_.param_count >= max_params) {
      throw Error(MSJ_ERROR_INVALID_ARGUMENT,
                  "a Call has more than the accepted " + std::to_string(max_params) + " params");
    }
    msj_param &param = params_[call_.param_count++];
    param.id = id;
    return param;
  }
  void point_to_own() noexcept {
    for (std::size_t i = 0; i < max_operands; ++i) {
      if (pointers_[i] != nullptr) pointers_[i] = &tensors_[i];
    }
    call_.operands = pointers_.data();
    call_.params = params_.data();
  }

  msj_call call_{};
  std::array<msj_tensor, max_operands> tensors_{};
  std::array<const msj_tensor *, max_operands> pointers_{};
  std::array<msj_param, max_params> params_{};
};

// Scores now; asynchronous on the call's stream.
inline void run(const Context &context, const Call &call) { check(msj_run(context.get(), call.get())); }

// Bytes of workspace that any config of this call may need.
inline std::size_t workspace_size(const Context &context, const Call &call) {
  std::size_t bytes = 0;
  check(msj_workspace_size(context.get(), call.get(), &bytes));
  return bytes;
}

struct PrepareOptions {
  std::string arch{};  // empty: tune and load on the call's device; "sm_90a": compile for it, without a GPU
  std::string gpu{};   // with arch: only the entries shipped for this GPU
  std::int32_t layout = MSJ_LAYOUT_OF_CALL;
};

// Compiles and tunes ahead. Data pointers may be null.
inline void prepare(const Context &context, const Call &call, const PrepareOptions &options = {}) {
  msj_prepare_options raw{};
  raw.struct_size = sizeof(raw);
  if (!options.arch.empty()) raw.arch = options.arch.c_str();
  if (!options.gpu.empty()) raw.gpu = options.gpu.c_str();
  raw.layout = options.layout;
  check(msj_prepare(context.get(), call.get(), &raw, nullptr));
}

struct MeasureOptions {
  bool ceilings = false;    // time the call's ceilings too
  std::int32_t rounds = 0;  // at least so many; 0: as in a sweep
};

// Every candidate timed for this very call, as JSON. Data pointers may be null.
inline std::string measure(const Context &context, const Call &call, const MeasureOptions &options = {}) {
  msj_measure_options raw{};
  raw.struct_size = sizeof(raw);
  raw.ceilings = options.ceilings ? 1 : 0;
  raw.rounds = options.rounds;
  char *json = nullptr;
  check(msj_measure(context.get(), call.get(), &raw, &json));
  return detail::String(json).get();
}

inline Plan prepare_plan(const Context &context, const Call &call) {
  msj_plan *plan = nullptr;
  check(msj_prepare(context.get(), call.get(), nullptr, &plan));
  return Plan(context, plan);
}

// ---- device memory ----------------------------------------------------------------------------------------------

// Memory of one device's primary context, for programs without another CUDA library. Freed with the object.
class DeviceMemory {
 public:
  DeviceMemory(Context context, std::int32_t device, std::size_t bytes)
      : context_(std::move(context)), device_(device), bytes_(bytes) {
    if (bytes > 0) check(msj_device_alloc(context_.get(), device, bytes, &memory_));
  }
  DeviceMemory(DeviceMemory &&other) noexcept
      : context_(other.context_),
        device_(other.device_),
        bytes_(std::exchange(other.bytes_, 0)),
        memory_(std::exchange(other.memory_, nullptr)) {}
  DeviceMemory(const DeviceMemory &) = delete;
  DeviceMemory &operator=(const DeviceMemory &) = delete;
  ~DeviceMemory() {
    if (memory_ != nullptr) msj_device_free(context_.get(), device_, memory_);
  }

  void *get() const noexcept { return memory_; }  // null if bytes() is 0
  std::size_t bytes() const noexcept { return bytes_; }

  // Synchronous copies of all bytes.
  void upload(const void *from) const { copy(memory_, from, MSJ_COPY_TO_DEVICE); }
  void download(void *to) const { copy(to, memory_, MSJ_COPY_TO_HOST); }

 private:
  void copy(void *to, const void *from, std::int32_t direction) const {
    if (bytes_ > 0) check(msj_device_copy(context_.get(), device_, to, from, bytes_, direction));
  }

  Context context_;
  std::int32_t device_;
  std::size_t bytes_;
  void *memory_ = nullptr;
};

// ---- dense_forward ----------------------------------------------------------------------------------------------

// What a document without an active token scores.
enum class EmptyDoc : std::int64_t { zero = MSJ_EMPTY_DOC_ZERO, neg_inf = MSJ_EMPTY_DOC_NEG_INF };

// scores[i, j] = sum over s of max over t of <q[i, s], d[j, t]>, sums in float32.
// Sizes: Nq queries of Lq tokens, Nd documents of Ld tokens, d features a token (1 to 4,096).
// Any strides and alignment; fastest where base and outer strides of q and d are multiples of 16 bytes and the inner
// stride is 1. Nq or Nd = 0: an empty result. Ties: the lowest t. NaN in an active pair makes its score NaN.
// Errors: MSJ_ERROR_INVALID_ARGUMENT for a rank, shape or dtype not listed here; MSJ_ERROR_UNSUPPORTED for a size
// beyond the limits; MSJ_ERROR_WORKSPACE; MSJ_ERROR_COLD; MSJ_ERROR_NO_DRIVER and MSJ_ERROR_NO_NVRTC where they are
// needed.
struct DenseForward {
  Tensor q{};          // [Nq, Lq, d] bf16, f16 or f32
  Tensor d{};          // [Nd, Ld, d] dtype of q
  Tensor scores{};     // [Nq, Nd] f32, result
  Tensor q_mask{};     // [Nq, Lq] boolean, u8 or i8, nonzero keeps; a masked token adds 0, its argmax is -1; optional
  Tensor d_mask{};     // [Nd, Ld] likewise; a masked token never wins; optional
  Tensor d_lengths{};  // [Nd] i32, clamped to 0..Ld: tokens past it do not exist; optional
  Tensor argmax{};     // [Nq, Nd, Lq] i32, result: the winning t, or -1; optional
  bool normalize = false;  // x / max(|x|, 1e-12) on both sides, in float32
  EmptyDoc empty_doc = EmptyDoc::zero;
  Launch launch{};

  Call call() const {
    Call result(MSJ_DENSE_FORWARD);
    result.operand(MSJ_DENSE_FORWARD_Q, q)
        .operand(MSJ_DENSE_FORWARD_D, d)
        .operand(MSJ_DENSE_FORWARD_Q_MASK, q_mask)
        .operand(MSJ_DENSE_FORWARD_D_MASK, d_mask)
        .operand(MSJ_DENSE_FORWARD_D_LENGTHS, d_lengths)
        .operand(MSJ_DENSE_FORWARD_SCORES, scores)
        .operand(MSJ_DENSE_FORWARD_ARGMAX, argmax)
        .param(MSJ_PARAM_EMPTY_DOC, static_cast<std::int64_t>(empty_doc))
        .flag(MSJ_FLAG_NORMALIZE, normalize)
        .launch(launch);
    return result;
  }
};

inline void dense_forward(const Context &context, const DenseForward &arguments) { run(context, arguments.call()); }

// ---- fp8_forward --------------------------------------------------------------------------------------------------

// scores[i, j] = sum over s of scale_q * max over t of (scale_d * <q[i, s], d[j, t]>), sums in float32. A scale is of
// each token, or of shape [1] for the whole tensor (read on the device), or absent: 1. All else as in DenseForward.
struct Fp8Forward {
  Tensor q{};          // [Nq, Lq, d] fp8_e4m3 or fp8_e5m2
  Tensor d{};          // [Nd, Ld, d] fp8_e4m3 or fp8_e5m2, not necessarily q's
  Tensor scores{};     // [Nq, Nd] f32, result
  Tensor scale_q{};    // [1] or [Nq, Lq] f32; optional
  Tensor scale_d{};    // [1] or [Nd, Ld] f32; optional
  Tensor q_mask{};     // [Nq, Lq] boolean, u8 or i8; optional
  Tensor d_mask{};     // [Nd, Ld] likewise; optional
  Tensor d_lengths{};  // [Nd] i32; optional
  Tensor argmax{};     // [Nq, Nd, Lq] i32, result; optional
  EmptyDoc empty_doc = EmptyDoc::zero;
  Launch launch{};

  Call call() const {
    Call result(MSJ_FP8_FORWARD);
    result.operand(MSJ_FP8_FORWARD_Q, q)
        .operand(MSJ_FP8_FORWARD_D, d)
        .operand(MSJ_FP8_FORWARD_Q_MASK, q_mask)
        .operand(MSJ_FP8_FORWARD_D_MASK, d_mask)
        .operand(MSJ_FP8_FORWARD_D_LENGTHS, d_lengths)
        .operand(MSJ_FP8_FORWARD_SCALE_Q, scale_q)
        .operand(MSJ_FP8_FORWARD_SCALE_D, scale_d)
        .operand(MSJ_FP8_FORWARD_SCORES, scores)
        .operand(MSJ_FP8_FORWARD_ARGMAX, argmax)
        .param(MSJ_PARAM_EMPTY_DOC, static_cast<std::int64_t>(empty_doc))
        .launch(launch);
    return result;
  }
};

inline void fp8_forward(const Context &context, const Fp8Forward &arguments) { run(context, arguments.call()); }

// ---- fp8_quantize -------------------------------------------------------------------------------------------------

// quantized = x / scale to the nearest, saturated; scale = max |x| / (448 for e4m3, 57,344 for e5m2), at least 2^-100,
// 1 where all x are 0. NaN stays NaN and has no part in the max.
struct Fp8Quantize {
  Tensor x{};          // [N, L, d] bf16, f16 or f32
  Tensor quantized{};  // [N, L, d] fp8_e4m3 or fp8_e5m2, result
  Tensor scales{};     // [1], or [N, L] for a scale of each token; f32, result
  Launch launch{};     // one scale for all needs a workspace

  Call call() const {
    Call result(MSJ_FP8_QUANTIZE);
    result.operand(MSJ_FP8_QUANTIZE_X, x)
        .operand(MSJ_FP8_QUANTIZE_QUANTIZED, quantized)
        .operand(MSJ_FP8_QUANTIZE_SCALES, scales)
        .launch(launch);
    return result;
  }
};

inline void fp8_quantize(const Context &context, const Fp8Quantize &arguments) { run(context, arguments.call()); }

// ---- fused_head_forward -------------------------------------------------------------------------------------------

// scores of q against e = h w^T + bias, which never lies in memory: e[j, t] is summed in float32, with `normalize`
// divided by max(|e|, 1e-12), rounded to q's dtype, then as in DenseForward. d_out to 512, d_model to 8,192.
struct FusedHeadForward {
  Tensor q{};          // [Nq, Lq, d_out] bf16, f16 or f32
  Tensor h{};          // [Nd, Ld, d_model] dtype of q
  Tensor w{};          // [d_out, d_model] dtype of q
  Tensor scores{};     // [Nq, Nd] f32, result
  Tensor bias{};       // [d_out] dtype of q, or f32; optional
  Tensor q_mask{};     // [Nq, Lq] boolean, u8 or i8; optional
  Tensor d_mask{};     // [Nd, Ld] likewise; optional
  Tensor d_lengths{};  // [Nd] i32; optional
  Tensor argmax{};     // [Nq, Nd, Lq] i32, result; optional
  bool normalize = false;
  EmptyDoc empty_doc = EmptyDoc::zero;
  Launch launch{};  // several queries may need a workspace

  Call call() const {
    Call result(MSJ_FUSED_HEAD_FORWARD);
    result.operand(MSJ_FUSED_HEAD_FORWARD_Q, q)
        .operand(MSJ_FUSED_HEAD_FORWARD_H, h)
        .operand(MSJ_FUSED_HEAD_FORWARD_W, w)
        .operand(MSJ_FUSED_HEAD_FORWARD_BIAS, bias)
        .operand(MSJ_FUSED_HEAD_FORWARD_Q_MASK, q_mask)
        .operand(MSJ_FUSED_HEAD_FORWARD_D_MASK, d_mask)
        .operand(MSJ_FUSED_HEAD_FORWARD_D_LENGTHS, d_lengths)
        .operand(MSJ_FUSED_HEAD_FORWARD_SCORES, scores)
        .operand(MSJ_FUSED_HEAD_FORWARD_ARGMAX, argmax)
        .param(MSJ_PARAM_EMPTY_DOC, static_cast<std::int64_t>(empty_doc))
        .flag(MSJ_FLAG_NORMALIZE, normalize)
        .launch(launch);
    return result;
  }
};

inline void fused_head_forward(const Context &context, const FusedHeadForward &arguments) {
  run(context, arguments.call());
}

// ---- residual_forward ---------------------------------------------------------------------------------------------

// scores of q against rows that an index keeps compressed: row = centroids[code] + bucket_weights[index of each
// feature], as the C header describes the bits. Document j is the tokens d_starts[j] ... + d_lengths[j] of the index;
// one that is not inside it scores NaN, as does one with a code that is no centroid's.
struct ResidualForward {
  Tensor q{};               // [Nq, Lq, d] bf16, f16 or f32
  Tensor codes{};           // [N] i32
  Tensor residuals{};       // [N, ceil(d * nbits / 8)] u8
  Tensor d_starts{};        // [Nd] i64
  Tensor d_lengths{};       // [Nd] i32; below 0 the score is NaN
  Tensor centroids{};       // [K, d] bf16, f16 or f32, not necessarily q's
  Tensor bucket_weights{};  // [2^nbits] dtype of centroids; nbits 1, 2, 4 or 8
  Tensor scores{};          // [Nq, Nd] f32, result
  Tensor q_mask{};          // [Nq, Lq] boolean, u8 or i8; optional
  Tensor d_inv_norms{};     // [N] f32, of residual_norms: rows are normalized; optional
  Tensor argmax{};          // [Nq, Nd, Lq] i32, result: the winning token within its document; optional
  bool lsb_first = false;
  std::int64_t Ld = 0;  // about how long documents are, for the choice of a config alone; 0: the library's default
  EmptyDoc empty_doc = EmptyDoc::zero;
  Launch launch{};  // needs a workspace

  Call call() const {
    Call result(MSJ_RESIDUAL_FORWARD);
    result.operand(MSJ_RESIDUAL_FORWARD_Q, q)
        .operand(MSJ_RESIDUAL_FORWARD_CODES, codes)
        .operand(MSJ_RESIDUAL_FORWARD_RESIDUALS, residuals)
        .operand(MSJ_RESIDUAL_FORWARD_D_STARTS, d_starts)
        .operand(MSJ_RESIDUAL_FORWARD_D_LENGTHS, d_lengths)
        .operand(MSJ_RESIDUAL_FORWARD_CENTROIDS, centroids)
        .operand(MSJ_RESIDUAL_FORWARD_BUCKET_WEIGHTS, bucket_weights)
        .operand(MSJ_RESIDUAL_FORWARD_Q_MASK, q_mask)
        .operand(MSJ_RESIDUAL_FORWARD_D_INV_NORMS, d_inv_norms)
        .operand(MSJ_RESIDUAL_FORWARD_SCORES, scores)
        .operand(MSJ_RESIDUAL_FORWARD_ARGMAX, argmax)
        .param(MSJ_PARAM_EMPTY_DOC, static_cast<std::int64_t>(empty_doc))
        .flag(MSJ_FLAG_LSB_FIRST, lsb_first)
        .launch(launch);
    if (Ld > 0) result.param(MSJ_PARAM_LD, Ld);
    return result;
  }
};

inline void residual_forward(const Context &context, const ResidualForward &arguments) {
  run(context, arguments.call());
}

// ---- residual_norms -----------------------------------------------------------------------------------------------

// inv_norms = 1 / max(|row|, 1e-12) of the same rows: for all tokens, or those of the given documents only.
struct ResidualNorms {
  Tensor codes{};           // [N] i32
  Tensor residuals{};       // [N, ceil(d * nbits / 8)] u8
  Tensor centroids{};       // [K, d] bf16, f16 or f32
  Tensor bucket_weights{};  // [2^nbits] dtype of centroids
  Tensor inv_norms{};       // [N] f32, result
  Tensor d_starts{};        // [Nd] i64; optional, with d_lengths
  Tensor d_lengths{};       // [Nd] i32
  bool lsb_first = false;
  Launch launch{};

  Call call() const {
    Call result(MSJ_RESIDUAL_NORMS);
    result.operand(MSJ_RESIDUAL_NORMS_CODES, codes)
        .operand(MSJ_RESIDUAL_NORMS_RESIDUALS, residuals)
        .operand(MSJ_RESIDUAL_NORMS_CENTROIDS, centroids)
        .operand(MSJ_RESIDUAL_NORMS_BUCKET_WEIGHTS, bucket_weights)
        .operand(MSJ_RESIDUAL_NORMS_D_STARTS, d_starts)
        .operand(MSJ_RESIDUAL_NORMS_D_LENGTHS, d_lengths)
        .operand(MSJ_RESIDUAL_NORMS_INV_NORMS, inv_norms)
        .flag(MSJ_FLAG_LSB_FIRST, lsb_first)
        .launch(launch);
    return result;
  }
};

inline void residual_norms(const Context &context, const ResidualNorms &arguments) { run(context, arguments.call()); }

}  // namespace maxsim_jit

#endif  // MAXSIM_JIT_MAXSIM_JIT_HPP_
