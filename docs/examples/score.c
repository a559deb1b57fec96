/* MaxSim scores from C11: one query against three documents, on the first GPU, or on the CPU where there is none.
 *
 *     export PKG_CONFIG_PATH=PREFIX/lib/pkgconfig LD_LIBRARY_PATH=PREFIX/lib
 *     cc -std=c11 docs/examples/score.c $(pkg-config --cflags --libs maxsim_jit) -o build/score
 */
#include <maxsim_jit/maxsim_jit.h>
#include <stdio.h>
#include <stdlib.h>

static float query[1][2][4] = {{{1, 0, 0, 0}, {0, 1, 0, 0}}};
static float documents[3][2][4] = {
    {{0.5F, 0.5F, 0, 0}, {0, 0, 1, 0}}, {{0, 1, 0, 0}, {1, 0, 0, 0}}, {{0, 0.25F, 0, 1}, {0, 0, 1, 0}}};
static float result[1][3];

static void check(msj_status status) {
  if (status == MSJ_OK) return;
  fprintf(stderr, "score: %s\n", msj_last_error());
  exit(EXIT_FAILURE);
}

static int32_t choose_device(msj_context *context) {
  void *memory = NULL;
  const msj_status status = msj_device_alloc(context, 0, 1, &memory);
  if (status == MSJ_ERROR_NO_DRIVER) {
    printf("No GPU, so the CPU scores: %s.\n", msj_last_error());
    return MSJ_DEVICE_CPU;
  }
  check(status);
  check(msj_device_free(context, 0, memory));
  return 0;
}

/* Where the device reads: a copy in its memory, or on the CPU the host's own. A program with CUDA has such pointers
 * already, and passes them. */
static void *place(msj_context *context, int32_t device, void *host, size_t bytes) {
  void *memory = NULL;
  if (device == MSJ_DEVICE_CPU) return host;
  check(msj_device_alloc(context, device, bytes, &memory));
  check(msj_device_copy(context, device, memory, host, bytes, MSJ_COPY_TO_DEVICE));
  return memory;
}

static void collect(msj_context *context, int32_t device, void *memory, void *host, size_t bytes) {
  if (device == MSJ_DEVICE_CPU) return; /* the result is already here */
  check(msj_device_copy(context, device, host, memory, bytes, MSJ_COPY_TO_HOST));
}

int main(void) {
  msj_context *context = NULL;
  check(msj_context_create(NULL, &context));
  const int32_t device = choose_device(context); /* 0, or MSJ_DEVICE_CPU */
  void *q_data = place(context, device, query, sizeof query);
  void *d_data = place(context, device, documents, sizeof documents);
  void *scores_data = place(context, device, result, sizeof result);

  msj_tensor q = {sizeof q, q_data, MSJ_F32, 3, {1, 2, 4}, {8, 4, 1}};
  msj_tensor d = {sizeof d, d_data, MSJ_F32, 3, {3, 2, 4}, {8, 4, 1}};
  msj_tensor scores = {sizeof scores, scores_data, MSJ_F32, 2, {1, 3}, {3, 1}};
  const msj_tensor *operands[MSJ_DENSE_FORWARD_OPERANDS] = {0};
  operands[MSJ_DENSE_FORWARD_Q] = &q;
  operands[MSJ_DENSE_FORWARD_D] = &d;
  operands[MSJ_DENSE_FORWARD_SCORES] = &scores;

  msj_call call = {0};
  call.struct_size = sizeof call;
  call.op = MSJ_DENSE_FORWARD;
  call.device = device;
  call.operands = operands;
  call.operand_count = MSJ_DENSE_FORWARD_OPERANDS;

  /* Before serving: compiles, tunes and loads. The plan saves the look-up; the CPU has none. */
  msj_plan *plan = NULL;
  check(msj_prepare(context, &call, NULL, device == MSJ_DEVICE_CPU ? NULL : &plan));
  check(msj_freeze(context, 1)); /* from here on, a cold call is MSJ_ERROR_COLD, never a compile */

  call.plan = plan;
  check(msj_run(context, &call)); /* asynchronous, on call.stream */

  collect(context, device, scores_data, result, sizeof result);
  for (int j = 0; j < 3; ++j) printf("document %d: %.2f\n", j, result[0][j]);

  check(msj_plan_destroy(plan)); /* before its context */
  if (device != MSJ_DEVICE_CPU) {
    check(msj_device_free(context, device, q_data));
    check(msj_device_free(context, device, d_data));
    check(msj_device_free(context, device, scores_data));
  }
  check(msj_context_destroy(context));
  return EXIT_SUCCESS;
}
