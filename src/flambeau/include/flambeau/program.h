/* Programs that flambeau.export.save has written, run without Python: link with libflambeau.so, which lies in the
 * folder flambeau/lib of the package. Any language that can call C can use it.
 *
 *     FlambeauProgram* program = flambeau_load("model.pt2");
 *     float pixels[3 * 224 * 224];                              // filled by the caller
 *     int64_t shape[] = {1, 3, 224, 224};
 *     FlambeauTensor input = {.data = pixels, .device = {1, 0}, .ndim = 4, .dtype = {2, 32, 1}, .shape = shape};
 *     FlambeauTensor* output;
 *     if (!program || flambeau_run(program, &input, 1, &output, 1)) fprintf(stderr, "%s\n", flambeau_error());
 *
 * Functions return NULL, or a number other than 0, where they fail; flambeau_error() then says why. They may be called
 * from any thread; calls of several threads share what memory they can and take turns where they must.
 */
#ifndef FLAMBEAU_PROGRAM_H
#define FLAMBEAU_PROGRAM_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A tensor in memory, laid out as DLPack's DLTensor is: a pointer to one may be cast to the other. */
typedef struct {
  void* data;
  struct {
    int32_t type;      /* 1: the CPU, which is the only one here */
    int32_t index;
  } device;
  int32_t ndim;
  struct {
    uint8_t code;      /* 0: int, 1: unsigned int, 2: float, 4: bfloat16, 5: complex, 6: bool */
    uint8_t bits;
    uint16_t lanes;    /* 1 */
  } dtype;
  int64_t* shape;
  int64_t* strides;    /* in elements; NULL: rows lie one after another */
  uint64_t byte_offset;
} FlambeauTensor;

typedef struct FlambeauProgram FlambeauProgram;

/* What an input is. An integer is given as a tensor of one int64. */
typedef struct {
  const char* name;
  const char* dtype;     /* "float32", … */
  int32_t ndim;
  const int64_t* shape;  /* -1: a size that the program leaves open */
} FlambeauInput;

/* Reads a program. Its weights stay in the file, whose pages are read when they are needed. */
FlambeauProgram* flambeau_load(const char* path);
/* Results that are still there stay. */
void flambeau_unload(FlambeauProgram* program);

int32_t flambeau_input_count(const FlambeauProgram* program);
int32_t flambeau_output_count(const FlambeauProgram* program);
/* Of input or output `k`; NULL where there is none. They live as long as the program. */
const FlambeauInput* flambeau_input(const FlambeauProgram* program, int32_t k);
const char* flambeau_output_name(const FlambeauProgram* program, int32_t k);

/* Runs the program on `inputs`, which are read where they lie; `outputs` gets a pointer for each result, each of which
 * flambeau_free gives back. Where it fails, `outputs` is left alone. */
int32_t flambeau_run(FlambeauProgram* program, const FlambeauTensor* inputs, int32_t input_count,
                     FlambeauTensor** outputs, int32_t output_count);
void flambeau_free(FlambeauTensor* output);

/* Why the last call of this thread failed; the text is the thread's until the next call that fails. */
const char* flambeau_error(void);
/* How many threads one operator may use (at first, as many as there are cores). */
int32_t flambeau_set_threads(int32_t count);
/* Where the random numbers of programs begin. */
void flambeau_seed(uint64_t seed);
/* "0.1.0" */
const char* flambeau_version(void);

#ifdef __cplusplus
}
#endif
#endif
