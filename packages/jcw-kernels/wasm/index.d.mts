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

/** How a picture becomes a model's input: it is resized, its middle is cut out, then (pixel / 255 - mean) / std. */
export interface Images {
  /** For each channel, of pixels in [0, 1]; all 0, and `std` all 1/255, where the model normalises pixels itself. */
  readonly mean: readonly number[];
  readonly std: readonly number[];
  /** Height after resizing, of which the middle is cut as high as the model's input; of a square, the short side. */
  readonly resize: number;
  /** Names, in the order of the outputs; there may be none. */
  readonly classes: readonly string[];
}

/** A picture such as `ImageData`: red, green, blue and opacity of each pixel, in rows. */
export interface Picture {
  readonly data: Uint8ClampedArray | Uint8Array;
  readonly width: number;
  readonly height: number;
}

/** A network that is ready to run. It has a WebAssembly memory of its own, which goes when the model does. */
export interface Model {
  readonly inputShape: Shape;
  /** A vector has a height and a width of 1. */
  readonly outputShape: Shape;
  /**
   * What the file says of its images, null where it says nothing.
   * @throws JcwError where that cannot be read.
   */
  readonly images: Images | null;
  /**
   * Makes of a picture what `jcw predict-image` makes of it.
   * @param images how, where the file does not say it.
   * @returns one image for `run`.
   * @throws JcwError where neither says how, or the model takes no pictures.
   */
  input(picture: Picture, images?: Pick<Images, "mean" | "std" | "resize"> | null): Float32Array;
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

/** Whether `load` takes jcw-relaxed.wasm, which multiplies and adds in one step: the host has WebAssembly's relaxed SIMD. */
export function relaxedSimd(): boolean;

/**
 * Says where the engine is, where a page or a bundler has not put jcw.wasm and jcw-relaxed.wasm beside index.mjs.
 * @param source contents of one of them, or its module.
 */
export function prepare(source: BufferSource | WebAssembly.Module): Promise<void>;
