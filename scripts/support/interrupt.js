// Ctrl-C of a long run: the first ends it in good order, with its report. The second ends the process at
// once, by its own hand: what it has mounted or started goes with it only in hooks of its exit.

/** As shells answer for a command that SIGINT has ended. */
export const INTERRUPTED = 130;

/** @returns {AbortSignal} aborts with the first SIGINT or SIGTERM */
export function interruption() {
  const ending = new AbortController();
  const told = () => {
    if (ending.signal.aborted) process.exit(INTERRUPTED);
    ending.abort();
  };
  for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, told);
  return ending.signal;
}
