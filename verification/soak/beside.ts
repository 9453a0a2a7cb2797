/** Something that goes on beside the work of a run, such as the sampling of a soak. */

/**
 * Runs `side` until `work` has ended. If `side` fails, `broken` aborts so that `work` stops, and the call
 * rejects with the error of `side` once `work` has ended.
 */
export async function beside(
  side: (over: AbortSignal) => Promise<void>,
  work: (broken: AbortSignal) => Promise<void>,
): Promise<void> {
  const [over, broken] = [new AbortController(), new AbortController()];
  // Handled at once: it is awaited only after the work has ended, and Node ends a process with an
  // unhandled rejection, without running finally blocks.
  const going = side(over.signal).catch((error: unknown) => broken.abort(error));
  try {
    await work(broken.signal);
  } finally {
    over.abort();
    await going;
  }
  broken.signal.throwIfAborted();
}

/** Calls all, one after the other. A failure neither skips the rest nor hides why the run ended. */
export async function closeAll(closing: readonly (() => Promise<unknown>)[]): Promise<void> {
  for (const close of closing) {
    await close().catch((error: unknown) => console.error("what was left behind:", error));
  }
}
