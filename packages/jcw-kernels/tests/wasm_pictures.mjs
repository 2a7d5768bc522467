// Run by test_wasm_pictures.py in Node: `node wasm_pictures.mjs PACKAGE FOLDER` gives each FOLDER/N.jcw the picture N.rgba, writes
// N.raw, what becomes of it, and N.out, and prints what the files say of their images, and faults.
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [home, folder] = process.argv.slice(2);
const { load, JcwError } = await import(pathToFileURL(join(home, "index.mjs")));
const at = (name) => join(folder, name);
const written = (name, floats) => writeFileSync(at(name), new Uint8Array(floats.buffer));

const sizes = JSON.parse(readFileSync(at("sizes.json")));
const said = [];
for (const [number, [width, height]] of sizes.entries()) {
  const model = await load(readFileSync(at(`${number}.jcw`)));
  const image = model.input({ data: readFileSync(at(`${number}.rgba`)), width, height });
  written(`${number}.raw`, image);
  written(`${number}.out`, model.run(image));
  said.push(model.images);
}

async function fault(name, picture, images) {
  const model = await load(readFileSync(at(name)));
  try {
    model.input(picture, images);
    return null;
  } catch (error) {
    return error instanceof JcwError ? [error.status, error.message] : [0, String(error)];
  }
}

const picture = { data: new Uint8Array(4 * 6), width: 2, height: 3 };
console.log(JSON.stringify({
  said,
  nothing: (await load(readFileSync(at("silent.jcw")))).images,
  faults: {
    silent: await fault("silent.jcw", picture),
    told: await fault("silent.jcw", picture, { mean: [0, 0, 0], std: [1, 1, 1], resize: 9 }),
    means: await fault("silent.jcw", picture, { mean: [0], std: [1], resize: 9 }),
    bytes: await fault("0.jcw", { ...picture, width: 3 }),
    empty: await fault("0.jcw", { data: new Uint8Array(0), width: 0, height: 0 }),
    damaged: await fault("damaged.jcw", picture),
  },
}));
