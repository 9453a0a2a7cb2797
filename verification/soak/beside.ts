/** Something that goes on beside the work of a run, such as the sampling of a soak. */

/**
 * `side` goes on until `work` has ended. When it fails, `work` is told to stop, and this rejects with its
 * error once that has ended.
 */
export async function beside(
  side: (over: AbortSignal) => Promise<void>,
  work: (broken: AbortSignal) => Promise<void>,
): Promise<void> {
  const [over, broken] = [new AbortController(), new AbortController()];
  // Heard at once: nobody waits for it before the work has ended, and Node ends a process in which a
  // rejection stays unheard, without its finally blocks.
  const going = side(over.signal).catch((error: unknown) => broken.abort(error));
  try {
    await work(broken.signal);
  } finally {
    over.abort();
    await going;
  }
  broken.signal.throwIfAborted();
}

/** One after the other; one that fails does not keep the next from its turn, nor hide why the run ended. */
export async function closeAll(closing: readonly (() => Promise<unknown>)[]): Promise<void> {
  for (const close of closing) {
    await close().catch((error: unknown) => console.error("what was left behind:", error));
  }
}
