// Ctrl-C of a long run: the first ends it in good order, with its report. The second ends the process at
// once, by its own hand: what it has mounted or started goes with it only in hooks of its exit.

/** As shells answer for a command that SIGINT has ended. */
export const INTERRUPTED = 130;

/** What npm passes on is the same Ctrl-C that the terminal has sent already. */
const SAME_MS = 500;

/** @returns {AbortSignal} aborts with the first SIGINT or SIGTERM */
export function interruption() {
  const ending = new AbortController();
  let firstMs = 0;
  const onSignal = () => {
    const nowMs = performance.now();
    if (!ending.signal.aborted) {
      firstMs = nowMs;
      ending.abort();
    } else if (nowMs - firstMs >= SAME_MS) process.exit(INTERRUPTED);
  };
  for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, onSignal);
  return ending.signal;
}
