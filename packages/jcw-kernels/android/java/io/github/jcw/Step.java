package io.github.jcw;

import java.nio.charset.StandardCharsets;

/** What one step of a model costs. */
public final class Step {
  private final String layer;
  private final String kernel;
  private final double density;
  private final double macs;
  private final double seconds;

  /** For native code. */
  Step(byte[] layer, byte[] kernel, double density, double macs, double seconds) {
    this.layer = new String(layer, StandardCharsets.UTF_8);
    this.kernel = new String(kernel, StandardCharsets.UTF_8);
    this.density = density;
    this.macs = macs;
    this.seconds = seconds;
  }

  public String layer() {
    return layer;
  }

  public String kernel() {
    return kernel;
  }

  /** Share of the weight groups kept. */
  public double density() {
    return density;
  }

  /** Multiply-accumulates on kept weights. */
  public double macs() {
    return macs;
  }

  /** Mean time. */
  public double seconds() {
    return seconds;
  }

  @Override
  public String toString() {
    return layer + " " + kernel + " " + 1e6 * seconds + " us";
  }
}
