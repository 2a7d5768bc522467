package io.github.jcw;

import static io.github.jcw.JcwException.BAD_ARGUMENT;
import static io.github.jcw.JcwException.required;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;

/**
 * A network that is ready to run, from a {@code model.jcw}.
 *
 * <p>All that goes wrong is a {@link JcwException}. Threads that share a model take turns; different models run at once.
 * {@link #close} gives the memory back at once; that of a model which nobody closed is freed when a later one is loaded.
 */
public final class Model implements AutoCloseable {
  private final Handle handle;
  private final int[] input;
  private final int[] output;

  private Model(long address) {
    handle = new Handle(this, address);
    int[] shapes = Native.shapes(address);
    input = Arrays.copyOfRange(shapes, 0, 3);
    output = Arrays.copyOfRange(shapes, 3, 6);
  }

  /**
   * Loads the bytes of a file, which may change afterwards.
   *
   * @param threads that run the model, 1 to 256
   */
  public static Model load(byte[] file, int threads) {
    Handle.freeLost();
    return new Model(Native.load(required(file, "file"), threads));
  }

  /** Loads the bytes from position to limit, which both stay; those of a direct or mapped buffer are not copied. */
  public static Model load(ByteBuffer file, int threads) {
    ByteBuffer bytes = required(file, "file").duplicate();
    if (bytes.isDirect()) {
      Handle.freeLost();
      return new Model(Native.loadDirect(bytes, bytes.position(), bytes.remaining(), threads));
    }
    byte[] copy = new byte[bytes.remaining()];
    bytes.get(copy);
    return load(copy, threads);
  }

  /** Loads a file by its path. */
  public static Model loadFile(String path, int threads) {
    if (required(path, "path").indexOf('\0') >= 0) throw new JcwException(BAD_ARGUMENT, "path has a zero character");
    Handle.freeLost();
    return new Model(Native.loadFile((path + '\0').getBytes(StandardCharsets.UTF_8), threads));
  }

  /** Version of the library, such as "0.1.0". */
  public static String version() {
    return new String(Native.version(), StandardCharsets.UTF_8);
  }

  /** Channels, height and width of an image. */
  public int[] inputShape() {
    return input.clone();
  }

  /** The same of what comes out for it. Vectors have a height and a width of 1. */
  public int[] outputShape() {
    return output.clone();
  }

  /**
   * Runs images one after the other.
   *
   * @param images any number of images, channels outermost
   * @return as many outputs
   */
  public float[] run(float[] images) {
    long floats = images(required(images, "images").length) * size(output);
    if (floats > Integer.MAX_VALUE) throw new JcwException(BAD_ARGUMENT, "outputs are more than an array holds");
    float[] outputs = new float[(int) floats];
    synchronized (handle) {
      Native.run(handle.address(), images, outputs);
    }
    return outputs;
  }

  /**
   * The same without a copy, from position to limit, which stay.
   *
   * @param images a direct buffer of this machine's byte order
   * @param outputs another one, with room for as many outputs as there are images and no more
   */
  public void run(FloatBuffer images, FloatBuffer outputs) {
    FloatBuffer from = direct(images, "images");
    FloatBuffer to = direct(outputs, "outputs");
    if (to.isReadOnly()) throw new JcwException(BAD_ARGUMENT, "outputs are read-only");
    long floats = images(from.remaining()) * size(output);
    if (to.remaining() != floats)
      throw new JcwException(BAD_ARGUMENT, "outputs have " + to.remaining() + " floats, expected " + floats);
    synchronized (handle) {
      Native.runDirect(
          handle.address(), from, from.position(), from.remaining(), to, to.position(), to.remaining());
    }
  }

  /**
   * Times each step, in the order in which they run.
   *
   * @param image one image
   * @param rounds runs of which the mean is taken, 1 to 1,000,000
   */
  public List<Step> profile(float[] image, int rounds) {
    if (images(required(image, "image").length) != 1) throw new JcwException(BAD_ARGUMENT, "image is not one image");
    synchronized (handle) {
      return Collections.unmodifiableList(Arrays.asList(Native.profile(handle.address(), image, rounds)));
    }
  }

  /** Frees the memory. The model runs no more; to close it again does nothing. */
  @Override
  public void close() {
    handle.free();
  }

  /** How many images that many floats are. */
  private long images(int floats) {
    if (floats % size(input) == 0) return floats / size(input);
    throw new JcwException(
        BAD_ARGUMENT,
        "images have " + floats + " floats, expected a multiple of "
            + input[0] + " x " + input[1] + " x " + input[2]);
  }

  private static long size(int[] shape) {
    return (long) shape[0] * shape[1] * shape[2];
  }

  /** A view of a buffer whose position and limit nobody else changes. */
  private static FloatBuffer direct(FloatBuffer buffer, String name) {
    FloatBuffer view = required(buffer, name).duplicate();
    if (!view.isDirect()) throw new JcwException(BAD_ARGUMENT, name + " are not in a direct buffer");
    if (view.order() != ByteOrder.nativeOrder())
      throw new JcwException(BAD_ARGUMENT, name + " are in " + view.order() + ", expected ByteOrder.nativeOrder()");
    return view;
  }
}
