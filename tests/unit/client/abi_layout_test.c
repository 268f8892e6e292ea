/* The layout of the public structs, the numbers of the enumerators and the functions' types as first released (0.1), on 64-bit
 * systems. A line here is never changed: a change that breaks it breaks every trainer that was built before. Fields may be
 * added at the end of structs that begin with their size, enumerators and functions may be added; a release that adds some adds
 * their lines here. */
#include <scalewatch/scalewatch.h>
#include <stdio.h>
#include <string.h>

#define JOIN2(a, b) a##b
#define JOIN(a, b) JOIN2(a, b)
#define PIN(condition) typedef char JOIN(pin_, __LINE__)[(condition) ? 1 : -1] __attribute__((unused))
#define FIELD(type, field, offset, size) \
  PIN(offsetof(type, field) == (offset) && sizeof(((type*)0)->field) == (size) && sizeof(type) >= (offset) + (size))
#define NUMBER(name, value) PIN((name) == (value))

PIN(sizeof(void*) == 8 && sizeof(size_t) == 8);

/* Passed in arrays, without a size of their own: they can't grow. */
PIN(sizeof(scalewatch_label) == 16);
FIELD(scalewatch_label, key, 0, 8);
FIELD(scalewatch_label, value, 8, 8);
PIN(sizeof(scalewatch_parameter) == 16);
FIELD(scalewatch_parameter, name, 0, 8);
FIELD(scalewatch_parameter, value, 8, 8);

FIELD(scalewatch_options, size, 0, 8);
FIELD(scalewatch_options, server, 8, 8);
FIELD(scalewatch_options, run, 16, 8);
FIELD(scalewatch_options, rank, 24, 4);
FIELD(scalewatch_options, world_size, 28, 4);
FIELD(scalewatch_options, compute_dtype, 32, 4);
FIELD(scalewatch_options, framework, 40, 8);
FIELD(scalewatch_options, job_id, 48, 8);
FIELD(scalewatch_options, gpu_uuid, 56, 8);
FIELD(scalewatch_options, labels, 64, 8);
FIELD(scalewatch_options, label_count, 72, 8);
FIELD(scalewatch_options, buffer_bytes, 80, 8);
FIELD(scalewatch_options, ring_attempts, 88, 4);
FIELD(scalewatch_options, spool_dir, 96, 8);
FIELD(scalewatch_options, spool_bytes, 104, 8);
FIELD(scalewatch_options, spool_max_age_s, 112, 8);
FIELD(scalewatch_options, spool_keep_free_bytes, 120, 8);
FIELD(scalewatch_options, measure_threads, 128, 4);
FIELD(scalewatch_options, histogram_every, 136, 8);
FIELD(scalewatch_options, token_file, 144, 8);
FIELD(scalewatch_options, token, 152, 8);
FIELD(scalewatch_options, ca_file, 160, 8);
FIELD(scalewatch_options, cert_file, 168, 8);
FIELD(scalewatch_options, key_file, 176, 8);

FIELD(scalewatch_sampling, size, 0, 8);
FIELD(scalewatch_sampling, role, 8, 4);
FIELD(scalewatch_sampling, include, 16, 8);
FIELD(scalewatch_sampling, exclude, 24, 8);
FIELD(scalewatch_sampling, every, 32, 4);
FIELD(scalewatch_sampling, report_every, 36, 4);
FIELD(scalewatch_sampling, start_attempt, 40, 8);
FIELD(scalewatch_sampling, end_attempt, 48, 8);
FIELD(scalewatch_sampling, only_found_inf, 56, 4);
PIN(SCALEWATCH_NEVER == 4294967295U);

FIELD(scalewatch_optimizer, size, 0, 8);
FIELD(scalewatch_optimizer, name, 8, 8);
FIELD(scalewatch_optimizer, class_name, 16, 8);
FIELD(scalewatch_optimizer, scaler, 24, 4);
FIELD(scalewatch_optimizer, present, 28, 4);
FIELD(scalewatch_optimizer, lr, 32, 8);
FIELD(scalewatch_optimizer, beta1, 40, 8);
FIELD(scalewatch_optimizer, beta2, 48, 8);
FIELD(scalewatch_optimizer, eps, 56, 8);
FIELD(scalewatch_optimizer, weight_decay, 64, 8);
FIELD(scalewatch_optimizer, state_dtypes, 72, 8);
FIELD(scalewatch_optimizer, state_dtype_count, 80, 8);
FIELD(scalewatch_optimizer, fused, 88, 4);

FIELD(scalewatch_tensor, size, 0, 8);
FIELD(scalewatch_tensor, name, 8, 8);
FIELD(scalewatch_tensor, role, 16, 4);
FIELD(scalewatch_tensor, dtype, 20, 4);
FIELD(scalewatch_tensor, numel, 24, 8);
FIELD(scalewatch_tensor, forward_index, 32, 4);
FIELD(scalewatch_tensor, shard, 40, 8);
FIELD(scalewatch_tensor, replica, 48, 8);
FIELD(scalewatch_tensor, optimizer, 56, 8);

FIELD(scalewatch_record, size, 0, 8);
FIELD(scalewatch_record, numel, 8, 8);
FIELD(scalewatch_record, nan, 16, 8);
FIELD(scalewatch_record, pos_inf, 24, 8);
FIELD(scalewatch_record, neg_inf, 32, 8);
FIELD(scalewatch_record, zero, 40, 8);
FIELD(scalewatch_record, subnormal, 48, 8);
FIELD(scalewatch_record, flushed, 56, 8);
FIELD(scalewatch_record, over, 64, 8);
FIELD(scalewatch_record, sum, 72, 8);
FIELD(scalewatch_record, sum_sq, 80, 8);
FIELD(scalewatch_record, min, 88, 4);
FIELD(scalewatch_record, max, 92, 4);
FIELD(scalewatch_record, absmin_nonzero, 96, 4);

FIELD(scalewatch_stats, size, 0, 8);
FIELD(scalewatch_stats, connection, 8, 4);
FIELD(scalewatch_stats, last_fault_cause, 12, 4);
FIELD(scalewatch_stats, attempts, 16, 8);
FIELD(scalewatch_stats, durable_attempts, 24, 8);
FIELD(scalewatch_stats, reports_sent, 32, 8);
FIELD(scalewatch_stats, reports_thinned, 40, 8);
FIELD(scalewatch_stats, dropped_buffer_full, 48, 8);
FIELD(scalewatch_stats, dropped_queue_full, 56, 8);
FIELD(scalewatch_stats, dropped_too_large, 64, 8);
FIELD(scalewatch_stats, dropped_rejected, 72, 8);
FIELD(scalewatch_stats, dropped_internal, 80, 8);
FIELD(scalewatch_stats, dropped_stopped, 88, 8);
FIELD(scalewatch_stats, buffered_bytes, 96, 8);
FIELD(scalewatch_stats, connects, 104, 8);
FIELD(scalewatch_stats, trainer_thread_ns, 112, 8);
FIELD(scalewatch_stats, measure_ns, 120, 8);
FIELD(scalewatch_stats, last_fault, 128, 256);
FIELD(scalewatch_stats, dropped_spool_limit, 384, 8);
FIELD(scalewatch_stats, misuse_dropped, 392, 8);
FIELD(scalewatch_stats, sampled_out, 400, 8);
FIELD(scalewatch_stats, spooled_bytes, 408, 8);
FIELD(scalewatch_stats, client_thread_ns, 416, 8);
FIELD(scalewatch_stats, cuda_driver_calls, 424, 8);
FIELD(scalewatch_stats, cuda_poll_calls, 432, 8);
FIELD(scalewatch_stats, gpu_ns, 440, 8);
FIELD(scalewatch_stats, device_lost_quiet, 448, 8);
FIELD(scalewatch_stats, device_lost_busy, 456, 8);
FIELD(scalewatch_stats, device_lost_late, 464, 8);
FIELD(scalewatch_stats, device_lost_replays, 472, 8);
FIELD(scalewatch_stats, device_fault, 480, 4);
FIELD(scalewatch_stats, histograms_lost, 488, 8);

FIELD(scalewatch_device, size, 0, 8);
FIELD(scalewatch_device, device, 8, 4);
FIELD(scalewatch_device, stream, 16, 8);
FIELD(scalewatch_device_tensor, size, 0, 8);
FIELD(scalewatch_device_tensor, scale_at, 8, 8);
FIELD(scalewatch_device_tensor, scale, 16, 8);
FIELD(scalewatch_device_tensor, target, 24, 4);
FIELD(scalewatch_device_tensor, transient, 28, 4);
FIELD(scalewatch_device_tensor, ndim, 32, 4);
FIELD(scalewatch_device_tensor, sizes, 40, 8);
FIELD(scalewatch_device_tensor, strides, 48, 8);
FIELD(scalewatch_device_scaler, size, 0, 8);
FIELD(scalewatch_device_scaler, scale_before, 8, 8);
FIELD(scalewatch_device_scaler, scale_after, 16, 8);
FIELD(scalewatch_device_scaler, growth_tracker, 24, 8);
PIN(SCALEWATCH_NO_GRAPH == 4294967295U);

NUMBER(SCALEWATCH_OK, 0);
NUMBER(SCALEWATCH_INVALID_ARGUMENT, 1);
NUMBER(SCALEWATCH_WRONG_STATE, 2);
NUMBER(SCALEWATCH_FORKED, 3);
NUMBER(SCALEWATCH_LIMIT, 4);
NUMBER(SCALEWATCH_TIMEOUT, 5);
NUMBER(SCALEWATCH_STOPPED, 6);
NUMBER(SCALEWATCH_INTERNAL, 7);
NUMBER(SCALEWATCH_DTYPE_UNSPECIFIED, 0);
NUMBER(SCALEWATCH_FP64, 1);
NUMBER(SCALEWATCH_FP32, 2);
NUMBER(SCALEWATCH_FP16, 3);
NUMBER(SCALEWATCH_BF16, 4);
NUMBER(SCALEWATCH_E4M3FN, 5);
NUMBER(SCALEWATCH_E5M2, 6);
NUMBER(SCALEWATCH_GRADIENT, 1);
NUMBER(SCALEWATCH_PARAMETER, 2);
NUMBER(SCALEWATCH_ACTIVATION, 3);
NUMBER(SCALEWATCH_ACTIVATION_GRADIENT, 4);
NUMBER(SCALEWATCH_OPTIMIZER_STATE, 5);
NUMBER(SCALEWATCH_BUFFER, 6);
NUMBER(SCALEWATCH_OUTCOME_UNKNOWN, 0);
NUMBER(SCALEWATCH_APPLIED, 1);
NUMBER(SCALEWATCH_SKIPPED, 2);
NUMBER(SCALEWATCH_PHASE_UNSPECIFIED, 0);
NUMBER(SCALEWATCH_TRAIN, 1);
NUMBER(SCALEWATCH_EVAL, 2);
NUMBER(SCALEWATCH_CHECKPOINT, 3);
NUMBER(SCALEWATCH_INIT, 4);
NUMBER(SCALEWATCH_HAS_LR, 1);
NUMBER(SCALEWATCH_HAS_BETA1, 2);
NUMBER(SCALEWATCH_HAS_BETA2, 4);
NUMBER(SCALEWATCH_HAS_EPS, 8);
NUMBER(SCALEWATCH_HAS_WEIGHT_DECAY, 16);
NUMBER(SCALEWATCH_NOT_STARTED, 0);
NUMBER(SCALEWATCH_CONNECTING, 1);
NUMBER(SCALEWATCH_CONNECTED, 2);
NUMBER(SCALEWATCH_WAITING, 3);
NUMBER(SCALEWATCH_CONN_STOPPED, 4);
NUMBER(SCALEWATCH_CLOSED, 5);

typedef struct functions {
  const char* (*version)(void);
  const char* (*last_error)(void);
  int (*open)(const scalewatch_options*, scalewatch_monitor**);
  int (*close)(scalewatch_monitor*, int64_t, const char*);
  int (*add_scaler)(scalewatch_monitor*, const char*, const char*, const scalewatch_parameter*, size_t, uint32_t*);
  int (*add_optimizer)(scalewatch_monitor*, const scalewatch_optimizer*, uint32_t*);
  int (*add_tensor)(scalewatch_monitor*, const scalewatch_tensor*, uint32_t*);
  int (*begin_attempt)(scalewatch_monitor*, int64_t);
  int (*observe)(scalewatch_monitor*, uint32_t, const void*, uint64_t, double, int32_t);
  int (*observe_strided)(scalewatch_monitor*, uint32_t, const void*, uint32_t, const uint64_t*, const int64_t*, double,
                         int32_t);
  int (*observe_record)(scalewatch_monitor*, uint32_t, const scalewatch_record*, double, int32_t);
  int (*observe_scaler)(scalewatch_monitor*, uint32_t, double, double, int64_t, int32_t);
  int (*observe_optimizer)(scalewatch_monitor*, uint32_t, uint32_t, double, double, int32_t);
  int (*set_loss)(scalewatch_monitor*, double);
  int (*set_lr)(scalewatch_monitor*, double);
  int (*set_grad_norm)(scalewatch_monitor*, double, int, int);
  int (*set_input_non_finite)(scalewatch_monitor*, int);
  int (*set_phase)(scalewatch_monitor*, int32_t);
  int (*misuse)(scalewatch_monitor*, const char*, const char*, int);
  int (*end_attempt)(scalewatch_monitor*);
  int (*get_stats)(scalewatch_monitor*, scalewatch_stats*);
  int (*wait_durable)(scalewatch_monitor*, int64_t);
  int (*observe_device)(scalewatch_monitor*, uint32_t, const void*, uint64_t, const scalewatch_device*,
                        const scalewatch_device_tensor*);
  int (*measure_device)(scalewatch_monitor*, uint32_t*);
  int (*observe_graph)(scalewatch_monitor*, uint32_t, void*);
  int (*observe_scaler_device)(scalewatch_monitor*, uint32_t, const scalewatch_device*, const scalewatch_device_scaler*);
  int (*observe_optimizer_device)(scalewatch_monitor*, uint32_t, uint32_t, const scalewatch_device*, const float*, const float*,
                                  int32_t);
} functions;

static const functions released = {
    scalewatch_version,
    scalewatch_last_error,
    scalewatch_open,
    scalewatch_close,
    scalewatch_add_scaler,
    scalewatch_add_optimizer,
    scalewatch_add_tensor,
    scalewatch_begin_attempt,
    scalewatch_observe,
    scalewatch_observe_strided,
    scalewatch_observe_record,
    scalewatch_observe_scaler,
    scalewatch_observe_optimizer,
    scalewatch_set_loss,
    scalewatch_set_lr,
    scalewatch_set_grad_norm,
    scalewatch_set_input_non_finite,
    scalewatch_set_phase,
    scalewatch_misuse,
    scalewatch_end_attempt,
    scalewatch_get_stats,
    scalewatch_wait_durable,
    scalewatch_observe_device,
    scalewatch_measure_device,
    scalewatch_observe_graph,
    scalewatch_observe_scaler_device,
    scalewatch_observe_optimizer_device,
};

/* Sizes as a trainer of 0.1 was compiled with. */
enum { kOptionsSize = 88, kStatsSize = 384 };

static int failures = 0;

static void expect(int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "%s (%s)\n", what, released.last_error());
  ++failures;
}

/* The caller's structs are shorter or longer than the library's: nothing beyond their size is read or written. */
static void talks_to_other_versions(void) {
  union {
    scalewatch_options options;
    unsigned char bytes[sizeof(scalewatch_options) + 64];
  } asked;
  union {
    scalewatch_stats stats;
    unsigned char bytes[sizeof(scalewatch_stats) + 64];
  } told;
  scalewatch_monitor* monitor = NULL;
  size_t i;
  memset(&asked, 0xAA, sizeof asked);
  memset(&asked, 0, kOptionsSize);
  asked.options.size = kOptionsSize;
  asked.options.run = "old trainer";
  asked.options.server = "127.0.0.1:1";
  expect(released.open(&asked.options, &monitor) == SCALEWATCH_OK, "an older trainer's options");
  memset(&told, 0xAA, sizeof told);
  told.stats.size = kStatsSize;
  expect(released.get_stats(monitor, &told.stats) == SCALEWATCH_OK, "an older trainer's stats");
  expect(told.stats.attempts == 0 && told.stats.connects == 0 && told.stats.last_fault[0] == '\0', "stats are filled in");
  for (i = kStatsSize; i < sizeof told; ++i) expect(told.bytes[i] == 0xAA, "stats were written beyond their size");
  expect(released.close(monitor, 0, NULL) == SCALEWATCH_OK, "closed before its first attempt");

  memset(&asked, 0, sizeof asked);
  asked.options.size = sizeof asked;
  asked.options.run = "new trainer";
  asked.options.server = "127.0.0.1:1";
  expect(released.open(&asked.options, &monitor) == SCALEWATCH_OK, "a newer trainer's options");
  memset(&told, 0xAA, sizeof told);
  told.stats.size = sizeof told;
  expect(released.get_stats(monitor, &told.stats) == SCALEWATCH_OK, "a newer trainer's stats");
  expect(released.close(monitor, 0, NULL) == SCALEWATCH_OK, "closed before its first attempt");
}

int main(void) {
  talks_to_other_versions();
  return failures == 0 ? 0 : 1;
}
