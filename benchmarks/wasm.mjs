// Times models by turns, in Node or a browser. wasm.py starts it in Node as
//   node wasm.mjs JCW_PACKAGE ONNXRUNTIME_WEB IMAGE ROUNDS VISIT_MS MODEL...
// where MODEL is a .jcw or .onnx file, IMAGE raw float32, ONNXRUNTIME_WEB the folder of that package. Prints one object of JSON:
// milliseconds of one image, (rounds, models), and what each model makes of the image. In a browser browser.py's page calls it.

// `load` and `ort` are the two packages, `models` objects with `bytes` and whether they are `ours`; `clock` counts milliseconds.
export async function measure({ load, ort, image, models, rounds, visitMs, clock }) {
  ort.env.wasm.numThreads = 1;

  async function ours(bytes) {
    const model = await load(bytes);
    return { run: async () => model.run(image) };
  }

  async function theirs(bytes) {
    const session = await ort.InferenceSession.create(bytes, { executionProviders: ["wasm"] });
    const [name] = session.inputNames;
    const side = Math.sqrt(image.length / 3);
    const input = new ort.Tensor("float32", image, [1, 3, side, side]);
    return { run: async () => (await session.run({ [name]: input }))[session.outputNames[0]].data };
  }

  async function visit(model) {
    let runs = 0;
    const start = clock();
    do {
      await model.run();
      ++runs;
    } while (clock() - start < visitMs);
    return (clock() - start) / runs;
  }

  const loaded = [];
  for (const model of models) loaded.push(await (model.ours ? ours : theirs)(model.bytes));
  const outputs = [];
  for (const model of loaded) {
    outputs.push(Array.from(await model.run()));
    await visit(model); // V8 replaces its quick code by better one
  }
  const ms = [];
  for (let round = 0; round < rounds; ++round) {
    const row = [];
    for (const model of loaded) row.push(await visit(model));
    ms.push(row);
  }
  return { onnxruntime_web: ort.env.versions.web, ms, outputs };
}

async function inNode([jcwHome, ortHome, imagePath, rounds, visitMs, ...paths]) {
  const { readFile } = await import("node:fs/promises");
  const { join } = await import("node:path");
  const { pathToFileURL } = await import("node:url");
  const bytes = await readFile(imagePath);
  const models = [];
  for (const path of paths) models.push({ bytes: await readFile(path), ours: path.endsWith(".jcw") });
  const found = await measure({
    load: (await import(pathToFileURL(join(jcwHome, "index.mjs")))).load,
    ort: await import(pathToFileURL(join(ortHome, "dist", "ort.node.min.mjs"))),
    image: new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length)),
    models,
    rounds: Number(rounds),
    visitMs: Number(visitMs),
    // Time of this process on the processor, which is what other processes on the machine do not take from it.
    clock() {
      const { user, system } = process.cpuUsage();
      return (user + system) / 1e3;
    },
  });
  console.log(JSON.stringify({ host: `Node ${process.version}`, ...found }));
}

if (typeof process === "object") await inNode(process.argv.slice(2));
