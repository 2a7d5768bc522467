package io.github.jcw;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/**
 * Run by test_android.py on a JVM: {@code AndroidCases CASE PATH...}. It is of the package, so that it can give natives what
 * {@link Model} lets nobody give them.
 */
final class AndroidCases {
  interface Attempt {
    void run() throws Exception;
  }

  public static void main(String[] words) throws Exception {
    Path path = Path.of(words[1]);
    switch (words[0]) {
      case "outputs" -> outputs(path);
      case "steps" -> steps(path);
      case "faults" -> faults(path);
      case "natives" -> natives(path);
      case "damage" -> damage(path);
      case "threads" -> threads(path);
      case "memory" -> memory(path, words[2].equals("closed"));
      default -> throw new IllegalArgumentException(words[0]);
    }
  }

  static List<Path> models(Path folder) throws IOException {
    try (var files = Files.list(folder)) {
      return files.filter(path -> path.toString().endsWith(".jcw")).sorted().toList();
    }
  }

  static Path beside(Path model, String suffix) {
    return model.resolveSibling(model.getFileName().toString().replace(".jcw", suffix));
  }

  static void check(boolean holds, String what) {
    if (!holds) throw new AssertionError(what);
  }

  /** A direct buffer whose limits lie around the bytes, with room on both sides. */
  static ByteBuffer direct(byte[] bytes, int before, int after) {
    ByteBuffer buffer = ByteBuffer.allocateDirect(before + bytes.length + after);
    buffer.position(before).limit(before + bytes.length);
    buffer.duplicate().put(bytes);
    return buffer;
  }

  static FloatBuffer floats(ByteBuffer buffer) {
    return buffer.order(ByteOrder.nativeOrder()).asFloatBuffer();
  }

  static FloatBuffer directFloats(int count) {
    return floats(direct(new byte[4 * count], 0, 0));
  }

  static float[] floats(Path path) throws IOException {
    FloatBuffer buffer = floats(ByteBuffer.wrap(Files.readAllBytes(path)));
    float[] floats = new float[buffer.remaining()];
    buffer.get(floats);
    return floats;
  }

  static byte[] bytes(float[] floats) {
    ByteBuffer buffer = ByteBuffer.allocate(4 * floats.length);
    floats(buffer).put(floats);
    return buffer.array();
  }

  static int size(int[] shape) {
    return shape[0] * shape[1] * shape[2];
  }

  /** Runs FOLDER/N.jcw on N.raw in every way there is, and writes N.out. */
  static void outputs(Path folder) throws IOException {
    for (Path path : models(folder)) {
      byte[] file = Files.readAllBytes(path);
      byte[] padded = Arrays.copyOf(file, file.length + 9);
      float[] images = floats(beside(path, ".raw"));
      List<Model> loaded = List.of(
          Model.load(file, 1),
          Model.load(ByteBuffer.wrap(padded, 0, file.length), 2),
          Model.load(direct(file, 3, 5), 3),
          Model.loadFile(path.toString(), 1));
      byte[] want = bytes(loaded.get(0).run(images));
      for (Model model : loaded) {
        check(Arrays.equals(bytes(model.run(images)), want), path + ": two models differ");
        check(Arrays.equals(bytes(directly(model, images)), want), path + ": buffers differ from arrays");
        model.close();
      }
      Files.write(beside(path, ".out"), want);
    }
  }

  /** Runs images in the middle of one direct buffer into the middle of another, around which nothing may change. */
  static float[] directly(Model model, float[] images) {
    int count = images.length / size(model.inputShape()) * size(model.outputShape());
    FloatBuffer from = floats(direct(bytes(images), 8, 4).asReadOnlyBuffer());
    FloatBuffer to = directFloats(count + 7);
    for (int i = 0; i < to.capacity(); ++i) to.put(i, Float.NaN);
    to.position(3).limit(3 + count);
    model.run(from, to);
    check(from.position() == 0 && to.position() == 3 && to.limit() == 3 + count, "positions and limits stay");
    float[] got = new float[count];
    to.get(got);
    to.clear();
    for (int i = 0; i < 7; ++i) check(Float.isNaN(to.get(i < 3 ? i : count + i)), "nothing is written beside outputs");
    return got;
  }

  static void steps(Path path) {
    try (Model model = Model.loadFile(path.toString(), 1)) {
      int[] input = model.inputShape();
      System.out.println(Model.version());
      System.out.println(Arrays.toString(input) + Arrays.toString(model.outputShape()));
      for (Step step : model.profile(new float[size(input)], 2))
        System.out.printf(
            "%s\t%s\t%s\t%s\t%s%n", step.layer(), step.kernel(), step.density(), step.macs(), step.seconds());
    }
  }

  /** Prints the status and the message that a fault is answered with. */
  static void attempt(String name, Attempt attempt) throws Exception {
    try {
      attempt.run();
      System.out.println(name + "\t0\t");
    } catch (JcwException failure) {
      System.out.println(name + "\t" + failure.status() + "\t" + failure.getMessage());
    }
  }

  static void faults(Path path) throws Exception {
    byte[] file = Files.readAllBytes(path);
    byte[] cut = Arrays.copyOf(file, file.length - 1);
    Model model = Model.load(file, 1);
    float[] image = new float[size(model.inputShape())];
    float[] want = model.run(image);
    FloatBuffer from = directFloats(image.length);
    FloatBuffer to = directFloats(want.length);

    attempt("truncated", () -> Model.load(cut, 1));
    attempt("truncated buffer", () -> Model.load(direct(cut, 0, 1), 1));
    attempt("empty", () -> Model.load(new byte[0], 1));
    attempt("empty buffer", () -> Model.load(ByteBuffer.allocateDirect(0), 1));
    attempt("odd path", () -> Model.loadFile(path.getParent() + "/\u00e9\ud83d\ude00.jcw", 1).close());
    attempt("absent", () -> Model.loadFile("/none/\u00e9\ud83d\ude00.jcw", 1));
    attempt("long path", () -> Model.loadFile("x" + "\u00e9".repeat(700), 1));
    attempt("zero in path", () -> Model.loadFile(path + "\0", 1));
    attempt("threads", () -> Model.load(file, 0));
    attempt("threads of buffer", () -> Model.load(direct(file, 0, 0), 257));
    attempt("threads of file", () -> Model.loadFile(path.toString(), -1));
    attempt("null file", () -> Model.load((byte[]) null, 1));
    attempt("null buffer", () -> Model.load((ByteBuffer) null, 1));
    attempt("null path", () -> Model.loadFile(null, 1));
    attempt("null images", () -> model.run(null));
    attempt("null image", () -> model.profile(null, 1));
    attempt("null from", () -> model.run(null, to));
    attempt("null to", () -> model.run(from, null));
    attempt("size", () -> model.run(new float[image.length + 1]));
    attempt("size of buffer", () -> model.run(directFloats(image.length - 1), to));
    attempt("two images", () -> model.profile(new float[2 * image.length], 1));
    attempt("no image", () -> model.profile(new float[0], 1));
    attempt("rounds", () -> model.profile(image, 0));
    attempt("more outputs", () -> model.run(from, directFloats(2 * want.length)));
    attempt("no outputs", () -> model.run(from, directFloats(0)));
    attempt("read-only", () -> model.run(from, to.asReadOnlyBuffer()));
    attempt("heap images", () -> model.run(FloatBuffer.wrap(image), to));
    attempt("heap outputs", () -> model.run(from, FloatBuffer.wrap(want)));
    attempt("byte order", () -> model.run(direct(bytes(image), 0, 0).asFloatBuffer(), to));
    attempt("alignment", () -> model.run(floats(direct(bytes(image), 1, 0).slice()), to));
    attempt("nothing", () -> check(model.run(new float[0]).length == 0, "no outputs for no images"));
    attempt("nothing in buffers", () -> model.run(directFloats(0), directFloats(0)));
    attempt("still right", () -> check(Arrays.equals(model.run(image), want), "the model works after faults"));
    model.close();
    model.close();
    attempt("closed", () -> model.run(image));
    attempt("closed buffers", () -> model.run(from, to));
    attempt("closed profile", () -> model.profile(image, 1));
  }

  /** What only code of the package could do. */
  static void natives(Path path) throws Exception {
    byte[] file = Files.readAllBytes(path);
    long model = Native.load(file, 1);
    int[] shapes = Native.shapes(model);
    float[] image = new float[shapes[0] * shapes[1] * shapes[2]];
    float[] outputs = new float[shapes[3]];
    ByteBuffer buffer = direct(file, 0, 0);
    FloatBuffer from = directFloats(image.length);
    FloatBuffer to = directFloats(outputs.length);
    int most = Integer.MAX_VALUE;

    attempt("load", () -> Native.load(null, 1));
    attempt("loadFile", () -> Native.loadFile(null, 1));
    attempt("unended path", () -> Native.loadFile("x".getBytes(), 1));
    attempt("empty path", () -> Native.loadFile(new byte[0], 1));
    attempt("loadDirect", () -> Native.loadDirect(null, 0, 0, 1));
    attempt("heap", () -> Native.loadDirect(ByteBuffer.wrap(file), 0, file.length, 1));
    for (int[] range : new int[][] {{-1, 1}, {0, -1}, {0, file.length + 1}, {1, file.length}, {most, most}, {-most, most}})
      attempt("range", () -> Native.loadDirect(buffer, range[0], range[1], 1));
    attempt("shapes", () -> Native.shapes(0));
    attempt("run", () -> Native.run(0, image, outputs));
    attempt("no images", () -> Native.run(model, null, outputs));
    attempt("no outputs", () -> Native.run(model, image, null));
    attempt("neither", () -> Native.run(model, null, null));
    attempt("runDirect", () -> Native.runDirect(0, from, 0, image.length, to, 0, outputs.length));
    attempt("direct images", () -> Native.runDirect(model, null, 0, image.length, to, 0, outputs.length));
    attempt("direct outputs", () -> Native.runDirect(model, from, 0, image.length, null, 0, outputs.length));
    attempt("past images", () -> Native.runDirect(model, from, 1, image.length, to, 0, outputs.length));
    attempt("past outputs", () -> Native.runDirect(model, from, 0, image.length, to, 1, outputs.length));
    attempt("profile", () -> Native.profile(0, image, 1));
    attempt("profile nothing", () -> Native.profile(model, null, 1));
    attempt("free", () -> Native.free(0));
    attempt("still right", () -> Native.run(model, image, outputs));
    Native.free(model);
  }

  /** Prints how often which status refused files in which one byte is another. */
  static void damage(Path folder) throws IOException {
    List<Path> models = models(folder);
    Random random = new Random(0);
    int[] answers = new int[6];
    for (int i = 0; i < 600; ++i) {
      byte[] file = Files.readAllBytes(models.get(i % models.size()));
      file[random.nextInt(file.length)] ^= (byte) (1 + random.nextInt(255));
      try (Model model = Model.load(file, 1)) {
        if (size(model.inputShape()) < 1 << 20) model.run(new float[size(model.inputShape())]);
        ++answers[0];
      } catch (JcwException failure) {
        ++answers[failure.status()];
      }
    }
    System.out.println(Arrays.toString(answers));
  }

  static void threads(Path folder) throws Exception {
    ExecutorService pool = Executors.newFixedThreadPool(4);
    List<Callable<Void>> tasks = new ArrayList<>();
    for (Path path : models(folder)) tasks.add(() -> alone(path));
    for (Path path : models(folder)) tasks.addAll(sharing(path));
    for (Future<Void> done : pool.invokeAll(tasks)) done.get();
    pool.shutdown();
  }

  static Void alone(Path path) throws IOException {
    float[] images = floats(beside(path, ".raw"));
    float[] want = floats(beside(path, ".out"));
    for (int i = 0; i < 20; ++i)
      try (Model model = Model.loadFile(path.toString(), 1 + i % 2)) {
        for (int run = 0; run < 10; ++run) check(Arrays.equals(model.run(images), want), path + " beside others");
      }
    return null;
  }

  /** Three that share a model, which one of them closes while the others run it. */
  static List<Callable<Void>> sharing(Path path) throws IOException {
    float[] images = floats(beside(path, ".raw"));
    float[] want = floats(beside(path, ".out"));
    Model model = Model.loadFile(path.toString(), 2);
    Callable<Void> use = () -> {
      try {
        for (int run = 0; run < 100; ++run) check(Arrays.equals(model.run(images), want), path + " shared");
      } catch (JcwException failure) {
        check(failure.getMessage().equals("the model was closed"), failure.getMessage());
      }
      return null;
    };
    Callable<Void> end = () -> {
      Thread.sleep(5);
      model.close();
      return null;
    };
    return List.of(use, use, end);
  }

  /** Prints by how many bytes a thousand loads make the process grow. */
  static void memory(Path path, boolean close) throws Exception {
    byte[] file = Files.readAllBytes(path);
    loads(200, file, close);
    long before = resident();
    loads(1000, file, close);
    System.out.println(resident() - before);
  }

  static void loads(int times, byte[] file, boolean close) throws InterruptedException {
    for (int i = 0; i < times; ++i) {
      Model model = Model.load(file, 1);
      model.run(new float[size(model.inputShape())]);
      if (close) model.close();
      else if (i % 50 == 49) {
        System.gc();
        Thread.sleep(20); // until what was found unreachable stands in the queue
      }
    }
  }

  static long resident() throws IOException {
    return 4096 * Long.parseLong(Files.readString(Path.of("/proc/self/statm")).split(" ")[1]);
  }
}
