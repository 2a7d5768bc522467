package io.github.jcw;

import java.lang.ref.PhantomReference;
import java.lang.ref.ReferenceQueue;
import java.util.Collections;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/**
 * The address of a model in native memory, which outlives a {@link Model} that nobody closed: the next one that is made frees
 * it. {@code java.lang.ref.Cleaner} would need Android 13 and a thread.
 *
 * <p>Calls with the address hold the lock of their handle, so that nothing is freed under them.
 */
final class Handle extends PhantomReference<Model> {
  private static final ReferenceQueue<Model> LOST = new ReferenceQueue<>();
  private static final Set<Handle> OPEN = Collections.newSetFromMap(new ConcurrentHashMap<>());

  private long address;

  Handle(Model model, long address) {
    super(model, LOST);
    this.address = address;
    OPEN.add(this);
  }

  static void freeLost() {
    for (Object lost = LOST.poll(); lost != null; lost = LOST.poll()) ((Handle) lost).free();
  }

  long address() {
    if (address == 0) throw new JcwException(JcwException.BAD_ARGUMENT, "the model was closed");
    return address;
  }

  synchronized void free() {
    OPEN.remove(this);
    Native.free(address);
    address = 0;
  }
}
