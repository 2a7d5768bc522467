package io.github.jcw;

import java.nio.ByteBuffer;
import java.nio.FloatBuffer;

/** The functions of {@code jcw.h}, behind {@code jni.cpp}. A model is its address; each throws {@link JcwException}. */
final class Native {
  static {
    System.loadLibrary("jcw_jni");
  }

  private Native() {}

  static native long load(byte[] file, int threads);

  /** The bytes of a direct buffer from a position on. */
  static native long loadDirect(ByteBuffer file, int position, int bytes, int threads);

  /** A path ends in a zero byte. */
  static native long loadFile(byte[] path, int threads);

  /** Channels, height and width of the input, then of the output. */
  static native int[] shapes(long model);

  static native void run(long model, float[] images, float[] outputs);

  /** Floats of direct buffers of this machine's byte order, from their positions on. */
  static native void runDirect(
      long model, FloatBuffer images, int position, int floats, FloatBuffer outputs, int outputPosition, int outputFloats);

  static native Step[] profile(long model, float[] image, int rounds);

  static native void free(long model);

  static native byte[] version();
}
