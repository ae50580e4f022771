/* Times an exported program where there is no Python: `deployment PROGRAM THREADS SECONDS SHAPE…`, where a SHAPE is
 * "2,3,8", of floats between -1 and 1, or "i2,100", of integers from 0 to 99. Prints the seconds of loading it, of the
 * first call and of the fastest, and the most memory it took, in bytes. */
#include <flambeau/program.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#define MOST 8

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static FlambeauTensor filled(const char* text, int64_t* shape) {
  const int integers = *text == 'i';
  FlambeauTensor t = {.device = {1, 0}, .dtype = {integers ? 0 : 2, integers ? 64 : 32, 1}, .shape = shape};
  int64_t count = 1;
  for (char* at = (char*)text + integers; *at && t.ndim < MOST; at += *at == ',') {
    shape[t.ndim] = strtoll(at, &at, 10);
    count *= shape[t.ndim++];
  }
  t.data = calloc((size_t)count, 8);
  for (int64_t k = 0; k < count; ++k) {
    const int64_t any = (k * 2654435761LL >> 8) % 100;
    if (integers) ((int64_t*)t.data)[k] = any;
    else ((float*)t.data)[k] = (float)any / 50.0f - 1.0f;
  }
  return t;
}

int main(int argc, char** argv) {
  if (argc < 5 || argc > 4 + MOST) return 2;
  const double start = now(), seconds = atof(argv[3]);
  FlambeauProgram* program = flambeau_load(argv[1]);
  const double loaded = now();
  if (!program || flambeau_set_threads(atoi(argv[2]))) return fprintf(stderr, "%s\n", flambeau_error()), 1;
  FlambeauTensor inputs[MOST], *outputs[MOST];
  int64_t shapes[MOST][MOST];
  for (int k = 4; k < argc; ++k) inputs[k - 4] = filled(argv[k], shapes[k - 4]);
  const int count = flambeau_output_count(program);
  double first = 0, fastest = 0;
  const double end = now() + seconds;
  for (long runs = 0; runs < 3 || now() < end; ++runs) {
    const double begin = now();
    if (flambeau_run(program, inputs, argc - 4, outputs, count)) return fprintf(stderr, "%s\n", flambeau_error()), 1;
    for (int k = 0; k < count; ++k) flambeau_free(outputs[k]);
    const double taken = now() - begin;
    if (!runs) first = taken;
    if (!runs || taken < fastest) fastest = taken;
  }
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  printf("%.9f %.9f %.9f %ld\n", loaded - start, first, fastest, usage.ru_maxrss * 1024);
  return 0;
}
