/* Runs images through a model and says where the time goes:
 *
 *     run MODEL IMAGES OUTPUTS
 *
 * IMAGES holds raw float32 images in this machine's byte order, channel after channel; OUTPUTS is written in the same form.
 */
#include <jcw.h>
#include <stdio.h>
#include <stdlib.h>

/* All floats of a file, or null. */
static float *read_floats(const char *path, size_t *count) {
  FILE *file = fopen(path, "rb");
  float *floats = NULL;
  long size = -1;
  if (!file) return NULL;
  if (fseek(file, 0, SEEK_END) == 0) size = ftell(file);
  if (size >= 0 && fseek(file, 0, SEEK_SET) == 0) floats = malloc((size_t)size + 1);
  if (floats) *count = fread(floats, sizeof *floats, (size_t)size / sizeof *floats, file);
  fclose(file);
  return floats;
}

static int write_floats(const char *path, const float *floats, size_t count) {
  FILE *file = fopen(path, "wb");
  size_t written;
  if (!file) return 0;
  written = fwrite(floats, sizeof *floats, count, file);
  return fclose(file) == 0 && written == count;
}

static size_t size_of(jcw_shape shape) {
  return (size_t)shape.channels * (size_t)shape.height * (size_t)shape.width;
}

/* Prints what each step takes. Returns 0 where jcw_error() says what went wrong. */
static int print_steps(jcw_model *model, const float *image, size_t floats) {
  size_t count = 0, i;
  jcw_step *steps;
  if (jcw_profile(model, NULL, 0, 1, NULL, 0, &count) != JCW_OK) return 0;
  steps = malloc((count + 1) * sizeof *steps);
  if (!steps) return 0;
  if (jcw_profile(model, image, floats, 10, steps, count, &count) != JCW_OK) {
    free(steps);
    return 0;
  }
  for (i = 0; i < count; ++i)
    printf("%-30s %-12s %4.2f %9.1f us\n", steps[i].layer, steps[i].kernel, steps[i].density, 1e6 * steps[i].seconds);
  free(steps);
  return 1;
}

int main(int argc, char **argv) {
  jcw_model *model = NULL;
  jcw_shape input, output;
  size_t floats = 0, outputs;
  float *images, *results;
  int done;
  if (argc != 4) {
    fprintf(stderr, "usage: run MODEL IMAGES OUTPUTS\n");
    return 2;
  }
  if (jcw_load_file(argv[1], 1, &model) != JCW_OK || jcw_shapes(model, &input, &output) != JCW_OK) {
    fprintf(stderr, "run: %s\n", jcw_error());
    return 1;
  }
  images = read_floats(argv[2], &floats);
  if (!images) {
    fprintf(stderr, "run: %s: cannot be read\n", argv[2]);
    jcw_free(model);
    return 1;
  }
  outputs = floats / size_of(input) * size_of(output);
  results = malloc((outputs + 1) * sizeof *results);
  done = results && jcw_run(model, images, floats, results, outputs) == JCW_OK &&
         print_steps(model, images, size_of(input));
  if (!done) {
    fprintf(stderr, "run: %s\n", results ? jcw_error() : "not enough memory");
  } else if (!write_floats(argv[3], results, outputs)) {
    fprintf(stderr, "run: %s: cannot be written\n", argv[3]);
    done = 0;
  }
  free(results);
  free(images);
  jcw_free(model);
  return done ? 0 : 1;
}
