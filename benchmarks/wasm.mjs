// Times models in this process, by turns. Started by wasm.py as
//   node wasm.mjs JCW_PACKAGE ONNXRUNTIME_WEB IMAGE ROUNDS VISIT_MS MODEL...
// where MODEL is a .jcw or .onnx file, IMAGE raw float32, ONNXRUNTIME_WEB the folder of that package. Prints one object of JSON:
// milliseconds on the processor of one image, (rounds, models), and what each model makes of the image.
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [jcwHome, ortHome, imagePath, rounds, visitMs, ...paths] = process.argv.slice(2);
const bytes = await readFile(imagePath);
const image = new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));

const { load } = await import(pathToFileURL(join(jcwHome, "index.mjs")));
const ort = await import(pathToFileURL(join(ortHome, "dist", "ort.node.min.mjs")));
ort.env.wasm.numThreads = 1;

async function ours(path) {
  const model = await load(await readFile(path));
  return { run: async () => model.run(image) };
}

async function theirs(path) {
  const session = await ort.InferenceSession.create(await readFile(path), { executionProviders: ["wasm"] });
  const [name] = session.inputNames;
  const side = Math.sqrt(image.length / 3);
  const input = new ort.Tensor("float32", image, [1, 3, side, side]);
  return { run: async () => (await session.run({ [name]: input }))[session.outputNames[0]].data };
}

// Time of this process on the processor, which is what other processes on the machine do not take from it.
const busyMs = () => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e3;
};

async function visit(model) {
  let runs = 0;
  const start = busyMs();
  do {
    await model.run();
    ++runs;
  } while (busyMs() - start < Number(visitMs));
  return (busyMs() - start) / runs;
}

const models = [];
for (const path of paths) models.push(await (path.endsWith(".jcw") ? ours : theirs)(path));
const outputs = [];
for (const model of models) {
  outputs.push(Array.from(await model.run()));
  await visit(model); // V8 replaces its quick code by better one
}
const ms = [];
for (let round = 0; round < Number(rounds); ++round) {
  const row = [];
  for (const model of models) row.push(await visit(model));
  ms.push(row);
}
console.log(JSON.stringify({ node: process.version, onnxruntime_web: ort.env.versions.web, ms, outputs }));
