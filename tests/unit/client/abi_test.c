/* The C ABI from C99: sizes, errors by name, and a life without a server. */
#include <math.h>
#include <scalewatch/scalewatch.h>
#include <stdio.h>
#include <string.h>

static int failures = 0;

#define EXPECT(condition)                                                                           \
  do {                                                                                              \
    if (!(condition)) {                                                                             \
      fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #condition, scalewatch_last_error()); \
      ++failures;                                                                                   \
    }                                                                                               \
  } while (0)

static void refuses_bad_options(void) {
  scalewatch_monitor* monitor = NULL;
  scalewatch_options options;
  memset(&options, 0, sizeof options);
  EXPECT(scalewatch_open(NULL, &monitor) == SCALEWATCH_INVALID_ARGUMENT);
  EXPECT(scalewatch_open(&options, &monitor) == SCALEWATCH_INVALID_ARGUMENT);
  EXPECT(strstr(scalewatch_last_error(), "size") != NULL);
  options.size = sizeof options;
  EXPECT(scalewatch_open(&options, &monitor) == SCALEWATCH_INVALID_ARGUMENT);
  EXPECT(strstr(scalewatch_last_error(), "run") != NULL);
  options.run = "two\nlines";
  EXPECT(scalewatch_open(&options, &monitor) == SCALEWATCH_INVALID_ARGUMENT);
  options.run = "abi";
  options.server = "http://somewhere:7462";
  EXPECT(scalewatch_open(&options, &monitor) == SCALEWATCH_INVALID_ARGUMENT);
  EXPECT(strstr(scalewatch_last_error(), "host:port") != NULL);
  options.server = "127.0.0.1:1";
  options.rank = 2;
  options.world_size = 2;
  EXPECT(scalewatch_open(&options, &monitor) == SCALEWATCH_INVALID_ARGUMENT);
  options.rank = 0;
  options.buffer_bytes = 1;
  EXPECT(scalewatch_open(&options, &monitor) == SCALEWATCH_INVALID_ARGUMENT);
  EXPECT(monitor == NULL);
}

static void lives_without_a_server(void) {
  scalewatch_monitor* monitor = NULL;
  scalewatch_options options;
  scalewatch_optimizer optimizer;
  scalewatch_tensor tensor;
  scalewatch_stats stats;
  const scalewatch_parameter parameters[] = {{"init_scale", 65536}, {"growth_interval", 2000}};
  const float data[4] = {1, -2, 0, 3};
  uint32_t scaler = 9, optimizer_id = 9, tensor_id = 9;

  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.run = "abi";
  options.server = "127.0.0.1:1";
  EXPECT(scalewatch_open(&options, &monitor) == SCALEWATCH_OK);
  EXPECT(scalewatch_add_scaler(monitor, "default", "pytorch", parameters, 2, &scaler) == SCALEWATCH_OK);
  EXPECT(scaler == 0);

  memset(&optimizer, 0, sizeof optimizer);
  optimizer.size = sizeof optimizer;
  optimizer.scaler = 1;
  EXPECT(scalewatch_add_optimizer(monitor, &optimizer, &optimizer_id) == SCALEWATCH_INVALID_ARGUMENT);
  optimizer.scaler = 0;
  EXPECT(scalewatch_add_optimizer(monitor, &optimizer, &optimizer_id) == SCALEWATCH_OK);

  memset(&tensor, 0, sizeof tensor);
  tensor.size = sizeof tensor;
  tensor.name = "w";
  tensor.role = SCALEWATCH_GRADIENT;
  tensor.dtype = SCALEWATCH_FP32;
  tensor.numel = 4;
  EXPECT(scalewatch_add_tensor(monitor, &tensor, &tensor_id) == SCALEWATCH_OK);
  EXPECT(scalewatch_add_tensor(monitor, &tensor, NULL) == SCALEWATCH_INVALID_ARGUMENT); /* twice */
  tensor.name = "\xff";
  EXPECT(scalewatch_add_tensor(monitor, &tensor, NULL) == SCALEWATCH_INVALID_ARGUMENT);

  EXPECT(scalewatch_observe(monitor, tensor_id, data, 4, 1, 0) == SCALEWATCH_WRONG_STATE);
  EXPECT(scalewatch_end_attempt(monitor) == SCALEWATCH_WRONG_STATE);
  EXPECT(scalewatch_begin_attempt(monitor, 1) == SCALEWATCH_OK);
  EXPECT(scalewatch_add_scaler(monitor, "late", "static", NULL, 0, NULL) == SCALEWATCH_WRONG_STATE);
  EXPECT(scalewatch_observe(monitor, 7, data, 4, 1, 0) == SCALEWATCH_INVALID_ARGUMENT);
  EXPECT(scalewatch_observe(monitor, tensor_id, NULL, 4, 1, 0) == SCALEWATCH_INVALID_ARGUMENT);
  EXPECT(scalewatch_observe(monitor, tensor_id, data, 4, NAN, 0) == SCALEWATCH_INVALID_ARGUMENT);
  EXPECT(scalewatch_observe(monitor, tensor_id, data, 4, 1, 99) == SCALEWATCH_INVALID_ARGUMENT);
  EXPECT(scalewatch_observe(monitor, tensor_id, data, 4, 2, 0) == SCALEWATCH_OK);
  EXPECT(scalewatch_observe(monitor, tensor_id, data, 4, 4, 0) == SCALEWATCH_INVALID_ARGUMENT); /* another scale */
  EXPECT(scalewatch_observe_scaler(monitor, 5, 1, 1, 0, -1) == SCALEWATCH_INVALID_ARGUMENT);
  EXPECT(scalewatch_misuse(monitor, "Bad Kind", NULL, 0) == SCALEWATCH_INVALID_ARGUMENT);
  EXPECT(scalewatch_set_loss(monitor, NAN) == SCALEWATCH_OK);
  EXPECT(scalewatch_end_attempt(monitor) == SCALEWATCH_OK);
  EXPECT(scalewatch_set_loss(monitor, 1) == SCALEWATCH_WRONG_STATE);
  EXPECT(scalewatch_wait_durable(monitor, 0) == SCALEWATCH_TIMEOUT);

  memset(&stats, 0, sizeof stats);
  EXPECT(scalewatch_get_stats(monitor, &stats) == SCALEWATCH_INVALID_ARGUMENT); /* size not set */
  stats.size = sizeof stats;
  EXPECT(scalewatch_get_stats(monitor, &stats) == SCALEWATCH_OK);
  EXPECT(stats.attempts == 1 && stats.durable_attempts == 0);

  EXPECT(scalewatch_close(monitor, 5000, NULL) == SCALEWATCH_TIMEOUT); /* after one try: nobody was ever there */
  EXPECT(scalewatch_close(NULL, 0, NULL) == SCALEWATCH_OK);
}

int main(void) {
  EXPECT(strcmp(scalewatch_version(), "0.1.0") == 0);
  refuses_bad_options();
  lives_without_a_server();
  return failures == 0 ? 0 : 1;
}
