// What a model.jcw says of its images, and what becomes of a picture: that of `jcw predict-image`, to within one of 255 steps.
import { BAD_ARGUMENT, BAD_FILE, JcwError } from "./error.mjs";

// The JSON under the key `images` of a file that the engine has read; undefined where there is none.
export function imagesText(file) {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  const header = file.subarray(8, 8 + Number(view.getBigUint64(0, true)));
  return parsed(new TextDecoder().decode(header)).__metadata__?.images;
}

export function imagesOf(text) {
  const { mean, std, resize, classes } = parsed(text) ?? {};
  const lists = [mean, std, classes].every(Array.isArray);
  const channels = lists && mean.length > 0 && mean.length === std.length && [...mean, ...std].every(Number.isFinite);
  if (!channels || !std.every((value) => value > 0) || !Number.isInteger(resize) || resize < 1)
    throw new JcwError(BAD_FILE, "what the file says of its images cannot be read; export the model again");
  const images = { mean, std, resize, classes: classes.map(String) };
  for (const list of [images.mean, images.std, images.classes]) Object.freeze(list);
  return Object.freeze(images);
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new JcwError(BAD_FILE, `the file's header cannot be read (${error.message})`);
  }
}

// One image, channels outermost, of a picture's `data` (red, green, blue and opacity of each pixel), `width` and `height`.
export function inputOf(picture, [channels, height, width], images) {
  check(picture, channels, images);
  const high = Math.max(images.resize, height);
  const wide = even((width * high) / height);
  // Both sides become as long as these at least: the one that has the longer way to go sets the scale.
  const scale = wide * picture.height > high * picture.width ? [wide, picture.width] : [high, picture.height];
  const columns = taps(picture.width, even((picture.width * scale[0]) / scale[1]), width);
  const rows = taps(picture.height, even((picture.height * scale[0]) / scale[1]), height);
  const image = new Float32Array(channels * height * width);
  for (let c = 0; c < channels; ++c) {
    const mean = images.mean[c], std = images.std[c];
    const narrow = resampled(plane(picture, channels, c), picture.height, picture.width, columns);
    const bytes = resampled(transposed(narrow, picture.height, width), width, picture.height, rows);
    transposed(bytes, width, height).forEach((value, i) => {
      image[c * height * width + i] = (value / 255 - mean) / std;
    });
  }
  return image;
}

function check(picture, channels, images) {
  if (channels !== 3 && channels !== 1)
    throw new JcwError(BAD_ARGUMENT, `the model takes ${channels} channels, a picture has 3 or 1`);
  if (!images) throw new JcwError(BAD_ARGUMENT, "the file does not say how a picture becomes its input; say it as images");
  if (images.mean.length !== channels)
    throw new JcwError(BAD_ARGUMENT, `images have ${images.mean.length} means, the model takes ${channels} channels`);
  const { data, width, height } = picture;
  if (!(width > 0 && height > 0 && data.length === 4 * width * height))
    throw new JcwError(BAD_ARGUMENT, `a picture of ${width} x ${height} has ${data.length} bytes, expected 4 a pixel`);
}

// Python's round.
function even(value) {
  const rounded = Math.round(value);
  return rounded - value === 0.5 && rounded % 2 ? rounded - 1 : rounded;
}

function plane({ data }, channels, c) {
  const bytes = new Uint8ClampedArray(data.length / 4);
  for (let i = 0; i < bytes.length; ++i) {
    const [red, green, blue] = [data[4 * i], data[4 * i + 1], data[4 * i + 2]];
    bytes[i] = channels === 3 ? data[4 * i + c] : (19595 * red + 38470 * green + 7471 * blue + 32768) >> 16;
  }
  return bytes;
}

function transposed(bytes, height, width) {
  const turned = new Uint8ClampedArray(bytes.length);
  for (let y = 0; y < height; ++y) for (let x = 0; x < width; ++x) turned[x * height + y] = bytes[y * width + x];
  return turned;
}

// Of a line of `length` pixels that becomes `scaled` long, the middle `kept` pixels: where each begins to read, and its weights,
// which fall linearly with the distance. A pixel of a smaller picture reads all that it covers.
function taps(length, scaled, kept) {
  const step = length / scaled, reach = Math.max(step, 1);
  return Array.from({ length: kept }, (_, i) => {
    const centre = (i + Math.floor((scaled - kept) / 2) + 0.5) * step;
    const first = Math.max(0, Math.trunc(centre - reach + 0.5));
    const end = Math.min(length, Math.trunc(centre + reach + 0.5));
    const weights = Array.from({ length: end - first }, (_, k) => Math.max(0, 1 - Math.abs(first + k + 0.5 - centre) / reach));
    const sum = weights.reduce((total, weight) => total + weight, 0);
    return { first, weights: weights.map((weight) => weight / sum) };
  });
}

// Each row by those taps, in bytes, as between the two directions.
function resampled(bytes, height, width, columns) {
  const result = new Uint8ClampedArray(height * columns.length);
  for (let y = 0; y < height; ++y)
    columns.forEach(({ first, weights }, x) => {
      let sum = 0.5;
      for (let k = 0; k < weights.length; ++k) sum += weights[k] * bytes[y * width + first + k];
      result[y * columns.length + x] = Math.floor(sum);
    });
  return result;
}
