/* JCW: runs pruned convolutional networks from model.jcw files.
 *
 * Every function returns a jcw_status and never ends the process; what went wrong is one line of jcw_error(). A model is used
 * by one thread at a time, whichever it is; different models may be used by different threads at once.
 * What a file says of its images, such as names of classes, is in its header: docs/files.md.
 * The environment variable JCW_ISA forces an instruction set, which otherwise is the best that the processor has.
 */
#ifndef JCW_H
#define JCW_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define JCW_API __attribute__((visibility("default")))
#else
#define JCW_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum jcw_status {
  JCW_OK = 0,
  JCW_BAD_ARGUMENT = 1, /* a null pointer, a wrong size, a setting that makes no sense */
  JCW_BAD_FILE = 2,     /* a file that is missing, damaged, or newer than this library */
  JCW_NO_DEVICE = 3,    /* this machine lacks the instruction set or the threads */
  JCW_NO_MEMORY = 4,
  JCW_INTERNAL = 5      /* a fault of this library: please report it */
} jcw_status;

/* A network that is ready to run. */
typedef struct jcw_model jcw_model;

/* Sizes of one image and of what comes out for it. Vectors have a height and a width of 1. */
typedef struct jcw_shape {
  int32_t channels, height, width;
} jcw_shape;

/* What one step of a model costs; the texts live as long as the model. */
typedef struct jcw_step {
  const char *layer;
  const char *kernel;
  double density; /* share of the weight groups kept */
  double macs;    /* multiply-accumulates on kept weights */
  double seconds; /* mean time */
} jcw_step;

/* Loads the `size` bytes of a model.jcw, which need not outlive the call, to run in `threads` threads, 1 to 256. On success
 * *model is to be given to jcw_free; otherwise it is null. */
JCW_API jcw_status jcw_load(const void *bytes, size_t size, int threads, jcw_model **model);

/* The same for a file. */
JCW_API jcw_status jcw_load_file(const char *path, int threads, jcw_model **model);

/* Writes the shapes of one input and one output. */
JCW_API jcw_status jcw_shapes(const jcw_model *model, jcw_shape *input, jcw_shape *output);

/* Runs images one after the other, each channels x height x width floats, channels outermost. The counts are of floats:
 * `image_floats` a multiple of the input's size, and `output_floats` as many outputs as there are images. */
JCW_API jcw_status jcw_run(jcw_model *model, const float *images, size_t image_floats, float *outputs,
                           size_t output_floats);

/* Times each step on one image, in the mean of `rounds` runs, 1 to 1,000,000. Writes the first `capacity` steps, in the order
 * in which they run, and how many there are to *count. With a capacity of 0 nothing is timed, and `image` and `steps` may be
 * null. */
JCW_API jcw_status jcw_profile(jcw_model *model, const float *image, size_t image_floats, int rounds, jcw_step *steps,
                               size_t capacity, size_t *count);

/* What went wrong in the last call of this thread that failed: one line of ASCII, "" before any. It is overwritten by the next
 * that fails. */
JCW_API const char *jcw_error(void);

/* Frees a model; null is none. */
JCW_API void jcw_free(jcw_model *model);

/* Version of the library, such as "0.1.0". */
JCW_API const char *jcw_version(void);

#ifdef __cplusplus
}
#endif

#endif
