/* Scalewatch client, C ABI: a training process reports its tensors and its loss scaler to scalewatchd.
 *
 * Promise: nothing here ever waits for the network or the server, except scalewatch_close and scalewatch_wait_durable, which
 * wait for at most the time that they are given. A server that is away, slow or wrong costs the trainer nothing but the
 * bounded buffer. No function throws, aborts or writes more than one line a minute to stderr (none in normal working).
 *
 * Threads: the functions of one monitor are called from one thread at a time (the trainer's), unless they say "any thread".
 * Different monitors are independent.
 *
 * Cost: what is called while training (begin_attempt, observe..., set_..., misuse, wants, end_attempt) takes no lock, allocates
 * nothing and makes no system call once each tensor was observed once, whatever the server does; clocks are read without a
 * system call where the kernel's vDSO has one. Its exceptions: a refused call, the first attempt (starts the client's thread),
 * and passes over large tensors shared by measure_threads. Functions that say "allocates" are for setting up.
 *
 * Exit: a process that ends without scalewatch_close still sends what is buffered, for at most 2 s, and says no goodbye.
 *
 * Fork: a child of the process never reports. In it every function returns SCALEWATCH_FORKED at once and frees nothing.
 *
 * Versions: structs begin with their size, so that fields can be added at their end; enumerators keep their numbers.
 * Compiles as C99. */
#ifndef SCALEWATCH_SCALEWATCH_H_
#define SCALEWATCH_SCALEWATCH_H_

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define SCALEWATCH_API __attribute__((visibility("default")))
#else
#define SCALEWATCH_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define SCALEWATCH_VERSION_MAJOR 0
#define SCALEWATCH_VERSION_MINOR 1
#define SCALEWATCH_VERSION_PATCH 0

/* One client start of one rank of a run. */
typedef struct scalewatch_monitor scalewatch_monitor;

/* Returned by every function that can fail. scalewatch_last_error() says more. */
enum scalewatch_status {
  SCALEWATCH_OK = 0,
  SCALEWATCH_INVALID_ARGUMENT = 1, /* nothing was changed; the message names the argument */
  SCALEWATCH_WRONG_STATE = 2,      /* e.g. observing with no attempt open; nothing was changed */
  SCALEWATCH_FORKED = 3,           /* this is a child of the process that opened the monitor */
  SCALEWATCH_LIMIT = 4,            /* a limit of this library, named in the message; nothing was changed */
  SCALEWATCH_TIMEOUT = 5,          /* the time given was not enough */
  SCALEWATCH_STOPPED = 6,          /* the server told this client to stop for good; calls go on to be harmless */
  SCALEWATCH_INTERNAL = 7          /* out of memory or threads */
};

/* Numbers equal those on the wire. */
enum scalewatch_dtype {
  SCALEWATCH_DTYPE_UNSPECIFIED = 0,
  SCALEWATCH_FP64 = 1,
  SCALEWATCH_FP32 = 2,
  SCALEWATCH_FP16 = 3,
  SCALEWATCH_BF16 = 4,
  SCALEWATCH_E4M3FN = 5,
  SCALEWATCH_E5M2 = 6
};
enum scalewatch_role {
  SCALEWATCH_GRADIENT = 1,
  SCALEWATCH_PARAMETER = 2,
  SCALEWATCH_ACTIVATION = 3,
  SCALEWATCH_ACTIVATION_GRADIENT = 4,
  SCALEWATCH_OPTIMIZER_STATE = 5,
  SCALEWATCH_BUFFER = 6
};
enum scalewatch_outcome { SCALEWATCH_OUTCOME_UNKNOWN = 0, SCALEWATCH_APPLIED = 1, SCALEWATCH_SKIPPED = 2 };
enum scalewatch_phase {
  SCALEWATCH_PHASE_UNSPECIFIED = 0, /* taken as training */
  SCALEWATCH_TRAIN = 1,
  SCALEWATCH_EVAL = 2,
  SCALEWATCH_CHECKPOINT = 3,
  SCALEWATCH_INIT = 4
};

typedef struct scalewatch_label {
  const char* key;   /* [a-zA-Z_][a-zA-Z0-9_]*, at most 128 bytes */
  const char* value; /* UTF-8 without control characters, at most 256 bytes */
} scalewatch_label;

/* Zero it, set size, then what differs from the defaults. Strings are copied. */
typedef struct scalewatch_options {
  size_t size;                    /* sizeof(scalewatch_options) */
  const char* server;             /* host:port, or a comma-separated list of up to 64 servers that share the runs, any of which
                                     knows where this run is; dns:///host:port for a name that stands for several. NULL or "" =
                                     $SCALEWATCH_SERVER, else 127.0.0.1:7462 */
  const char* run;                /* the job's name, 1 to 256 bytes of UTF-8 without control characters; NULL or "" =
                                     $SCALEWATCH_RUN */
  uint32_t rank;                  /* 0 to world_size - 1 */
  uint32_t world_size;            /* 0 = 1; at most 100,000 */
  int32_t compute_dtype;          /* scalewatch_dtype that the computation runs in; the default target of observe; 0 = fp16 */
  const char* framework;          /* for display, e.g. "pytorch 2.4"; NULL = "cpp" */
  const char* job_id;             /* the cluster's id; NULL = $SLURM_JOB_ID, else none */
  const char* gpu_uuid;           /* NULL = none */
  const scalewatch_label* labels; /* at most 32; they reach every alert */
  size_t label_count;
  uint64_t buffer_bytes;    /* kept for resending while the server is away; 0 = 64 MiB; at least 64 KiB. A full buffer first
                               drops the statistics of the oldest reports, then whole reports, and says so to the server */
  int32_t ring_attempts;    /* records measured and not sent (see scalewatch_sampling) that are kept in memory of so many
                               attempts, to be sent when an attempt fails; 0 = 16; negative = none */
  const char* spool_dir;    /* folder on a local disk for what the buffer can't hold while the server is away, and for what is
                               not sent at the end: a later start of the same run and rank sends it first.
                               NULL = $SCALEWATCH_SPOOL_DIR, else (or "") none */
  uint64_t spool_bytes;     /* of this rank at most; 0 = 1 GiB */
  uint64_t spool_max_age_s; /* older reports are given up; 0 = 7 days */
  uint64_t spool_keep_free_bytes; /* the disk is never filled beyond this much free space; 0 = 1 GiB */
  uint32_t measure_threads; /* threads that share the pass over a large tensor, the caller's included; 0 = 1; at most 64 */
  uint64_t histogram_every; /* attempts between two exponent histograms (how many elements lie in which octave) of a gradient:
                               a second pass over its data at attempts 1, 1 + n, 1 + 2 n, ...; 0 = 100; SCALEWATCH_NEVER = none.
                               They are made of gradients whose full record is sent at that attempt and whose elements are all
                               finite, not of statistics made elsewhere nor of replays of a CUDA graph. Under overload they go
                               first (see scalewatch_stats.histograms_lost); of more gradients than there is room for (an 8th of
                               a 4th of buffer_bytes: 946 at 64 MiB) some take their turn at one such attempt, others at the
                               next. Without them nobody can tell how many elements another scale would lose */
  const char* token_file; /* file with the token that the server asks for, read at every connect; NULL = $SCALEWATCH_TOKEN_FILE,
                             else (or "") none */
  const char* token;   /* the token itself, in place of the file; NULL = $SCALEWATCH_TOKEN where no file is named. A token goes
                          to another machine with TLS only */
  const char* ca_file; /* PEM file of authorities that the server's certificate may be of; NULL = $SCALEWATCH_CA_FILE, else
                          (or "") the system's. This, cert_file, or https:// before a server turns TLS on */
  const char* cert_file; /* PEM file of this client's certificate; NULL = $SCALEWATCH_CERT_FILE, else (or "") none */
  const char* key_file;  /* PEM file of its key; NULL = $SCALEWATCH_KEY_FILE */
} scalewatch_options;

typedef struct scalewatch_parameter {
  const char* name; /* e.g. "init_scale", "growth_factor", "growth_interval"; [a-zA-Z_][a-zA-Z0-9_]*, at most 64 bytes */
  double value;     /* finite */
} scalewatch_parameter;

enum scalewatch_optimizer_fields { /* bits of scalewatch_optimizer.present */
                                   SCALEWATCH_HAS_LR = 1,
                                   SCALEWATCH_HAS_BETA1 = 2,
                                   SCALEWATCH_HAS_BETA2 = 4,
                                   SCALEWATCH_HAS_EPS = 8,
                                   SCALEWATCH_HAS_WEIGHT_DECAY = 16
};
typedef struct scalewatch_optimizer {
  size_t size;            /* sizeof(scalewatch_optimizer) */
  const char* name;       /* unique; NULL = "default" */
  const char* class_name; /* e.g. "Adam"; NULL = unknown */
  uint32_t scaler;        /* id of its scaler; a run without scaling declares one with policy "none" */
  uint32_t present;       /* which of the numbers below are known; one that is not finite is taken as not known */
  double lr, beta1, beta2, eps, weight_decay;
  const int32_t* state_dtypes; /* scalewatch_dtype of its state tensors */
  size_t state_dtype_count;    /* at most 16 */
  int32_t fused;               /* not 0: it skips inside its kernel */
} scalewatch_optimizer;

typedef struct scalewatch_tensor {
  size_t size;            /* sizeof(scalewatch_tensor) */
  const char* name;       /* 1 to 512 bytes of UTF-8 without control characters; unique together with role */
  int32_t role;           /* scalewatch_role, required */
  int32_t dtype;          /* scalewatch_dtype as stored, required */
  uint64_t numel;         /* elements of one measurement; 0 is legal */
  uint32_t forward_index; /* order in which values flow forward, from 0; equal for a weight and its gradient */
  const char* shard;      /* which piece of a sharded tensor; NULL = whole */
  const char* replica;    /* which copy of the same piece; NULL = the only one */
  const char* optimizer;  /* name of the optimizer that steps it; NULL = none */
} scalewatch_tensor;

#define SCALEWATCH_NEVER UINT32_MAX

/* Which tensors are measured at which attempts, and of which full records are sent. Zero it, set size, then what differs. */
typedef struct scalewatch_sampling {
  size_t size;           /* sizeof(scalewatch_sampling) */
  int32_t role;          /* scalewatch_role that it speaks of; 0 = any */
  const char* include;   /* names that it speaks of; "*" matches any characters; NULL = all */
  const char* exclude;   /* but not of these; NULL = none */
  uint32_t every;        /* measure every so many attempts; 0 = 1; SCALEWATCH_NEVER = not at all: what is not measured, nobody
                            can find non-finite */
  uint32_t report_every; /* of what is measured, send full records every so many times; 0 = 1; SCALEWATCH_NEVER = not at all.
                            Tensors that are not finite are sent in any case; the others wait in the ring */
  uint64_t start_attempt, end_attempt; /* first and last attempt, counted from 1; 0 = no bound */
  int32_t only_found_inf;              /* not 0: send full records only of attempts where an optimizer found Inf */
} scalewatch_sampling;

/* Statistics made elsewhere, for scalewatch_observe_record. Finite fields ignore NaN and infinities. */
typedef struct scalewatch_record {
  size_t size; /* sizeof(scalewatch_record) */
  uint64_t numel, nan, pos_inf, neg_inf, zero;
  uint64_t subnormal, flushed, over; /* met by |x| / scale in the target format */
  double sum, sum_sq;
  float min, max;       /* NaN = no finite element */
  float absmin_nonzero; /* NaN = no finite non-zero element */
} scalewatch_record;

/* Where something lies on a GPU, and on which stream it is ready. Zero it, set size, then what differs.
 *
 * CUDA: the driver (525 or later) is opened when a GPU is named first; this library needs no CUDA toolkit. Data must belong to
 * the device's primary context, as all memory of the CUDA runtime and of PyTorch does. Nothing here waits for the GPU: work is
 * put on the stream, and the client's thread asks for its end. A stream must live until the attempt has ended. A GPU that
 * can't be measured, or no longer (no driver, one too old, an unknown architecture, no memory, an error of the trainer's own
 * kernels), is left alone: the calls go on to return OK, it is said once on stderr and told to the server, and what is lost is
 * counted (scalewatch_stats). Tensors in host memory are measured as before. */
typedef struct scalewatch_device {
  size_t size;    /* sizeof(scalewatch_device) */
  int32_t device; /* CUDA's ordinal in this process: cudaGetDevice's, torch's index; 0 to 63 */
  void* stream;   /* cudaStream_t or CUstream; NULL = the legacy default stream, (void*)2 = the thread's default stream */
} scalewatch_device;

/* How a tensor on a GPU is measured. Zero it, set size, then what differs. */
typedef struct scalewatch_device_tensor {
  size_t size;            /* sizeof(scalewatch_device_tensor) */
  const float* scale_at;  /* on the GPU: what the values were multiplied by; read with the data. NULL = scale below */
  double scale;           /* 1 (or 0) = nothing */
  int32_t target;         /* as scalewatch_observe */
  int32_t transient;      /* not 0: measured at once, because the data is gone or changed before the attempt ends */
  uint32_t ndim;          /* dimensions of a strided tensor, at most 8; 0 = contiguous */
  const uint64_t* sizes;  /* ndim of them; numel is their product */
  const int64_t* strides; /* ndim of them, in elements; may be negative or 0 */
} scalewatch_device_tensor;

/* A scaler's state on a GPU. Zero it, set size, then what is there; NULL = not known. */
typedef struct scalewatch_device_scaler {
  size_t size;                   /* sizeof(scalewatch_device_scaler) */
  const float* scale_before;     /* in force during the attempt: before the scaler's update */
  const float* scale_after;      /* after it */
  const int32_t* growth_tracker; /* after it */
} scalewatch_device_scaler;

#define SCALEWATCH_NO_GRAPH UINT32_MAX

enum scalewatch_connection {
  SCALEWATCH_NOT_STARTED = 0, /* before the first attempt */
  SCALEWATCH_CONNECTING = 1,
  SCALEWATCH_CONNECTED = 2,
  SCALEWATCH_WAITING = 3,      /* between two tries */
  SCALEWATCH_CONN_STOPPED = 4, /* told to stop for good */
  SCALEWATCH_CLOSED = 5
};
typedef struct scalewatch_stats {
  size_t size;                  /* set by the caller: sizeof(scalewatch_stats) */
  int32_t connection;           /* scalewatch_connection */
  int32_t last_fault_cause;     /* number of scalewatch.v1.FaultCause; 0 = none */
  uint64_t attempts;            /* ended so far, lost ones included */
  uint64_t durable_attempts;    /* attempts up to here survive a crash of the server, or are lost and announced to it */
  uint64_t reports_sent;        /* written to a stream, repeats included */
  uint64_t reports_thinned;     /* lost their tensor statistics and kept the rest */
  uint64_t dropped_buffer_full; /* whole reports lost, by cause; all are announced to the server */
  uint64_t dropped_queue_full;
  uint64_t dropped_too_large;
  uint64_t dropped_rejected;
  uint64_t dropped_internal;
  uint64_t dropped_stopped;     /* made after the client was told to stop, or not durable by then */
  uint64_t buffered_bytes;      /* held for resending */
  uint64_t connects;            /* streams opened that the server greeted */
  uint64_t trainer_thread_ns;   /* spent in this library on the trainer's thread, passes over data excluded; one observation in
                                   16 is timed */
  uint64_t measure_ns;          /* spent in passes over data; of those over fewer than 4,096 elements one in 17 is timed */
  char last_fault[256];         /* what the server or the connection said last went wrong; "" = nothing */
  uint64_t dropped_spool_limit; /* whole reports lost to the spool's bounds */
  uint64_t misuse_dropped;      /* misuse events beyond 16 an attempt, or more than the client's thread could take */
  uint64_t sampled_out;         /* observations that sampling left unmeasured */
  uint64_t spooled_bytes;       /* held on disk for resending */
  uint64_t client_thread_ns;    /* processor time of the client's own thread (gRPC's threads not included) */
  uint64_t cuda_driver_calls;   /* CUDA driver calls made on the trainer's thread */
  uint64_t cuda_poll_calls;     /* the same on the client's thread, which asks whether results are there */
  uint64_t gpu_ns;              /* GPU time of this library's kernels; one launch in 17 is timed */
  uint64_t device_lost_quiet;   /* measurements on GPUs that can't be measured, or not any more */
  uint64_t device_lost_busy;    /* measurements that found no memory free, because results before them were still on their
                                   way, or whose stream could not be used, because another one was captured */
  uint64_t device_lost_late;    /* measurements that did not come within 30 s */
  uint64_t device_lost_replays; /* of replays of a CUDA graph beyond the 8 that are kept between two observe_graph */
  int32_t device_fault;         /* number of scalewatch.v1.DeviceFaultCause of a GPU that is not measured; 0 = none */
  uint64_t histograms_lost;     /* exponent histograms that were due and found no memory free, because those of the attempts
                                   before were still on their way */
} scalewatch_stats;

/* "0.1.0". Any thread; no cost. */
SCALEWATCH_API const char* scalewatch_version(void);

/* Message of the last failed call on this thread; "" if none. Valid until the next failing call on this thread. */
SCALEWATCH_API const char* scalewatch_last_error(void);

/* Makes a monitor. Connects only when the first attempt begins, so an unknown server is no error. Any thread.
 * Errors: INVALID_ARGUMENT (names the option), FORKED (a parent of this process had opened one), WRONG_STATE (the process is
 * ending), INTERNAL. */
SCALEWATCH_API int scalewatch_open(const scalewatch_options* options, scalewatch_monitor** out);

/* Ends an open attempt, sends what is buffered, says goodbye, and frees the monitor. Waits at most flush_ms (negative = 5,000)
 * for the server; what was not durable by then goes to the spool, else is lost. Gives up after one try when the server was
 * never reached. reason: NULL = "finished". A NULL monitor is a no-op. Errors: TIMEOUT (not all was durable; the monitor is
 * freed all the same), STOPPED, FORKED (nothing was freed). */
SCALEWATCH_API int scalewatch_close(scalewatch_monitor* monitor, int64_t flush_ms, const char* reason);

/* Declares a scaler, before the first attempt; *id counts from 0. policy: "pytorch", "static", "none", ... At most 64.
 * Errors: INVALID_ARGUMENT, WRONG_STATE (after the first attempt began), LIMIT. Cost: allocates. */
SCALEWATCH_API int scalewatch_add_scaler(scalewatch_monitor* monitor, const char* name, const char* policy,
                                         const scalewatch_parameter* parameters, size_t parameter_count, uint32_t* id);

/* Declares an optimizer, before the first attempt; *id counts from 0. At most 256. Errors and cost as add_scaler. */
SCALEWATCH_API int scalewatch_add_optimizer(scalewatch_monitor* monitor, const scalewatch_optimizer* optimizer, uint32_t* id);

/* Says how to sample, before the first tensor is added. Of several rules the last that matches a tensor holds for it; without
 * any, every tensor is measured and sent at every attempt. The server may ask for more of a tensor for a time, never of one
 * whose `every` is SCALEWATCH_NEVER; or for fewer full records, where other ranks hold the same tensors. At most 64 rules.
 * Errors: INVALID_ARGUMENT, WRONG_STATE (a tensor was added), LIMIT. Cost: allocates. */
SCALEWATCH_API int scalewatch_add_sampling(scalewatch_monitor* monitor, const scalewatch_sampling* sampling);

/* Declares a tensor, at any time; *id is dense from 0. At most 1,000,000 (the server may take fewer).
 * Errors: INVALID_ARGUMENT, LIMIT. Cost: allocates; a lock. */
SCALEWATCH_API int scalewatch_add_tensor(scalewatch_monitor* monitor, const scalewatch_tensor* tensor, uint32_t* id);

/* Opens the next attempt. step is the trainer's own number. An attempt still open is ended first.
 * Cost: the first one starts the client's thread. Errors: INTERNAL. */
SCALEWATCH_API int scalewatch_begin_attempt(scalewatch_monitor* monitor, int64_t step);

/* *wanted = 1 when the open attempt is to measure this tensor, else 0: observing it then does nothing, so what prepares its
 * data can be left out. Errors: INVALID_ARGUMENT (unknown tensor), WRONG_STATE. */
SCALEWATCH_API int scalewatch_wants(scalewatch_monitor* monitor, uint32_t tensor, int* wanted);

/* Measures numel contiguous elements of the tensor's dtype in host memory, now, and adds them to the open attempt.
 * A tensor observed again in one attempt is another micro-batch: the measurements are merged and the first non-finite one is
 * remembered. scale: what the values were multiplied by; 1 (or 0) = nothing. target: scalewatch_dtype that precision is
 * judged against; 0 = the monitor's compute dtype. Cost: one pass over the data, a second one for a histogram.
 * Errors: INVALID_ARGUMENT (unknown tensor, NULL data, scale below 0 or not finite, unknown target; a scale or target other
 * than the one that the tensor was observed under in this attempt), WRONG_STATE (no attempt is open). */
SCALEWATCH_API int scalewatch_observe(scalewatch_monitor* monitor, uint32_t tensor, const void* data, uint64_t numel,
                                      double scale, int32_t target);

/* As scalewatch_observe, for strided data: element (i0, ..., in-1) lies at data + sum(i * stride) * element size. Strides
 * count elements and may be negative or 0. ndim: at most 8; 0 = one element. */
SCALEWATCH_API int scalewatch_observe_strided(scalewatch_monitor* monitor, uint32_t tensor, const void* data, uint32_t ndim,
                                              const uint64_t* sizes, const int64_t* strides, double scale, int32_t target);

/* As scalewatch_observe, with statistics that were made elsewhere. Cost: no pass. */
SCALEWATCH_API int scalewatch_observe_record(scalewatch_monitor* monitor, uint32_t tensor, const scalewatch_record* record,
                                             double scale, int32_t target);

/* Notes numel contiguous (or how->ndim: strided) elements of the tensor's dtype on a GPU. They are measured by the next
 * scalewatch_measure_device or by end_attempt, on on->stream, all that were noted in one launch: until then they must neither
 * change nor be freed. With how->transient they are measured now, and may be used again by what follows on the stream.
 * how: NULL = the defaults. At most 2^33 elements; at most 8 streams a device and attempt.
 * Micro-batches and errors as scalewatch_observe, and INVALID_ARGUMENT for a device that can't be. */
SCALEWATCH_API int scalewatch_observe_device(scalewatch_monitor* monitor, uint32_t tensor, const void* data, uint64_t numel,
                                             const scalewatch_device* on, const scalewatch_device_tensor* how);

/* Launches what was noted since the last launch, e.g. gradients before the optimizer unscales them, or the scaler's state
 * before it is updated. Calls of the driver: 2, 2 for tensors and at most 1 upload, or 1 for scalars alone; at the attempt's
 * end 2 more a stream (see "cuda_driver_calls"). With histograms (scalewatch_options.histogram_every) 2 more, and 3 for a
 * transient gradient.
 *
 * CUDA graphs: what is launched while the stream is captured becomes part of the graph and of no attempt. *graph (NULL is
 * legal) is its number then, else SCALEWATCH_NO_GRAPH. What sampling left out at that attempt is not in the graph, and no
 * exponent histogram is: which attempts make one is said by the host, and a graph repeats itself. The memory that the graph
 * uses is never freed. At most 64 graphs a device. Errors: WRONG_STATE. */
SCALEWATCH_API int scalewatch_measure_device(scalewatch_monitor* monitor, uint32_t* graph);

/* After replays of a graph on this stream: what they measured since the last call belongs to the open attempt; several replays
 * are micro-batches. The newest 8 are kept. Errors: INVALID_ARGUMENT (unknown graph), WRONG_STATE. */
SCALEWATCH_API int scalewatch_observe_graph(scalewatch_monitor* monitor, uint32_t graph, void* stream);

/* As scalewatch_observe_scaler, for state on a GPU: noted now, read by the next scalewatch_measure_device or end_attempt. So
 * scale_before is noted and launched before the scaler's update, the others after it.
 * Errors: INVALID_ARGUMENT (unknown scaler, a device that can't be), WRONG_STATE. */
SCALEWATCH_API int scalewatch_observe_scaler_device(scalewatch_monitor* monitor, uint32_t scaler, const scalewatch_device* on,
                                                    const scalewatch_device_scaler* state);

/* As scalewatch_observe_optimizer, for found_inf on a GPU (NULL = not known), read as above: before the scaler's update, which
 * drops it. outcome SCALEWATCH_OUTCOME_UNKNOWN: what found_inf_decided (else found_inf_local) says.
 * Errors: INVALID_ARGUMENT (also: the optimizer is another scaler's), WRONG_STATE. */
SCALEWATCH_API int scalewatch_observe_optimizer_device(scalewatch_monitor* monitor, uint32_t scaler, uint32_t optimizer,
                                                       const scalewatch_device* on, const float* found_inf_local,
                                                       const float* found_inf_decided, int32_t outcome);

/* Notes what a scaler did at the open attempt; said again, it replaces what was said. scale_before: in force during the
 * attempt; scale_after: after the update (the same when there was none). NaN or a negative tracker or hysteresis = not known.
 * Errors: INVALID_ARGUMENT (unknown scaler), WRONG_STATE. */
SCALEWATCH_API int scalewatch_observe_scaler(scalewatch_monitor* monitor, uint32_t scaler, double scale_before,
                                             double scale_after, int64_t growth_tracker, int32_t hysteresis);

/* Notes what became of an optimizer's step. found_inf_local: as this rank counted it; found_inf_decided: after any reduction
 * over ranks; NaN = not known. outcome: scalewatch_outcome. Errors and cost as scalewatch_observe_scaler. */
SCALEWATCH_API int scalewatch_observe_optimizer(scalewatch_monitor* monitor, uint32_t scaler, uint32_t optimizer,
                                                double found_inf_local, double found_inf_decided, int32_t outcome);

/* Facts about the open attempt. NaN and Inf are legal and kept. Errors: WRONG_STATE. */
SCALEWATCH_API int scalewatch_set_loss(scalewatch_monitor* monitor, double loss); /* unscaled */
SCALEWATCH_API int scalewatch_set_lr(scalewatch_monitor* monitor, double lr);
SCALEWATCH_API int scalewatch_set_grad_norm(scalewatch_monitor* monitor, double norm, int scaled, int clipped);
SCALEWATCH_API int scalewatch_set_input_non_finite(scalewatch_monitor* monitor, int non_finite);

/* What the trainer is busy with, until said otherwise; heartbeats carry it too. Errors: INVALID_ARGUMENT. */
SCALEWATCH_API int scalewatch_set_phase(scalewatch_monitor* monitor, int32_t phase);

/* Notes a wrong use of the scaler, in the open attempt or else the next one. kind: e.g. "update_missing", at most 64 bytes of
 * [a-z0-9_]; detail: for people, cut at 512 bytes. raised: the framework refused it. At most 16 an attempt; more are dropped.
 * Errors: INVALID_ARGUMENT. */
SCALEWATCH_API int scalewatch_misuse(scalewatch_monitor* monitor, const char* kind, const char* detail, int raised);

/* Ends the attempt and hands its report to the client's thread. Never waits for it: a full queue drops the report's
 * statistics, or the report, and the server is told. The client's thread looks for it every 5 ms.
 * Errors: WRONG_STATE, STOPPED (nothing is sent any more). */
SCALEWATCH_API int scalewatch_end_attempt(scalewatch_monitor* monitor);

/* What was sent and lost so far. stats->size must be set. Any thread. Cost: a lock. */
SCALEWATCH_API int scalewatch_get_stats(scalewatch_monitor* monitor, scalewatch_stats* stats);

/* Waits until every attempt ended so far is durable on the server, at most timeout_ms. For orderly ends and tests. Any thread.
 * Errors: TIMEOUT, STOPPED. */
SCALEWATCH_API int scalewatch_wait_durable(scalewatch_monitor* monitor, int64_t timeout_ms);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* SCALEWATCH_SCALEWATCH_H_ */
