/* Runs a program that flambeau.export.save has written, without Python, on inputs of zeros.
 *
 *     gcc run_program.c -I FLAMBEAU/include -L FLAMBEAU/lib -lflambeau -Wl,-rpath,FLAMBEAU/lib -o run_program
 *     ./run_program model.pt2 2,3,224,224
 *
 * FLAMBEAU is the folder of the package; an argument "2,3,8" is an input of that shape. Prints each result's shape and
 * its first numbers.
 */
#include <flambeau/program.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 16

static int fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, flambeau_error());
  return 1;
}

/* Zeros of the shape that the text says. */
static void zeros(FlambeauTensor* t, const FlambeauInput* input, const char* text) {
  int64_t count = 1;
  t->shape = malloc(MOST * sizeof(int64_t));
  for (t->ndim = 0; *text && t->ndim < MOST; ++t->ndim) {
    char* end;
    t->shape[t->ndim] = strtoll(text, &end, 10);
    count *= t->shape[t->ndim];
    text = *end ? end + 1 : end;
  }
  const int integers = strncmp(input->dtype, "int", 3) == 0;
  t->dtype.code = integers ? 0 : 2;
  t->dtype.bits = strstr(input->dtype, "64") ? 64 : 32;
  t->dtype.lanes = 1;
  t->device.type = 1;
  t->data = calloc(count ? (size_t)count : 1, 8);
}

int main(int argc, char** argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: %s PROGRAM [SIZE,SIZE,…] …\n", argv[0]);
    return 2;
  }
  FlambeauProgram* program = flambeau_load(argv[1]);
  if (!program) return fail("flambeau_load");
  const int32_t inputs = flambeau_input_count(program), outputs = flambeau_output_count(program);
  if (argc - 2 != inputs || inputs > MOST || outputs > MOST) {
    fprintf(stderr, "the program takes %d inputs:", inputs);
    for (int32_t k = 0; k < inputs; ++k)
      fprintf(stderr, " %s (%s)", flambeau_input(program, k)->name, flambeau_input(program, k)->dtype);
    fprintf(stderr, "\n");
    return 2;
  }
  FlambeauTensor given[MOST] = {{0}}, *made[MOST];
  for (int32_t k = 0; k < inputs; ++k) zeros(&given[k], flambeau_input(program, k), argv[2 + k]);
  if (flambeau_run(program, given, inputs, made, outputs)) return fail("flambeau_run");
  for (int32_t k = 0; k < outputs; ++k) {
    int64_t count = 1;
    printf("%s [", flambeau_output_name(program, k));
    for (int32_t d = 0; d < made[k]->ndim; ++d) {
      printf(d ? ", %lld" : "%lld", (long long)made[k]->shape[d]);
      count *= made[k]->shape[d];
    }
    printf("]");
    for (int64_t n = 0; n < count && n < 4 && made[k]->dtype.code == 2 && made[k]->dtype.bits == 32; ++n)
      printf(" %.6g", ((float*)made[k]->data)[n]);
    printf("\n");
    flambeau_free(made[k]);
  }
  for (int32_t k = 0; k < inputs; ++k) {
    free(given[k].data);
    free(given[k].shape);
  }
  flambeau_unload(program);
  return 0;
}
