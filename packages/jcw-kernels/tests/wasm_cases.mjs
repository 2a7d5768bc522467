// Run by test_wasm.py in Node: `node wasm_cases.mjs PACKAGE FOLDER MODULE` runs FOLDER/N.jcw on N.raw for all N, by the package's
// jcw.wasm or another MODULE, writes N.out, and prints as JSON what damaged input is answered with.
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [home, folder, module] = process.argv.slice(2);
const jcw = await import(pathToFileURL(join(home, "index.mjs")));
await jcw.prepare(readFileSync(join(home, module)));

const floats = (path) => {
  const bytes = readFileSync(path);
  return new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
};

for (const name of readdirSync(folder).filter((name) => name.endsWith(".jcw"))) {
  const model = await jcw.load(readFileSync(join(folder, name)));
  const image = floats(join(folder, name.replace(".jcw", ".raw")));
  const first = model.run(image);
  const twice = new Float32Array(2 * image.length);
  twice.set(image);
  twice.set(image, image.length);
  const both = model.run(twice); // memory may move here
  const again = Array.from(both.slice(first.length));
  if (again.some((value, i) => !Object.is(value, first[i]))) throw new Error(`${name}: two images differ from one`);
  writeFileSync(join(folder, name.replace(".jcw", ".out")), new Uint8Array(first.buffer));
  model.free();
}

const file = readFileSync(join(folder, "0.jcw"));
const model = await jcw.load(file);
const image = new Float32Array(floats(join(folder, "0.raw")).length);
const freed = await jcw.load(file);
freed.free();
freed.free();
const fault = async (attempt) => {
  try {
    await attempt();
    return null;
  } catch (error) {
    return error instanceof jcw.JcwError ? [error.status, error.message] : [0, String(error)];
  }
};

// Of every version and of some programs: what has no checksum is read further.
const refused = [];
const intact = readdirSync(folder).filter((name) => /^(model-.*|[0-5])\.jcw$/.test(name)).map((name) => readFileSync(join(folder, name)));
let state = 1;
const random = (below) => {
  state ^= state << 13;
  state ^= state >>> 17;
  state ^= state << 5;
  return (state >>> 0) % below;
};
for (let i = 0; i < 300; ++i) {
  const damaged = new Uint8Array(intact[i % intact.length]);
  damaged[random(damaged.length)] ^= 1 + random(255);
  refused.push(await fault(async () => (await jcw.load(damaged)).free()));
}

console.log(JSON.stringify({
  exports: Object.keys(jcw),
  shapes: [model.inputShape, model.outputShape],
  steps: model.profile(image, 2),
  faults: {
    truncated: await fault(() => jcw.load(file.subarray(0, -1))),
    empty: await fault(() => jcw.load(new ArrayBuffer(0))),
    none: await fault(() => jcw.load(undefined)),
    text: await fault(() => jcw.load("model.jcw")),
    size: await fault(() => model.run(new Float32Array(image.length + 1))),
    array: await fault(() => model.run(Array.from(image))),
    two: await fault(() => model.profile(new Float32Array(2 * image.length))),
    rounds: await fault(() => model.profile(image, 0)),
    freed: await fault(() => freed.run(image)),
  },
  refused,
  nothing: model.run(new Float32Array(0)).length,
}));
