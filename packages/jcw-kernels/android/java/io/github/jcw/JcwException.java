package io.github.jcw;

import java.nio.charset.StandardCharsets;

/** What went wrong, with the status that {@code jcw.h} has for it. */
public final class JcwException extends RuntimeException {
  /** A null argument, a wrong size, a setting that makes no sense, a model that was closed. */
  public static final int BAD_ARGUMENT = 1;

  /** A file that is missing, damaged, or newer than this library. */
  public static final int BAD_FILE = 2;

  /** This machine lacks the instruction set or the threads. */
  public static final int NO_DEVICE = 3;

  public static final int NO_MEMORY = 4;

  /** A fault of this library: please report it. */
  public static final int INTERNAL = 5;

  private static final long serialVersionUID = 1;

  private final int status;

  JcwException(int status, String message) {
    super(message);
    this.status = status;
  }

  /** For native code. */
  JcwException(int status, byte[] message) {
    this(status, new String(message, StandardCharsets.UTF_8));
  }

  /** One of the constants of this class. */
  public int status() {
    return status;
  }

  static <T> T required(T argument, String name) {
    if (argument == null) throw new JcwException(BAD_ARGUMENT, name + " is null");
    return argument;
  }
}
