/** What went wrong, with the status that jcw.h has for it. */
export class JcwError extends Error {
  readonly name: "JcwError";
  /** 1 a bad argument, 2 a damaged or newer file, 3 something missing here, 4 no memory, 5 a fault of the engine. */
  readonly status: number;
}

/** What one step of a model costs. */
export interface Step {
  readonly layer: string;
  readonly kernel: string;
  /** Share of the weight groups kept. */
  readonly density: number;
  /** Multiply-accumulates on kept weights. */
  readonly macs: number;
  /** Mean time. */
  readonly seconds: number;
}

/** Channels, height and width. */
export type Shape = readonly [channels: number, height: number, width: number];

/** A network that is ready to run. It has a WebAssembly memory of its own, which goes when the model does. */
export interface Model {
  readonly inputShape: Shape;
  /** A vector has a height and a width of 1. */
  readonly outputShape: Shape;
  /**
   * Runs images one after the other.
   * @param images any number of images, channels outermost.
   * @returns as many outputs.
   * @throws JcwError when that is no whole number of images.
   */
  run(images: Float32Array): Float32Array;
  /**
   * Times each step.
   * @param image one image.
   * @param rounds runs of which the mean is taken, 20 if left out.
   */
  profile(image: Float32Array, rounds?: number): Step[];
  /** Gives the memory back within the engine; the model runs no more. */
  free(): void;
}

/**
 * Loads a model.jcw.
 * @param bytes the contents of the file.
 * @throws JcwError when it is damaged or newer than the engine.
 */
export function load(bytes: ArrayBuffer | ArrayBufferView): Promise<Model>;

/**
 * Says where the engine is, where a page or a bundler has not put jcw.wasm beside index.mjs.
 * @param source contents of jcw.wasm, or its module.
 */
export function prepare(source: BufferSource | WebAssembly.Module): Promise<void>;
