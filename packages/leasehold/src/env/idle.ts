interface Host {
  getActiveResourcesInfo?(): string[];
}

/**
 * Whether a single timer is all that keeps this process alive: no socket, server, file, child process or
 * further timer. False where the runtime does not tell. Node lists a terminal whether or not the program
 * reads from it, so a program that only waits for keys counts as idle.
 */
export function isHeldByOneTimer(host = (globalThis as { process?: Host }).process): boolean {
  const active = host?.getActiveResourcesInfo?.().filter((name) => name !== "TTYWrap");
  return active?.length === 1 && active[0] === "Timeout";
}
