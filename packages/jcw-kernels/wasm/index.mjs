// Runs model.jcw files in browsers and in Node. Types, and what each function promises, are in index.d.mts.
// What is called here is jcw.h, compiled to WebAssembly: addresses are numbers, a size_t and an int take four bytes.

import { BAD_ARGUMENT, BAD_FILE, INTERNAL, JcwError, NO_MEMORY } from "./error.mjs";
import { imagesOf, imagesText, inputOf } from "./images.mjs";

export { JcwError };

const WORD = 4;
const STEP = 32; // bytes of a jcw_step: two addresses, three doubles

// A function that multiplies and adds vectors in one step. What takes it for code takes jcw-relaxed.wasm.
const ONE = [0x41, 1, 0xfd, 17];
const MADD = [...ONE, ...ONE, ...ONE, 0xfd, 0x85, 2];
const PROBE = [0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 19, 1, 17, 0, ...MADD, 11];

export const relaxedSimd = () => WebAssembly.validate(Uint8Array.from(PROBE));

let engine; // a promise of the compiled module

export async function prepare(source) {
  engine = source instanceof WebAssembly.Module ? Promise.resolve(source) : WebAssembly.compile(source);
  await engine;
}

async function ownModule() {
  const url = relaxedSimd() ? new URL("./jcw-relaxed.wasm", import.meta.url) : new URL("./jcw.wasm", import.meta.url);
  if (url.protocol === "file:" && typeof process === "object") {
    const { readFile } = await import("node:fs/promises");
    return WebAssembly.compile(await readFile(url));
  }
  const answer = await fetch(url);
  if (!answer.ok) throw new JcwError(BAD_FILE, `${url}: ${answer.status} ${answer.statusText}`);
  return WebAssembly.compile(await answer.arrayBuffer());
}

export async function load(bytes) {
  const file = bytesOf(bytes);
  engine ??= ownModule();
  return new Model(await instance(await engine), file);
}

function bytesOf(data) {
  if (data instanceof ArrayBuffer) return new Uint8Array(data);
  if (ArrayBuffer.isView(data)) return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  throw new JcwError(BAD_ARGUMENT, "bytes are neither an ArrayBuffer nor a view of one");
}

// All that the module asks of its host, by the names of WASI: a clock, and an environment, which is empty.
async function instance(module) {
  const view = () => new DataView(exports.memory.buffer);
  const wasi_snapshot_preview1 = {
    clock_time_get(clock, precision, at) {
      view().setBigUint64(at, BigInt(Math.round(performance.now() * 1e6)), true);
      return 0;
    },
    environ_sizes_get(count, size) {
      view().setUint32(count, 0, true);
      view().setUint32(size, 0, true);
      return 0;
    },
    environ_get: () => 0,
    proc_exit(status) {
      throw new JcwError(INTERNAL, `the engine ended with status ${status}`);
    },
  };
  const env = { emscripten_notify_memory_growth() {} };
  const { exports } = await WebAssembly.instantiate(module, { env, wasi_snapshot_preview1 });
  exports._initialize();
  return exports;
}

const size = (shape) => shape.reduce((product, length) => product * length, 1);

class Model {
  #c; // the functions of jcw.h, with malloc and free
  #address;
  #said; // of images, as JSON
  #buffers = { images: { at: 0, floats: 0 }, outputs: { at: 0, floats: 0 } };

  constructor(exports, file) {
    this.#c = exports;
    this.#address = this.#borrow(file.length, (at) => {
      new Uint8Array(exports.memory.buffer, at, file.length).set(file);
      return this.#borrow(WORD, (found) => {
        this.#check(exports.jcw_load(at, file.length, 1, found));
        return this.#words(found, 1)[0];
      });
    });
    const shapes = this.#borrow(6 * WORD, (at) => {
      this.#check(exports.jcw_shapes(this.#address, at, at + 3 * WORD));
      return Array.from(this.#words(at, 6));
    });
    this.inputShape = Object.freeze(shapes.slice(0, 3));
    this.outputShape = Object.freeze(shapes.slice(3));
    this.#said = imagesText(file);
  }

  get images() {
    return this.#said === undefined ? null : imagesOf(this.#said);
  }

  input(picture, images = this.images) {
    return inputOf(picture, this.inputShape, images);
  }

  run(images) {
    const count = this.#count(images);
    const outputs = count * size(this.outputShape);
    const from = this.#copied(images);
    const to = this.#room("outputs", outputs);
    this.#check(this.#c.jcw_run(this.#address, from, images.length, to, outputs));
    return new Float32Array(this.#c.memory.buffer, to, outputs).slice();
  }

  profile(image, rounds = 20) {
    if (this.#count(image) !== 1) throw new JcwError(BAD_ARGUMENT, "image is not one image");
    const from = this.#copied(image);
    return this.#borrow(WORD, (count) => {
      this.#check(this.#c.jcw_profile(this.#address, 0, 0, 1, 0, 0, count));
      const steps = this.#words(count, 1)[0];
      return this.#borrow(steps * STEP, (at) => {
        this.#check(this.#c.jcw_profile(this.#address, from, image.length, rounds, at, steps, count));
        return Array.from({ length: steps }, (_, i) => this.#step(at + i * STEP));
      });
    });
  }

  free() {
    if (!this.#address) return;
    for (const buffer of Object.values(this.#buffers)) this.#c.free(buffer.at);
    this.#c.jcw_free(this.#address);
    this.#address = 0;
    this.#buffers = { images: { at: 0, floats: 0 }, outputs: { at: 0, floats: 0 } };
  }

  #check(status) {
    if (status) throw new JcwError(status, this.#text(this.#c.jcw_error()));
  }

  #count(images) {
    if (!this.#address) throw new JcwError(BAD_ARGUMENT, "the model was freed");
    if (!(images instanceof Float32Array)) throw new JcwError(BAD_ARGUMENT, "images are no Float32Array");
    const count = images.length / size(this.inputShape);
    if (Number.isInteger(count)) return count;
    throw new JcwError(
      BAD_ARGUMENT,
      `images have ${images.length} floats, expected a multiple of ${this.inputShape.join(" x ")}`,
    );
  }

  #step(at) {
    const [layer, kernel] = this.#words(at, 2);
    const [density, macs, seconds] = new Float64Array(this.#c.memory.buffer, at + 2 * WORD, 3);
    return { layer: this.#text(layer), kernel: this.#text(kernel), density, macs, seconds };
  }

  // Views are made anew each time: memory that grows leaves the old ones empty.
  #words(at, count) {
    return new Uint32Array(this.#c.memory.buffer, at, count);
  }

  #text(at) {
    const bytes = new Uint8Array(this.#c.memory.buffer);
    return new TextDecoder().decode(bytes.subarray(at, bytes.indexOf(0, at)));
  }

  #copied(floats) {
    const at = this.#room("images", floats.length);
    new Float32Array(this.#c.memory.buffer, at, floats.length).set(floats);
    return at;
  }

  // Where that many floats may lie until the next call.
  #room(name, floats) {
    const buffer = this.#buffers[name];
    if (!buffer.at || buffer.floats < floats) {
      this.#c.free(buffer.at);
      this.#buffers[name] = { at: 0, floats: 0 };
      this.#buffers[name] = { at: this.#allocated(floats * 4), floats };
    }
    return this.#buffers[name].at;
  }

  #allocated(bytes) {
    const at = this.#c.malloc(bytes + 1);
    if (!at) throw new JcwError(NO_MEMORY, `no memory for ${bytes} bytes`);
    return at >>> 0;
  }

  #borrow(bytes, use) {
    const at = this.#allocated(bytes);
    try {
      return use(at);
    } finally {
      this.#c.free(at);
    }
  }
}
