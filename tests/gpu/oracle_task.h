// What the kernels of oracle.cu are given. Read by the host's compiler and by NVRTC, so that there is one definition.
#ifndef MSJ_TESTS_GPU_ORACLE_TASK_H_
#define MSJ_TESTS_GPU_ORACLE_TASK_H_

namespace msj::gpu {

// A strided view, strides in elements; dimensions that a tensor lacks have size 1 and stride 0. Null: absent.
struct View {
  void *data;
  long long shape[3];
  long long stride[3];
};

// What a check found. `worst` are error / bound.
struct Verdict {
  unsigned long long bad_scores;
  unsigned long long bad_argmax;
  unsigned long long unwritten;         // elements of a result that still hold the poison
  unsigned long long corrupted;         // words outside a result's elements that no longer hold it
  unsigned long long first_bad_score;   // ~0: none
  unsigned long long first_bad_argmax;  // ~0: none
  float worst_score;
  float worst_argmax;
};

// One dense_forward problem, what came of it on the device, and room for the truth.
struct Task {
  long long Nq, Nd, Lq, Ld, d;
  int dtype;  // msj_dtype of q and d
  int normalize;
  int neg_inf;  // empty_doc
  int exact;    // accept equal bits only
  View q, documents, q_mask, d_mask, d_lengths, scores, argmax;
  double coefficient;  // |error| <= coefficient * B
  double *q_norms;     // [Nq, Lq], max(norm, 1e-12)
  double *d_norms;     // [Nd, Ld]
  double *maxima;      // [Nq, Nd, Lq]
  double *magnitudes;  // [Nq, Nd, Lq], max over t of sum over k of |q d|
  int *winners;        // [Nq, Nd, Lq]
  double *sums;        // [Nq, Nd]
  double *bounds;      // [Nq, Nd], B
  Verdict *verdict;
};

// What fill_values writes.
enum class Values : int {
  random,     // every bit of the dtype's significand used, magnitudes below 1 over four binades
  integers,   // -1, 0 or 1: many ties
  rows,       // random, each row scaled by a power of two: tiny and huge norms
  untouched,  // nothing: inputs stay poison, and no kernel of the tests is compiled or launched
};

struct Filling {
  View view;
  int dtype;
  Values values;
  int spread;  // of Values::rows: scales from 2^-spread to 2^spread
  unsigned long long seed;
};

}  // namespace msj::gpu

#endif  // MSJ_TESTS_GPU_ORACLE_TASK_H_
