/* maxsim-jit: late-interaction (MaxSim) scores on NVIDIA GPUs, compiled and tuned at run time.
 *
 *     score[i, j] = sum over s of  max over t of  <Q[i, s], D[j, t]>
 *
 * This is the operation behind ColBERT (Khattab and Zaharia, 2020), ColPali and PLAID. Q holds the token vectors of
 * queries, D those of documents.
 *
 * The C ABI, C11. Rules that hold everywhere:
 *  - Every entry point returns a msj_status. On failure msj_last_error() gives one sentence that names the argument,
 *    what it was and what is accepted. Nothing throws, aborts or prints to stdout.
 *  - Every struct starts with `struct_size`: set it to sizeof(the struct) and the rest to zero before filling it.
 *  - Shapes and strides are in elements, offsets are 64-bit, streams are `void*` (CUDA's 0, 1 and 2 included).
 *  - All calls are thread-safe, but for the two destroy functions: no other call may use what they destroy.
 *  - The caller's current CUDA context and stream order are never changed; nothing synchronizes on the hot path.
 *  - The thread's floating-point environment (rounding, subnormals, traps, flags) is neither followed nor changed.
 * Within a call, callbacks have the default one.
 */
#ifndef MAXSIM_JIT_MAXSIM_JIT_H_
#define MAXSIM_JIT_MAXSIM_JIT_H_

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define MSJ_API __attribute__((visibility("default")))
#else
#define MSJ_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define MSJ_VERSION_MAJOR 0
#define MSJ_VERSION_MINOR 1
#define MSJ_VERSION_PATCH 0

/* ---- enumerations: int32_t, append-only ------------------------------------------------------------------------ */

typedef int32_t msj_status;
enum {
  MSJ_OK = 0,
  MSJ_ERROR_INVALID_ARGUMENT = 1, /* the call is wrong: the sentence names the argument */
  MSJ_ERROR_UNSUPPORTED = 2,      /* the call is right, but this device or size is beyond what is supported */
  MSJ_ERROR_COLD = 3,             /* needs a compile, a sweep or a load, while frozen or while capturing */
  MSJ_ERROR_NO_DRIVER = 4,        /* libcuda is missing, too old, or finds no device */
  MSJ_ERROR_NO_NVRTC = 5,         /* libnvrtc is missing, incomplete, or too old for the architecture */
  MSJ_ERROR_COMPILE = 6,          /* NVRTC refused a kernel */
  MSJ_ERROR_CUDA = 7,             /* the driver returned an error */
  MSJ_ERROR_OUT_OF_MEMORY = 8,    /* host or device memory */
  MSJ_ERROR_IO = 9,               /* a file could not be read or written where that is what was asked */
  MSJ_ERROR_WORKSPACE = 10,       /* the workspace is missing, too small or misaligned: the sentence says the size */
  MSJ_ERROR_PLAN_MISMATCH = 11,   /* the plan was made for another kind of call: the sentence says in what */
  MSJ_ERROR_INTERNAL = 12         /* a defect of this library */
};

typedef int32_t msj_dtype;
enum {
  MSJ_F32 = 1,
  MSJ_F16 = 2,
  MSJ_BF16 = 3,
  MSJ_FP8_E4M3 = 4,
  MSJ_FP8_E5M2 = 5,
  MSJ_I8 = 6,
  MSJ_U8 = 7,
  MSJ_BOOL = 8,
  MSJ_I32 = 9,
  MSJ_I64 = 10
};

typedef int32_t msj_op;
enum {
  MSJ_DENSE_FORWARD = 1,
  MSJ_FP8_FORWARD = 2,
  MSJ_FP8_QUANTIZE = 3,
  MSJ_FUSED_HEAD_FORWARD = 4,
  MSJ_RESIDUAL_FORWARD = 5,
  MSJ_RESIDUAL_NORMS = 6
};

/* dense_forward: scores of every query against every document.
 * Sizes: Nq queries of Lq tokens, Nd documents of Ld tokens, d features a token.
 * Matrix dtypes: MSJ_BF16, MSJ_F16, MSJ_F32 (Q and D alike); sums in float32. */
enum {
  MSJ_DENSE_FORWARD_Q = 0,         /* [Nq, Lq, d] */
  MSJ_DENSE_FORWARD_D = 1,         /* [Nd, Ld, d] */
  MSJ_DENSE_FORWARD_Q_MASK = 2,    /* [Nq, Lq] bool, uint8 or int8, nonzero keeps; optional: feature q_mask */
  MSJ_DENSE_FORWARD_D_MASK = 3,    /* [Nd, Ld] likewise; optional: feature d_mask */
  MSJ_DENSE_FORWARD_D_LENGTHS = 4, /* [Nd] int32, tokens past it do not exist, below 0 is 0; optional, no feature */
  MSJ_DENSE_FORWARD_SCORES = 5,    /* [Nq, Nd] float32, result */
  MSJ_DENSE_FORWARD_ARGMAX = 6,    /* [Nq, Nd, Lq] int32, result, optional: feature save_argmax */
  MSJ_DENSE_FORWARD_OPERANDS = 7
};

/* fp8_forward: the same on e4m3 (without infinities, largest 448) or e5m2 matrices (Q and D each its own) with float32
 * scales: score = sum over s of scale_q * max over t of (scale_d * <Q, D>). A scale of shape [1] is for the whole
 * tensor and read on the device; one of rank 2 has a value for each token; absent: 1. Products are summed in float32;
 * Hopper's fp8 tensor cores cut the terms of 64 elements to about 13 bits below the largest of them first. */
enum {
  MSJ_FP8_FORWARD_Q = 0,         /* [Nq, Lq, d] MSJ_FP8_E4M3 or MSJ_FP8_E5M2 */
  MSJ_FP8_FORWARD_D = 1,         /* [Nd, Ld, d] likewise */
  MSJ_FP8_FORWARD_Q_MASK = 2,    /* [Nq, Lq], as in dense_forward; optional: feature q_mask */
  MSJ_FP8_FORWARD_D_MASK = 3,    /* [Nd, Ld]; optional: feature d_mask */
  MSJ_FP8_FORWARD_D_LENGTHS = 4, /* [Nd] int32; optional, no feature */
  MSJ_FP8_FORWARD_SCALE_Q = 5,   /* [1] or [Nq, Lq] float32; optional; of rank 2: feature scale_q_per_token */
  MSJ_FP8_FORWARD_SCALE_D = 6,   /* [1] or [Nd, Ld] float32; optional; of rank 2: feature scale_d_per_token */
  MSJ_FP8_FORWARD_SCORES = 7,    /* [Nq, Nd] float32, result */
  MSJ_FP8_FORWARD_ARGMAX = 8,    /* [Nq, Nd, Lq] int32, result, optional: feature save_argmax */
  MSJ_FP8_FORWARD_OPERANDS = 9
};

/* fp8_quantize: fp8 matrices and scales for fp8_forward. scale = max |x| / (448 for e4m3, 57344 for e5m2), at least
 * 2^-100, 1 where all x are 0; quantized = x / scale, to the nearest even, saturated; NaN stays NaN (0x7f, and has no
 * part in the maximum; an infinity has, as the largest float). */
enum {
  MSJ_FP8_QUANTIZE_X = 0,         /* [N, L, d] MSJ_BF16, MSJ_F16 or MSJ_F32 */
  MSJ_FP8_QUANTIZE_QUANTIZED = 1, /* [N, L, d] MSJ_FP8_E4M3 or MSJ_FP8_E5M2, result */
  MSJ_FP8_QUANTIZE_SCALES = 2,    /* [1] or [N, L] float32, result; of rank 2: feature per_token */
  MSJ_FP8_QUANTIZE_OPERANDS = 3
};

/* fused_head_forward: dense_forward of Q against E = H W^T + bias, which is never written to memory.
 * Sizes: as in dense_forward, with d_out features a projected token (1 to 512) from d_model (1 to 8,192). E is summed
 * in float32, with MSJ_FLAG_NORMALIZE divided by max(|row|, 1e-12) (Q is not), and rounded to the matrices' dtype.
 * Calls with several queries may need a workspace. */
enum {
  MSJ_FUSED_HEAD_FORWARD_Q = 0,         /* [Nq, Lq, d_out] MSJ_BF16, MSJ_F16 or MSJ_F32 */
  MSJ_FUSED_HEAD_FORWARD_H = 1,         /* [Nd, Ld, d_model] hidden states, dtype of Q */
  MSJ_FUSED_HEAD_FORWARD_W = 2,         /* [d_out, d_model] dtype of Q */
  MSJ_FUSED_HEAD_FORWARD_BIAS = 3,      /* [d_out] dtype of Q or float32; optional: feature bias */
  MSJ_FUSED_HEAD_FORWARD_Q_MASK = 4,    /* [Nq, Lq], as in dense_forward; optional: feature q_mask */
  MSJ_FUSED_HEAD_FORWARD_D_MASK = 5,    /* [Nd, Ld]; optional: feature d_mask */
  MSJ_FUSED_HEAD_FORWARD_D_LENGTHS = 6, /* [Nd] int32; optional, no feature */
  MSJ_FUSED_HEAD_FORWARD_SCORES = 7,    /* [Nq, Nd] float32, result */
  MSJ_FUSED_HEAD_FORWARD_ARGMAX = 8,    /* [Nq, Nd, Lq] int32, result, optional: feature save_argmax */
  MSJ_FUSED_HEAD_FORWARD_OPERANDS = 9
};

/* residual_forward: scores against the documents of an index that keeps each token as a centroid's number and a few
 * bits a feature: row = centroids[code] + bucket_weights[index], index k of a row being bits k*nbits ... of its stream,
 * low bit first; stream bit j is bit 7 - j % 8 of byte j / 8 (as numpy.packbits), with MSJ_FLAG_LSB_FIRST bit j % 8.
 * Sizes: Nq, Lq and d as in dense_forward; Nd documents, each a start and a length among N tokens; K centroids; nbits
 * 1, 2, 4 or 8; P = ceil(d * nbits / 8), bits past d * nbits are ignored; Ld, a hint of the length, is a param.
 * Q and centroids of one 16-bit dtype are multiplied as such, any other pair as float32. A code that is no centroid's
 * makes its row NaN; a document that is not inside [0, N) scores NaN (argmax 0). Neither is read. */
enum {
  MSJ_RESIDUAL_FORWARD_Q = 0,              /* [Nq, Lq, d] MSJ_BF16, MSJ_F16 or MSJ_F32 */
  MSJ_RESIDUAL_FORWARD_CODES = 1,          /* [N] int32 */
  MSJ_RESIDUAL_FORWARD_RESIDUALS = 2,      /* [N, P] uint8 */
  MSJ_RESIDUAL_FORWARD_D_STARTS = 3,       /* [Nd] int64, first token */
  MSJ_RESIDUAL_FORWARD_D_LENGTHS = 4,      /* [Nd] int32; below 0, unlike in other ops, the score is NaN */
  MSJ_RESIDUAL_FORWARD_CENTROIDS = 5,      /* [K, d] MSJ_BF16, MSJ_F16 or MSJ_F32, not necessarily Q's */
  MSJ_RESIDUAL_FORWARD_BUCKET_WEIGHTS = 6, /* [2^nbits] dtype of the centroids */
  MSJ_RESIDUAL_FORWARD_Q_MASK = 7,         /* [Nq, Lq], as in dense_forward; optional: feature q_mask */
  MSJ_RESIDUAL_FORWARD_D_INV_NORMS = 8,    /* [N] float32, factor of each token; optional: feature normalize */
  MSJ_RESIDUAL_FORWARD_SCORES = 9,         /* [Nq, Nd] float32, result */
  MSJ_RESIDUAL_FORWARD_ARGMAX = 10,        /* [Nq, Nd, Lq] int32, token within the document, result, optional */
  MSJ_RESIDUAL_FORWARD_OPERANDS = 11
};

/* residual_norms: 1 / max(|row|, 1e-12) of the same rows, for all N tokens or those of documents only (other tokens'
 * results stay as they are). */
enum {
  MSJ_RESIDUAL_NORMS_CODES = 0,          /* [N] int32 */
  MSJ_RESIDUAL_NORMS_RESIDUALS = 1,      /* [N, P] uint8 */
  MSJ_RESIDUAL_NORMS_CENTROIDS = 2,      /* [K, d] MSJ_BF16, MSJ_F16 or MSJ_F32 */
  MSJ_RESIDUAL_NORMS_BUCKET_WEIGHTS = 3, /* [2^nbits] dtype of the centroids */
  MSJ_RESIDUAL_NORMS_D_STARTS = 4,       /* [Nd] int64; optional, with d_lengths */
  MSJ_RESIDUAL_NORMS_D_LENGTHS = 5,      /* [Nd] int32; optional, with d_starts */
  MSJ_RESIDUAL_NORMS_INV_NORMS = 6,      /* [N] float32, result */
  MSJ_RESIDUAL_NORMS_OPERANDS = 7
};

/* msj_call.flags: features that no operand implies */
#define MSJ_FLAG_NORMALIZE ((uint64_t)1) /* x / max(|x|, 1e-12), fused: both sides; the fused head: E */
#define MSJ_FLAG_LSB_FIRST ((uint64_t)2) /* residuals with each byte's bits in the other order */

/* msj_param.id */
enum {
  MSJ_PARAM_EMPTY_DOC = 1, /* int64: MSJ_EMPTY_DOC_ZERO (default) or MSJ_EMPTY_DOC_NEG_INF */
  MSJ_PARAM_LD = 2         /* int64: tokens of a document, where no shape tells; a hint for tuning alone */
};
enum { MSJ_EMPTY_DOC_ZERO = 0, MSJ_EMPTY_DOC_NEG_INF = 1 };

/* msj_call.device: a CUDA ordinal from 0, or the CPU reference on host tensors */
#define MSJ_DEVICE_CPU ((int32_t)-1)

enum { MSJ_MAX_RANK = 6 };

/* ---- calls ------------------------------------------------------------------------------------------------------ */

/* A view of a tensor, the same information as DLPack's. Strides may be any; the two layouts that matter for speed are
 * `aligned16` (base and outer strides multiples of 16 bytes, inner stride 1) and `any`. */
typedef struct msj_tensor {
  size_t struct_size;
  void *data; /* device memory (host memory with MSJ_DEVICE_CPU); may be null where no element exists. A call without a
                 plan refuses what its device can't reach; one with a plan does not look */
  msj_dtype dtype;
  int32_t rank;
  int64_t shape[MSJ_MAX_RANK];
  int64_t strides[MSJ_MAX_RANK]; /* in elements */
} msj_tensor;

/* A run-time argument; ids that the op does not know are refused. */
typedef struct msj_param {
  int32_t id;
  int32_t zero;
  union {
    int64_t i;
    double f;
  } value;
} msj_param;

typedef struct msj_context msj_context;
typedef struct msj_plan msj_plan;

typedef struct msj_call {
  size_t struct_size;
  msj_op op;
  int32_t device;                    /* CUDA ordinal, or MSJ_DEVICE_CPU */
  const msj_tensor *const *operands; /* indexed by the op's enumerators, results included; null: absent. No result
                                        may share a byte with another operand: refused in calls without a plan, as
                                        are strides so intertwined that 10,000 steps can't tell. A result whose own
                                        elements share places is refused in every call */
  size_t operand_count;              /* entries past it are absent */
  const msj_param *params;
  size_t param_count;
  uint64_t flags;  /* MSJ_FLAG_* */
  void *stream;    /* CUstream; its context is used, else the current one, else the primary */
  void *workspace; /* 256-byte aligned device memory, of msj_workspace_size bytes */
  size_t workspace_size;
  const msj_plan *plan; /* null: looked up */
} msj_call;

/* Score now. Asynchronous on call->stream; a cold call compiles (and, with tuning on, sweeps) first. */
MSJ_API msj_status msj_run(msj_context *context, const msj_call *call);

/* The workspace that any config of this call may need: a function of device, sizes, dtypes and features alone. */
MSJ_API msj_status msj_workspace_size(msj_context *context, const msj_call *call, size_t *bytes);

enum { MSJ_LAYOUT_OF_CALL = 0, MSJ_LAYOUT_ALIGNED16 = 1, MSJ_LAYOUT_ANY = 2, MSJ_LAYOUT_BOTH = 3 };

typedef struct msj_prepare_options {
  size_t struct_size;
  const char *arch; /* null: tune and load on call->device. "sm_90a": compile for it, without a GPU, and write no
                       autotune entry: the default config and every config shipped for this bucket */
  const char *gpu;  /* with arch: only entries shipped for this GPU name; null: all of that architecture */
  int32_t layout;   /* MSJ_LAYOUT_*; the default is that of the call's tensors */
  int32_t zero;
} msj_prepare_options;

/* Compile and tune ahead. Data pointers are not read (their alignment is, unless options->layout says otherwise) and
 * may be null. `options` may be null. `plan`, if not null, receives a handle for the hot path; destroy it before the
 * context. No plan is made with options->arch or MSJ_LAYOUT_BOTH. */
MSJ_API msj_status msj_prepare(msj_context *context, const msj_call *call, const msj_prepare_options *options,
                               msj_plan **plan);
MSJ_API msj_status msj_plan_destroy(msj_plan *plan);

/* ---- context ---------------------------------------------------------------------------------------------------- */

enum { MSJ_LOG_ERROR = 0, MSJ_LOG_WARNING = 1, MSJ_LOG_INFO = 2, MSJ_LOG_DEBUG = 3 };
/* Callbacks may come from any thread, one call at a time; they must not call the library with the same context. */
typedef void (*msj_log_callback)(void *user, int32_t level, const char *message);
/* `done` of `total` steps of `what` ("compile", "sweep"). */
typedef void (*msj_progress_callback)(void *user, const char *what, int64_t done, int64_t total);

/* All optional: null and 0 mean the environment variable, else the default. */
typedef struct msj_context_options {
  size_t struct_size;
  const char *cache_dir; /* MAXSIM_JIT_CACHE_DIR: "rw" or "rw:ro1:ro2" */
  const char *tune;      /* MAXSIM_JIT_TUNE: "on", "cached" or "off" */
  msj_log_callback log;  /* default: to stderr. MAXSIM_JIT_LOG says how much; its default: warnings and errors to
                            stderr, information too to a callback */
  void *log_user;
  msj_progress_callback progress;
  void *progress_user;
} msj_context_options;

/* Owns everything: caches, modules, counters, settings (the environment is read once, here). `options` may be null.
 * Needs neither a driver nor NVRTC. */
MSJ_API msj_status msj_context_create(const msj_context_options *options, msj_context **context);
/* Kernels that it launched must have finished, and no captured graph of them may be replayed afterwards. */
MSJ_API msj_status msj_context_destroy(msj_context *context);

/* frozen != 0: from now on a call that would compile, sweep or load returns MSJ_ERROR_COLD instead. */
MSJ_API msj_status msj_freeze(msj_context *context, int32_t frozen);

typedef struct msj_counters {
  size_t struct_size;
  int64_t nvrtc_invocations; /* calls of nvrtcCompileProgram, failed ones too */
  double nvrtc_seconds;      /* their time, added over threads */
  int64_t cubin_hits_memory;
  int64_t cubin_hits_disk;
  int64_t module_loads;
  int64_t sweeps;
  int64_t candidates_timed;
  int64_t autotune_hits; /* entries found in memory, on disk or shipped when a specialization was first asked for */
  int64_t launches;
} msj_counters;
MSJ_API msj_status msj_stats(msj_context *context, msj_counters *counters);

/* ---- looking inside: JSON objects with a "schema" field, freed by msj_string_free ----------------------------------
 */

typedef struct msj_inspect_options {
  size_t struct_size;
  const char *op;   /* null: all */
  const char *arch; /* null: all */
  int32_t cubins;   /* nonzero: specializations instead of autotune entries */
  int32_t zero;
} msj_inspect_options;

/* "maxsim-jit/inspect/1": the autotune entries of the cache and those shipped, or the cached specializations. */
MSJ_API msj_status msj_inspect(msj_context *context, const msj_inspect_options *options, char **json);
typedef struct msj_measure_options {
  size_t struct_size;
  int32_t ceilings; /* nonzero: time the call's ceilings too */
  int32_t rounds;   /* how often the call's own config, and any that is near the fastest, is timed at least; 0: 5 to 20
                       times, as in a sweep. Times are medians */
} msj_measure_options;

/* "maxsim-jit/measure/1": every candidate timed for this very call, whatever its bucket's entry says: at its sizes,
 * with its features, in its layout class, with cold caches. Beside them the config that the call launches, the least,
 * the middle (what a sweep times) and the largest sizes of the bucket, and, if asked for, the call's ceilings:
 * milliseconds of an empty launch and of a pure read of what is streamed (launch included; by loads, by bulk copies
 * where the GPU has them, else null, and the faster of the two), its bytes, and the call's multiply-adds; null if they
 * are not asked for or, with a warning, could not be timed. Operands are scratch: data pointers are not read, and may
 * be null; where lengths are data, every document has Ld tokens, or as many as its index. Compiles what is not cached,
 * and tunes the bucket first if it is not tuned; changes nothing else. `options` may be null. */
MSJ_API msj_status msj_measure(msj_context *context, const msj_call *call, const msj_measure_options *options,
                               char **json);
/* "maxsim-jit/ops/1": every op's operands, features, sizes, dtypes and params, as its table declares them. */
MSJ_API msj_status msj_describe(char **json);
/* "maxsim-jit/doctor/1": driver, NVRTC, GPUs, cache and permissions: what was found and what to fix. */
MSJ_API msj_status msj_doctor(msj_context *context, char **json);

enum { MSJ_CACHE_PATH = 0, MSJ_CACHE_VERIFY = 1, MSJ_CACHE_CLEAR = 2, MSJ_CACHE_PRUNE = 3 };
/* "maxsim-jit/cache/1": the directories (one whose name is no UTF-8 has its bytes in "path_hex"), and how many files
 * this context could and could not keep there; every file that is no valid entry or cubin; or what was removed. PRUNE
 * removes from the writable directory what no lookup takes: what VERIFY would name, entries of an older bucket version
 * or tuning epoch, leftovers, locks that nobody holds; then the cubins used longest ago, down to the size cap. It says
 * each with its reason, bytes before and after, and as "problems" what no lookup takes but is still there. */
MSJ_API msj_status msj_cache(msj_context *context, int32_t action, char **json);

typedef struct msj_export_options {
  size_t struct_size;
  const char *op;   /* null: all */
  const char *arch; /* null: all */
} msj_export_options;

/* Writes every valid entry and cubin of all directories, each as a lookup would find it, to `file`: a plain tar archive
 * of names "v1/...", which extracted anywhere is a read-only directory of a cache. The same files give the same bytes.
 * The archive appears whole, over what was there, or not at all: MSJ_ERROR_IO, also where a directory can't be looked
 * into, or nothing is cached of the op and arch that are named. What is not valid is left out with a warning. `options`
 * may be null. "maxsim-jit/cache/1": `entries` and `cubins` written, and the `bytes` of both. */
MSJ_API msj_status msj_cache_export(msj_context *context, const msj_export_options *options, const char *file,
                                    char **json);
/* Takes what is valid of such an archive, uncompressed and perhaps packed anew, into the writable directory. A cubin is
 * code that later runs on the GPU as this user: whoever imports a file trusts whoever made it. Valid files that are
 * there already stay. "maxsim-jit/cache/1": how many `entries` and `cubins` were taken, and the `bytes` of both; how
 * many were there with the same bytes (`identical`) or with others (`kept`); and as "problems" each member that was
 * refused, and why. MSJ_ERROR_IO for a file that is no such archive or damaged when it is opened, of which nothing is
 * taken, and where it can't be read again or a file of it not be kept: then the sentence says how many were taken. */
MSJ_API msj_status msj_cache_import(msj_context *context, const char *file, char **json);
MSJ_API void msj_string_free(char *string);

/* ---- device memory, for programs that have no other CUDA library --------------------------------------------------
 */

enum { MSJ_COPY_TO_DEVICE = 0, MSJ_COPY_TO_HOST = 1 };
/* In the primary context of `device`. The copy is synchronous. */
MSJ_API msj_status msj_device_alloc(msj_context *context, int32_t device, size_t bytes, void **memory);
MSJ_API msj_status msj_device_free(msj_context *context, int32_t device, void *memory);
MSJ_API msj_status msj_device_copy(msj_context *context, int32_t device, void *to, const void *from, size_t bytes,
                                   int32_t direction);

/* ---- errors and version ------------------------------------------------------------------------------------------ */

/* The sentence of this thread's last failed call; "" after a successful one. Valid until this thread's next call. */
MSJ_API const char *msj_last_error(void);
MSJ_API const char *msj_version(void);

#ifdef __cplusplus
}
#endif

#endif /* MAXSIM_JIT_MAXSIM_JIT_H_ */
